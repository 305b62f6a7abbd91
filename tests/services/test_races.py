"""Two at once: whoever is second changes nothing, and nothing is lost between them (P1, P4, P5).

Real threads with connections of their own; the same tests run on SQLite and PostgreSQL.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from sagents_app.engine import Approve, Halt, Reject, tool
from sagents_app.engine.deltas import FinishDelta, TextDelta
from sagents_app.engine.errors import Overloaded
from sagents_app.engine.middlewares import Haltable, HumanInTheLoop
from sagents_app.models import (
    AgentMessage,
    Conversation,
    Event,
    InboxMessage,
    Interrupt,
    InterruptDecision,
    Run,
    ToolExecution,
)
from sagents_app.services import conversations, interrupts, live, runs
from sagents_app.services.errors import AlreadyDecided, NothingToDo
from tests.world import (
    Gate,
    begin,
    call,
    calls,
    chat,
    check_invariants,
    drive,
    event_types,
    eventually,
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
RAN: list[int] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@tool
async def pay(amount: int) -> str:
    """Pay."""
    RAN.append(amount)
    return f"Paid {amount}."


@tool
async def stop(message: str) -> Halt:
    """Stop the workflow."""
    return Halt(message)


def user_texts() -> list[list[str]]:
    data = [row.data for row in AgentMessage.objects.order_by("position")]
    return [[part["text"] for part in one["content"]] for one in data if one["role"] == "user"]


def say(conversation: Conversation, text: str) -> InboxMessage:
    return conversations.post_message(
        conversation=conversation, text=text, actor=conversation.owner
    )


def test_a_run_that_is_delivered_twice_is_driven_once():
    """CD-50, SM-06, CD-27, B094."""
    gate = Gate()
    model = register("plain", gate.before("Hello."))
    conversation = begin("plain", person())
    run = Run.objects.get()
    with in_thread(runs.drive_run, run_id=run.pk):
        gate.wait()
        runs.drive_run(run_id=run.pk)
        gate.open()
    assert len(model.requests) == 1
    assert transcript(conversation) == ["user text: hi", "assistant text: Hello."]
    assert Run.objects.get().attempt == 1
    check_invariants(conversation)


def test_of_two_workers_at_the_same_instant_one_gets_the_run():
    """SM-05, CD-01."""
    model = register("plain", "Hello.")
    conversation = begin("plain", person())
    run = Run.objects.get()
    together(*[lambda: runs.drive_run(run_id=run.pk)] * 3)
    assert len(model.requests) == 1
    assert transcript(conversation) == ["user text: hi", "assistant text: Hello."]
    check_invariants(conversation)


def test_two_messages_at_once_are_one_run_and_one_queued_message():
    """B100."""
    register("plain", "Hello.", "Again.")
    conversation = conversations.create_conversation(agent="plain", owner=person())
    results = together(lambda: say(conversation, "one"), lambda: say(conversation, "two"))
    assert all(isinstance(result, InboxMessage) for result in results), results
    assert Run.objects.count() == 1
    drive(conversation)
    assert sorted(text for part in user_texts() for text in part) == ["one", "two"]
    check_invariants(conversation)


def test_two_clicks_with_one_client_id_are_one_message():
    register("plain", "Hello.")
    conversation = conversations.create_conversation(agent="plain", owner=person())

    def click() -> InboxMessage:
        return conversations.post_message(
            conversation=conversation, text="hi", actor=conversation.owner, client_id="a"
        )

    first, second = together(click, click)
    assert first == second
    assert transcript(conversation) == ["user text: hi"]


def test_of_two_reviewers_one_decides_and_the_tool_runs_once():
    """CD-56, IR-08, B021."""
    asks = calls(call("c1", "pay", amount=5))
    register("gated", asks, "Done.", tools=[pay], middlewares=[HumanInTheLoop({"pay": True})])
    conversation = chat("gated", person())
    (row,) = pending(conversation)
    rita, rob = reviewer(), reviewer("rob")

    def decide(decision, actor):
        return interrupts.decide_interrupt(
            interrupt=row, decision=decision, actor=actor, digest=row.digest
        )

    results = together(lambda: decide(Approve(), rita), lambda: decide(Reject(), rob))
    assert sorted(type(result) for result in results if isinstance(result, Exception)) == [
        AlreadyDecided
    ]
    drive(conversation)
    row.refresh_from_db()
    assert ([5] if row.status == "approved" else []) == RAN
    outcomes = sorted(InterruptDecision.objects.values_list("outcome", flat=True))
    assert outcomes == ["accepted", "refused"]
    check_invariants(conversation)


def test_a_halt_may_be_dismissed_and_written_to_at_once():
    """CD-59."""
    asks = calls(call("c1", "stop", message="Stop."))
    register("strict", asks, "Fine.", tools=[stop], middlewares=[Haltable()])
    conversation = chat("strict", person())
    (row,) = pending(conversation)
    results = together(
        lambda: interrupts.dismiss_halt(interrupt=row, actor=conversation.owner),
        lambda: say(conversation, "next"),
    )
    assert {type(result) for result in results} <= {type(None), InboxMessage, NothingToDo}
    drive(conversation)
    assert transcript(conversation).count("assistant halt: Stop.") == 1
    assert statuses(conversation)[-2:] == ["running", "idle"]
    check_invariants(conversation)


def test_a_message_while_running_is_visible_at_once_and_answered_without_a_flicker():
    """MT-13, MT-14, MT-22, CR-12, B076."""
    gate = Gate()
    model = register("plain", gate.before("First."), "Both read.")
    conversation = begin("plain", person())
    with in_thread(drive, conversation):
        gate.wait()
        say(conversation, "wait")
        say(conversation, "and more")
        assert transcript(conversation)[-1] == "user text: and more [queued]"
        gate.open()
    assert [request.messages[-1].text for request in model.requests] == ["hi", "wait\nand more"]
    assert statuses(conversation) == ["running", "running", "idle"]
    assert event_types(conversation).count("message_queued") == 2
    assert transcript(conversation) == [
        "user text: hi",
        "user text: wait",
        "user text: and more",
        "assistant text: First.",
        "assistant text: Both read.",
    ]
    assert Run.objects.count() == 2
    check_invariants(conversation)


@pytest.mark.parametrize("attempt", range(5))
def test_a_message_at_the_very_end_of_a_run_is_answered_exactly_once(attempt):
    """CD-55: drained by the end, or starting a run of its own; never neither, never both."""
    gate = Gate()
    register("plain", gate.before("First."), "Second.")
    conversation = begin("plain", person())
    with in_thread(drive, conversation):
        gate.wait()
        together(gate.open, lambda: say(conversation, "late"))
    drive(conversation)
    assert user_texts() == [["hi"], ["late"]]
    assert transcript(conversation).count("assistant text: Second.") == 1
    assert conversation.status == "idle"
    check_invariants(conversation)


def test_a_failed_run_keeps_what_was_queued_for_the_next_one():
    """MT-16: in the order in which it was written."""
    gate = Gate()
    register("shaky", gate.before(Overloaded("busy")), "Here.")
    conversation = begin("shaky", person())
    with in_thread(drive, conversation):
        gate.wait()
        say(conversation, "and this")
        gate.open()
    conversation.refresh_from_db()
    assert conversation.status == "error"
    assert InboxMessage.objects.filter(status="queued").count() == 1
    say(conversation, "hello?")
    drive(conversation)
    assert user_texts() == [["hi"], ["and this", "hello?"]]
    check_invariants(conversation)


def test_a_halt_does_not_hold_what_was_written_before_it():
    gate = Gate()
    asks = calls(call("c1", "stop", message="Stop."))
    register("strict", gate.before(asks), "Fine.", tools=[stop], middlewares=[Haltable()])
    conversation = begin("strict", person())
    with in_thread(drive, conversation):
        gate.wait()
        say(conversation, "something else")
        gate.open()
    assert statuses(conversation) == ["running", "interrupted", "running", "idle"]
    assert Interrupt.objects.get().status == "superseded"
    assert transcript(conversation).count("assistant halt: Stop.") == 1
    check_invariants(conversation)


class TestCancelling:
    def test_a_streaming_reply_stops_and_its_text_stays(self):
        """SM-16, B068, MT-25, CR-04, CR-14."""
        gate = Gate()

        async def endless(request):
            await gate.before(None)(request)
            return [TextDelta("never shown")]

        model = register("talker", [TextDelta("x")])

        async def stream(request):
            yield (TextDelta("Half an "),)
            yield (TextDelta("answer"),)
            await endless(request)

        model.stream = stream
        conversation = begin("talker", person())
        with in_thread(drive, conversation):
            gate.wait()
            eventually(lambda: Event.objects.filter(type="deltas").exists())
            runs.cancel_run(conversation=conversation, actor=conversation.owner)
            runs.cancel_run(conversation=conversation, actor=conversation.owner)
            conversation.refresh_from_db()
            assert conversation.status == "running"
        conversation.refresh_from_db()
        assert conversation.status == "cancelled"
        assert transcript(conversation) == [
            "user text: hi",
            "assistant text: Half an answer",
            "system notification: The agent was stopped.",
        ]
        assert rows(conversation, "text")[1].content["stop_reason"] == "cancelled"
        assert event_types(conversation).count("cancel_requested") == 1
        assert live.partial(conversation.pk) is None
        check_invariants(conversation)

    def test_a_tool_under_way_is_cut_off_and_its_siblings_results_stay(self):
        """B055."""
        started = threading.Event()

        @tool(parallel=True)
        async def endless() -> str:
            """Never end."""
            started.set()
            await asyncio.sleep(60)
            return "never"

        batch = calls(call("c1", "pay", amount=1), call("c2", "endless"))
        register("busy", batch, "Fine.", tools=[pay, endless])
        conversation = begin("busy", person())
        with in_thread(drive, conversation):
            assert started.wait(10)
            eventually(lambda: ToolExecution.objects.filter(status="finished").exists())
            runs.cancel_run(conversation=conversation, actor=conversation.owner)
        conversation.refresh_from_db()
        assert conversation.status == "cancelled"
        shown = {row.tool_call_id: row.status for row in rows(conversation, "tool_call")}
        assert shown == {"c1": "completed", "c2": "cancelled"}
        assert ToolExecution.objects.get(call_id="c2").status == "started"
        check_invariants(conversation)
        say(conversation, "go on")
        drive(conversation)
        assert conversation.status == "idle"
        check_invariants(conversation)

    @pytest.mark.parametrize("attempt", range(5))
    def test_cancel_and_finish_have_one_winner(self, attempt):
        """CD-54."""
        gate = Gate()
        register("plain", gate.before("Hello."))
        conversation = begin("plain", person())
        with in_thread(drive, conversation):
            gate.wait()
            together(
                gate.open,
                lambda: runs.cancel_run(conversation=conversation, actor=conversation.owner),
            )
        conversation.refresh_from_db()
        shown = transcript(conversation)
        notice = "system notification: The agent was stopped."
        assert (conversation.status, notice in shown) in (("idle", False), ("cancelled", True))
        check_invariants(conversation)


def test_a_conversation_that_is_deleted_while_it_runs_leaves_nothing_behind():
    """CD-68."""
    gate = Gate()
    register("plain", gate.before("Hello."))
    conversation = begin("plain", person())
    with in_thread(runs.drive_run, run_id=Run.objects.get().pk) as driven:
        gate.wait()
        conversations.delete_conversation(conversation=conversation, actor=conversation.owner)
        gate.open()
    assert driven.result() is None
    assert not Conversation.objects.exists()
    assert not AgentMessage.objects.exists()
    assert not Event.objects.exists()


def test_a_page_that_joins_in_the_middle_sees_what_has_streamed_and_misses_nothing():
    """SE-09, SE-10, SE-33."""
    first, second = Gate(), Gate()
    model = register("talker", "x")

    async def stream(request):
        for text in ("One ", "two "):
            yield (TextDelta(text),)
        await first.before(None)(request)
        yield (TextDelta("three"),)
        await second.before(None)(request)
        yield (FinishDelta(),)

    model.stream = stream
    conversation = begin("talker", person())
    with in_thread(drive, conversation):
        first.wait()
        eventually(lambda: live.partial(conversation.pk)["text"] == "One two ")
        snapshot = live.snapshot(conversation)
        assert snapshot["stream"]["text"] == "One two "
        assert [row["content"]["text"] for row in snapshot["messages"]] == ["hi"]
        first.open()
        second.wait()
        eventually(lambda: live.partial(conversation.pk)["text"] == "One two three")
        batch = live.events_since(conversation.pk, snapshot["number"])
        assert batch.start == snapshot["number"] + 1
        (more,) = [event for event in batch.events if event["type"] == "deltas"]
        assert (more["offset"], more["text"]) == (8, "three")
        assert more["stream"] == snapshot["stream"]["stream"]
        second.open()
    after = live.events_since(conversation.pk, snapshot["number"])
    saved = [one for one in after.events if one["type"] == "display_message_saved"]
    assert [one["message"]["content"]["text"] for one in saved] == ["One two three"]
    assert after.end == live.snapshot(conversation)["number"]
    assert live.events_since(conversation.pk, after.end).events == ()
    assert live.events_since(conversation.pk, after.end + 1) is None
