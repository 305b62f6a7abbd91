"""The recorder: nothing that was told of is lost, and no failure to write it goes unnoticed."""

from __future__ import annotations

import asyncio
import threading

import pytest

from sagents_app.engine import Message
from sagents_app.engine.deltas import TextDelta
from sagents_app.engine.events import Deltas, MessageAdded, ToolCallSeen
from sagents_app.models import AgentMessage, Conversation, Event, Run
from sagents_app.services import agents, lease, recorder, states
from sagents_app.services import ledger as ledgers
from sagents_app.services.background import Jobs
from sagents_app.services.errors import LeaseLost
from sagents_app.services.recorder import Recorder
from tests.world import begin, person, register, rows

pytestmark = pytest.mark.django_db


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


@pytest.fixture
def recording(jobs: Jobs):
    register("plain", "Hello.")
    conversation = begin("plain", person())
    run, held = lease.claim_run(Run.objects.get().pk, "test")
    yield Recorder(
        run=run,
        lease=held,
        jobs=jobs,
        agent=agents.build(conversation),
        state=states.load_state(conversation),
    )
    lease.forget(held)


def lose_the_lease() -> None:
    Conversation.objects.update(lease_token="00000000-0000-4000-8000-000000000000")


async def until_it_writes(recording: Recorder) -> None:
    async with asyncio.timeout(10):
        while not recording._writing.locked():  # noqa: ASYNC110  # a lock tells nobody
            await asyncio.sleep(0.001)


def test_a_flush_that_fails_while_the_turn_ends_is_noticed(jobs, recording):
    """The end may not be written by somebody whose last write was lost."""
    hold = threading.Event()

    async def work() -> None:
        await recording.on_event(Deltas((TextDelta("a"),)))
        await jobs.run(lose_the_lease)
        await recording.on_event(Deltas((TextDelta("b"),)))
        held = asyncio.create_task(jobs.run(hold.wait))
        await until_it_writes(recording)
        closing = asyncio.create_task(recording.close())
        await asyncio.sleep(0)
        hold.set()
        await asyncio.gather(held, closing)

    jobs.serve(work())
    assert isinstance(recording.failure, LeaseLost)


def test_after_a_failure_every_further_event_raises_it(jobs, recording):
    async def work() -> None:
        await jobs.run(lose_the_lease)
        with pytest.raises(LeaseLost):
            await recording.on_event(Deltas((TextDelta("a"),)))
        with pytest.raises(LeaseLost):
            await recording.on_event(MessageAdded(Message.assistant("a")))

    jobs.serve(work())
    assert not Event.objects.filter(type="deltas").exists()


def test_what_a_failed_transaction_took_is_written_by_the_next(jobs, recording):
    def fail(book: ledgers.Ledger) -> None:
        raise ZeroDivisionError

    async def work() -> None:
        await recording.on_event(ToolCallSeen("note", 0))
        await recording.on_event(MessageAdded(Message.assistant("Hello.")))
        with pytest.raises(ZeroDivisionError):
            await recording._record(fail)
        assert await jobs.run(AgentMessage.objects.count) == 0
        await recording._record(recorder._nothing_more)

    jobs.serve(work())
    assert AgentMessage.objects.count() == 1
    assert [row.content["text"] for row in rows(Conversation.objects.get(), "text")] == [
        "hi",
        "Hello.",
    ]
    told = list(Event.objects.values_list("type", flat=True))
    assert told.count("tool_call_identified") == 1
