"""A worker that is lost: the next one reads the rows, and each effect happens once (P3, P8).

A lost worker is played by one whose lease is taken away while its tool runs: it writes no more.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from sagents_app.engine import Approve, Edit, Paused, Reject, Respond, ToolContext, ToolOutput, tool
from sagents_app.engine.deltas import FinishDelta, TextDelta
from sagents_app.engine.middlewares import HumanInTheLoop
from sagents_app.engine.modes import pipeline
from sagents_app.engine.steps import call_model, continue_or_done
from sagents_app.models import (
    Conversation,
    DisplayMessage,
    Event,
    Interrupt,
    Run,
    SavedState,
    ToolExecution,
)
from sagents_app.services import conversations, interrupts, lease, live, queue, recovery, runs
from sagents_app.services import ledger as ledgers
from sagents_app.services.errors import ConversationBusy, LeaseLost
from tests.world import (
    Gate,
    begin,
    call,
    calls,
    chat,
    check_invariants,
    drive,
    eventually,
    history,
    in_thread,
    pending,
    person,
    register,
    reviewer,
    rows,
    statuses,
    together,
    transcript,
)

pytestmark = pytest.mark.django_db(transaction=True)
RAN: list[Any] = []
KEYS: list[str] = []
LOSES: list[bool] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()
    KEYS.clear()
    LOSES.clear()


def lose_the_worker(conversation_id: str) -> None:
    """Do what happens when a worker freezes past its lease: somebody else may claim."""
    Conversation.objects.filter(pk=conversation_id).update(
        lease_token="00000000-0000-4000-8000-000000000000", lease_until=Now() - timedelta(seconds=1)
    )


def effect(name: str, ctx: ToolContext) -> str:
    RAN.append(name)
    KEYS.append(ctx.idempotency_key)
    if LOSES and LOSES.pop():
        lose_the_worker(ctx.conversation_id)
    return f"{name} done."


@tool
def send(to: str, ctx: ToolContext) -> str:
    """Send a mail, which cannot be taken back."""
    return effect(f"send to {to}", ctx)


@tool(retry_safe=True)
def put(ctx: ToolContext) -> str:
    """Put a value, which may be done twice."""
    return effect("put", ctx)


@tool
def remember(word: str, ctx: ToolContext) -> ToolOutput:
    """Remember a word."""
    RAN.append(word)
    return ToolOutput("Remembered.", state={"metadata": {"word": word}})


TOOLS = [send, put, remember]


def lost(*batch: Any, more: Any = ("Done.",), **configuration: Any) -> Conversation:
    """A conversation whose worker was lost in the middle of a tool of this batch."""
    LOSES.append(True)
    register("worker", calls(*batch), *more, tools=TOOLS, **configuration)
    conversation = begin("worker", person())
    drive(conversation)
    assert Run.objects.live().get().status == "running"
    assert conversation.status == "running"
    return conversation


def decide(row: Interrupt, decision: Any) -> None:
    interrupts.decide_interrupt(
        interrupt=row, decision=decision, actor=reviewer(), digest=row.digest
    )


def test_a_worker_that_lost_its_lease_writes_nothing_more():
    """SM-07, CD-29, P1."""
    conversation = lost(call("c1", "send", to="bob"))
    assert RAN == ["send to bob"]
    assert history(conversation) == ["U", "A(c1)"]
    assert ToolExecution.objects.get().status == "started"
    assert rows(conversation, "tool_result") == []
    assert lease.held() == []


def test_a_call_whose_outcome_nobody_knows_is_shown_to_a_person_and_not_run_again():
    """CD-52, IR-26."""
    conversation = lost(call("c1", "send", to="bob"))
    drive(conversation)
    assert RAN == ["send to bob"]
    assert conversation.status == "interrupted"
    (row,) = pending(conversation)
    assert (row.kind, row.tool_name) == ("unknown_outcome", "send")
    assert row.allowed_decisions == ["respond", "reject", "approve"]
    check_invariants(conversation)


@pytest.mark.parametrize(
    ("decision", "ran", "result"),
    [
        (Respond("The mail is there."), 1, "The mail is there."),
        (Reject(), 1, "not carried out"),
        (Approve(), 2, "send to bob done."),
    ],
    ids=["done", "not done", "run again"],
)
def test_the_person_says_what_became_of_it(decision, ran, result):
    conversation = lost(call("c1", "send", to="bob"))
    drive(conversation)
    decide(pending(conversation)[0], decision)
    drive(conversation)
    assert len(RAN) == ran
    assert len(set(KEYS)) == 1
    assert result in rows(conversation, "tool_result")[0].content["content"]
    assert conversation.status == "idle"
    check_invariants(conversation)


def test_a_call_that_may_be_repeated_is_run_again_under_its_key():
    conversation = lost(call("c1", "put"))
    drive(conversation)
    assert RAN == ["put", "put"]
    assert len(set(KEYS)) == 1
    assert ToolExecution.objects.get().attempts == 2
    assert history(conversation) == ["U", "A(c1)", "T(c1)", "A"]
    assert conversation.status == "idle"
    check_invariants(conversation)


def test_what_had_finished_before_is_not_run_again():
    """B007, PS-30."""
    conversation = lost(call("c1", "put"), more=(calls(call("c2", "put")), "Done."))
    LOSES.append(True)
    drive(conversation)  # is lost once more, in the same call
    drive(conversation)
    assert history(conversation) == ["U", "A(c1)", "T(c1)", "A(c2)", "T(c2)", "A"]
    executions = ToolExecution.objects.values_list("call_id", "attempts")
    assert dict(executions) == {"c1": 3, "c2": 1}
    check_invariants(conversation)


def test_an_approval_is_for_one_execution():
    """P3, P4: a call that was approved and then lost is not run again on the same approval."""
    register(
        "worker",
        calls(call("c1", "send", to="bob")),
        "Done.",
        tools=TOOLS,
        middlewares=[HumanInTheLoop({"send": True})],
    )
    conversation = chat("worker", person())
    (row,) = pending(conversation)
    interrupts.decide_interrupt(
        interrupt=row, decision=Edit({"to": "eve"}), actor=reviewer("rob"), digest=row.digest
    )
    LOSES.append(True)
    drive(conversation)
    assert RAN == ["send to eve"]
    drive(conversation)
    assert RAN == ["send to eve"]
    (asked,) = pending(conversation)
    assert asked.kind == "unknown_outcome"
    assert asked.arguments == '{"to":"eve"}'
    decide(asked, Approve())
    drive(conversation)
    assert RAN == ["send to eve", "send to eve"]
    assert len(set(KEYS)) == 1
    assert conversation.status == "idle"
    check_invariants(conversation)


def test_what_a_tool_changed_in_the_state_survives_the_loss_of_a_later_call():
    """P2, P11: the change is stored with the message in which it counts as applied."""
    first = calls(call("c1", "remember", word="tea"))
    register("worker", first, calls(call("c2", "put")), "Done.", tools=TOOLS)
    LOSES.append(True)
    conversation = begin("worker", person())
    drive(conversation)
    assert SavedState.objects.get().data["metadata"] == {"word": "tea"}
    drive(conversation)
    assert SavedState.objects.get().data["metadata"] == {"word": "tea"}
    assert RAN == ["tea", "put", "put"]
    assert conversation.status == "idle"


def test_a_message_after_a_poisoned_run_finds_a_usable_conversation(settings):
    """CD-30, B095: K attempts, then an error row; the next message is answered."""
    settings.SAGENTS_MAX_ATTEMPTS = 2
    conversation = lost(call("c1", "put"), more=("Here I am.",))
    LOSES.append(True)
    drive(conversation)
    drive(conversation)
    assert conversation.status == "error"
    assert Run.objects.get().status == "failed"
    assert "lost 2 times" in rows(conversation, "error")[0].content["text"]
    assert [row.status for row in rows(conversation, "tool_call")] == ["cancelled"]
    check_invariants(conversation)
    conversations.post_message(conversation=conversation, text="hello?", actor=conversation.owner)
    drive(conversation)
    assert conversation.status == "idle"
    assert history(conversation) == ["U", "A(c1)", "T(c1)", "U", "A"]
    check_invariants(conversation)


def test_a_run_whose_end_cannot_be_written_lets_its_lease_go_and_is_tried_again(settings):
    """P1, CD-30: whatever goes wrong, nobody holds a conversation for ever."""
    settings.SAGENTS_MAX_ATTEMPTS = 2
    register("plain", "Hello.", "Hello.", "Hello.")
    conversation = begin("plain", person())
    conversation.refresh_from_db()
    in_the_way = DisplayMessage.objects.create(
        conversation=conversation,
        number=conversation.next_display_number,
        message_type="system",
        content_type="notification",
    )
    for _ in range(2):
        drive(conversation)
        assert conversation.status == "running"
        assert conversation.lease_token is None
        assert lease.held() == []
    in_the_way.delete()
    drive(conversation)
    assert conversation.status == "error"
    check_invariants(conversation)


class TestStreams:
    def streaming(self, gate: Gate) -> Conversation:
        model = register("talker", "x")
        asked: list[int] = []

        async def stream(request):
            asked.append(1)
            if len(asked) == 1:
                yield (TextDelta("Half an "),)
                await gate.before(None)(request)
            yield (TextDelta("answer"),)
            yield (FinishDelta(),)

        model.stream = stream
        return begin("talker", person())

    def test_the_text_of_a_lost_worker_is_a_row_before_the_next_attempt(self):
        """CD-53, CD-21."""
        gate = Gate()
        conversation = self.streaming(gate)
        with in_thread(drive, conversation):
            gate.wait()
            eventually(lambda: live.partial(conversation.pk))
            lose_the_worker(conversation.pk)
            gate.open()
        drive(conversation)
        assert transcript(conversation) == [
            "user text: hi",
            "assistant text: Half an ",
            "assistant text: answer",
        ]
        assert rows(conversation, "text")[1].content["stop_reason"] == "stream_error"
        assert history(conversation) == ["U", "A"]
        assert live.partial(conversation.pk) is None
        check_invariants(conversation)

    def test_a_cancel_that_no_worker_answers_is_carried_out_by_the_sweep(self, settings):
        """P1: a frozen worker's token is worth nothing any more."""
        settings.SAGENTS_CANCEL_GRACE_SECONDS = 0.01
        gate = Gate()
        conversation = self.streaming(gate)
        with in_thread(drive, conversation):
            gate.wait()
            eventually(lambda: live.partial(conversation.pk))
            Run.objects.update(cancel_requested_at=timezone.now() - timedelta(minutes=1))
            recovery.sweep()
            conversation.refresh_from_db()
            assert conversation.status == "cancelled"
            before = conversation.next_event_number
            gate.open()
        conversation.refresh_from_db()
        assert conversation.next_event_number == before
        assert transcript(conversation)[1:] == [
            "assistant text: Half an ",
            "system notification: The agent was stopped.",
        ]
        check_invariants(conversation)

    def test_a_cancel_of_a_run_whose_worker_is_dead_ends_it_at_once(self):
        conversation = lost(call("c1", "send", to="bob"))
        runs.cancel_run(conversation=conversation, actor=conversation.owner)
        conversation.refresh_from_db()
        assert conversation.status == "cancelled"
        assert [row.status for row in rows(conversation, "tool_call")] == ["cancelled"]
        assert "not known" in rows(conversation, "tool_result")[0].content["content"]
        assert history(conversation) == ["U", "A(c1)", "T(c1)"]
        check_invariants(conversation)
        drive(conversation)
        assert RAN == ["send to bob"]

    def test_a_cancel_that_came_while_nobody_drove_is_carried_out_at_the_claim(self):
        conversation = lost(call("c1", "send", to="bob"))
        Run.objects.update(cancel_requested_at=timezone.now())
        drive(conversation)
        assert conversation.status == "cancelled"
        assert RAN == ["send to bob"]
        check_invariants(conversation)


class TestTheSweep:
    """CD-22, CD-38, CD-60, B095: the database alone says what is to be done."""

    def test_a_run_that_the_broker_did_not_take_is_sent_after_a_moment(self):
        register("plain", "Hello.")
        begin("plain", person())
        assert recovery.sweep() == []
        Run.objects.update(sent_at=None, created_at=timezone.now() - timedelta(seconds=6))
        assert recovery.sweep() == [Run.objects.get().pk]
        assert recovery.sweep() == []

    def test_a_run_of_which_no_broker_has_word_any_more_is_sent_again(self):
        register("plain", "Hello.")
        begin("plain", person())
        Run.objects.update(sent_at=timezone.now() - timedelta(seconds=31))
        assert len(recovery.sweep()) == 1
        assert recovery.sweep() == []

    def test_a_new_broker_in_memory_is_given_everything_at_once(self):
        register("plain", "Hello.")
        begin("plain", person())
        assert len(recovery.sweep(first=True)) == 1

    def test_a_lost_worker_is_noticed_by_its_lease(self):
        conversation = lost(call("c1", "put"))
        assert len(recovery.sweep()) == 1
        Conversation.objects.update(lease_until=Now() + timedelta(seconds=30))
        assert recovery.sweep() == []
        assert conversation.pk

    def test_one_process_at_a_time_sweeps(self):
        register("plain", "Hello.")
        begin("plain", person())
        Run.objects.update(sent_at=None, created_at=timezone.now() - timedelta(seconds=6))
        assert len(recovery.sweep_if_due()) == 1
        Run.objects.update(sent_at=None)
        assert recovery.sweep_if_due() == []

    def test_a_pause_ends_by_itself_and_lasts_longer_each_time(self):
        async def rest(turn):
            return Paused(turn.state, "quota")

        register("slow", "x", mode=pipeline(rest, call_model, continue_or_done))
        conversation = chat("slow", person())
        waits = []
        for _ in range(3):
            run = Run.objects.order_by("-created_at").first()
            waits.append(round((run.wake_at - run.finished_at).total_seconds()))
            assert recovery.sweep() == []
            conversation.refresh_from_db()
            assert conversation.status == "paused"
            Run.objects.filter(pk=run.pk).update(wake_at=timezone.now())
            recovery.sweep()
            conversation.refresh_from_db()
            assert conversation.status == "running"
            drive(conversation)
        assert waits == [15, 30, 60]
        assert statuses(conversation)[-2:] == ["running", "paused"]

    def test_its_thread_starts_once_and_ends_when_told_to(self):
        recovery.start()
        recovery.start()
        named = [thread for thread in threading.enumerate() if thread.name == "sagents-sweep"]
        assert len(named) == 1
        recovery.stop()
        eventually(lambda: not named[0].is_alive())


class TestTheLease:
    def test_it_is_renewed_while_work_goes_on_and_by_nobody_else(self, settings):
        """B005, CD-27: a slow tool keeps its lease by time, not by steps."""
        settings.SAGENTS_LEASE_SECONDS, settings.SAGENTS_HEARTBEAT_SECONDS = 1.5, 0.3
        gate = Gate()
        register("plain", gate.before("Hello."))
        conversation = begin("plain", person())
        with in_thread(drive, conversation):
            gate.wait()
            conversation.refresh_from_db()
            first = conversation.lease_until

            def renewed() -> bool:
                conversation.refresh_from_db()
                return conversation.lease_until > first + timedelta(seconds=1.5)

            eventually(renewed)
            runs.drive_run(run_id=Run.objects.get().pk)
            gate.open()
        conversation.refresh_from_db()
        assert (conversation.status, Run.objects.get().attempt) == ("idle", 1)

    def test_a_worker_that_lost_it_stops_by_itself(self, settings):
        settings.SAGENTS_LEASE_SECONDS, settings.SAGENTS_HEARTBEAT_SECONDS = 1.0, 0.1
        gate = Gate()
        register("plain", gate.before("Hello."))
        conversation = begin("plain", person())
        with in_thread(drive, conversation) as driven:
            gate.wait()
            lose_the_worker(conversation.pk)
            driven.result(10)  # without the gate being opened
        assert transcript(conversation) == ["user text: hi"]

    def test_a_service_takes_it_for_one_transaction_or_says_busy(self):
        register("plain", "Hello.")
        conversation = conversations.create_conversation(agent="plain", owner=person())
        with lease.short(conversation.pk) as held:
            with ledgers.write(conversation.pk, token=held.token) as book:
                book.event("custom", {"name": "x", "data": None})
            with pytest.raises(ConversationBusy), lease.short(conversation.pk):
                pass
        with lease.short(conversation.pk):
            pass
        with pytest.raises(LeaseLost), ledgers.write(conversation.pk, token=held.token):
            pass
        assert Event.objects.count() == 1


def test_events_of_two_writers_have_no_hole_and_no_repeat():
    """SE-07, I4."""
    register("plain", "Hello.")
    conversation = conversations.create_conversation(agent="plain", owner=person())

    def write() -> None:
        for _ in range(20):
            with ledgers.write(conversation.pk) as book:
                book.event("custom", {"name": "x", "data": None})

    assert together(write, write, write) == [None] * 3
    numbers = Event.objects.order_by("number").values_list("number", flat=True)
    assert list(numbers) == list(range(1, 61))
    check_invariants(conversation)


def test_nothing_is_announced_that_was_rolled_back():
    """CD-61."""
    register("plain", "Hello.")
    conversation = conversations.create_conversation(agent="plain", owner=person())

    def fail() -> None:
        with ledgers.write(conversation.pk) as book:
            queue.start_run(book, trigger=Run.Trigger.MESSAGE, actor=None)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not Run.objects.exists()
    assert not Event.objects.exists()
