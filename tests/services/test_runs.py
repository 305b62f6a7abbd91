"""A posted message is driven to its end, in rows."""

from __future__ import annotations

import pytest

from sagents_app.engine import AgentState, Message, TokenUsage, ToolOutput, tool
from sagents_app.engine.deltas import (
    FinishDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from sagents_app.engine.errors import Overloaded
from sagents_app.engine.middlewares import HumanInTheLoop
from sagents_app.models import AgentMessage, Conversation, Event, Run, SavedState, ToolExecution
from sagents_app.services import conversations, live, runs, states
from sagents_app.services.errors import NotAllowed, NothingToDo
from tests.world import (
    begin,
    call,
    calls,
    chat,
    check_invariants,
    drive,
    event_types,
    history,
    operator,
    person,
    register,
    register_broken,
    rows,
    statuses,
    transcript,
)

pytestmark = pytest.mark.django_db


@tool
async def note(text: str) -> str:
    """Take a note."""
    return f"Noted {text}."


@tool
async def fail() -> str:
    """Fail."""
    raise ValueError("no paper")


@tool
async def drain_while_running() -> str:
    """Have the worker shut down while this runs."""
    runs.request_drain()
    return "still here"


def test_posting_returns_with_the_conversation_running_and_nothing_driven_yet():
    """SM-04."""
    model = register("plain", "Hello Ann.")
    conversation = begin("plain", person())
    conversation.refresh_from_db()
    assert conversation.status == "running"
    assert model.requests == []
    assert Run.objects.get().status == "queued"


def test_an_answer_is_a_row_and_the_conversation_is_idle_again():
    """SM-08, MT-01."""
    register("plain", "Hello Ann.")
    conversation = chat("plain", person())
    assert transcript(conversation) == ["user text: hi", "assistant text: Hello Ann."]
    assert history(conversation) == ["U", "A"]
    assert statuses(conversation) == ["running", "idle"]
    check_invariants(conversation)


def test_a_tool_call_has_its_row_its_result_and_the_model_goes_on():
    """PS-16, SE-22."""
    register(
        "notes", calls(call("c1", "note", text="x"), text="One moment."), "Done.", tools=[note]
    )
    conversation = chat("notes", person())
    assert transcript(conversation) == [
        "user text: hi",
        "assistant text: One moment.",
        "assistant tool_call: note",
        "tool tool_result: Noted x.",
        "assistant text: Done.",
    ]
    assert history(conversation) == ["U", "A(c1)", "T(c1)", "A"]
    assert Run.objects.get().model_calls == 2
    assert ToolExecution.objects.get().status == "finished"
    check_invariants(conversation)


def test_one_message_is_many_rows_in_a_fixed_order():
    """MT-05, CR-06."""
    reply = [
        TextDelta("Look.", index=1),
        ThinkingDelta(text="Hm.", index=0),
        ToolCallDelta(index=2, call_id="a", name="note", arguments='{"text": "1"}'),
        ToolCallDelta(index=3, call_id="b", name="note", arguments='{"text": "2"}'),
    ]
    register("thinker", reply, "Done.", tools=[note])
    conversation = chat("thinker", person())
    shown = [row.content_type for row in rows_by_number(conversation)]
    assert shown[:5] == ["text", "thinking", "text", "tool_call", "tool_call"]


def rows_by_number(conversation):
    return list(conversation.display_messages.order_by("number"))


def test_an_empty_reply_has_no_row():
    """MT-04, MT-07."""
    register("silent", Message.assistant(None))
    conversation = chat("silent", person())
    assert transcript(conversation) == ["user text: hi"]
    assert conversation.status == "idle"


def test_a_tool_that_fails_says_so_and_the_run_goes_on():
    """MT-41."""
    register("clumsy", calls(call("c1", "fail")), "Sorry.", tools=[fail])
    conversation = chat("clumsy", person())
    assert [row.status for row in rows(conversation, "tool_call")] == ["failed"]
    assert rows(conversation, "tool_result")[0].content["is_error"] is True
    assert conversation.status == "idle"


def test_a_tool_that_does_not_exist_settles_its_row_too():
    register("lost", calls(call("c1", "nothing")), "Sorry.")
    conversation = chat("lost", person())
    assert [row.status for row in rows(conversation, "tool_call")] == ["failed"]
    check_invariants(conversation)


def test_progress_is_told_in_order_and_every_named_row_is_there():
    """MT-39, SE-08."""
    register("notes", calls(call("c1", "note", text="x")), "Done.", tools=[note])
    conversation = chat("notes", person())
    told = [
        payload["status"]
        for payload in Event.objects.filter(type="tool_execution_update").values_list(
            "payload", flat=True
        )
    ]
    assert told == ["executing", "completed"]
    named = {
        event.payload["message"]["id"]
        for event in Event.objects.filter(type__startswith="display_message")
    }
    assert named == {str(row.pk) for row in rows_by_number(conversation)}


def test_a_failing_model_ends_in_an_error_row_and_the_next_message_runs():
    """SM-10, SM-14, MT-26."""
    register("shaky", Overloaded("try later"), "Here I am.")
    owner = person()
    conversation = chat("shaky", owner)
    assert conversation.status == "error"
    (error,) = rows(conversation, "error")
    assert error.content["error_type"] == Overloaded.type
    assert "Try again in a moment" in error.content["text"]
    run = Run.objects.get()
    assert (run.status, run.error_type) == ("failed", Overloaded.type)
    conversations.post_message(conversation=conversation, text="again", actor=owner)
    drive(conversation)
    assert statuses(conversation) == ["running", "error", "running", "idle"]
    check_invariants(conversation)


def test_the_text_of_a_dead_stream_stays_and_no_error_row_stands_on_top():
    """MT-27, SE-20, CR-01, CR-08, B074."""
    register("cut", [TextDelta("Partial answ"), Overloaded("busy")])
    conversation = chat("cut", person())
    assert transcript(conversation) == ["user text: hi", "assistant text: Partial answ"]
    assert rows(conversation, "text")[1].content["stop_reason"] == "stream_error"
    assert AgentMessage.objects.last().data["status"] == "stream_error"
    assert conversation.status == "error"
    assert live.partial(conversation.pk) is None


def test_a_reply_cut_by_length_says_so_on_its_last_row():
    """MT-33, CR-05."""
    register("long", [TextDelta("Once upon"), FinishDelta(status="length")])
    conversation = chat("long", person())
    assert rows(conversation, "text")[1].content["stop_reason"] == "length"
    assert conversation.status == "idle"


def test_usage_is_added_up_on_the_run():
    """SE-18."""
    usage = UsageDelta(TokenUsage(input_tokens=10, output_tokens=3))
    first = [ToolCallDelta(index=0, call_id="c1", name="note", arguments='{"text": "x"}'), usage]
    register("counted", first, [TextDelta("Done."), usage], tools=[note])
    chat("counted", person())
    run = Run.objects.get()
    assert (run.input_tokens, run.output_tokens, run.model_calls) == (20, 6, 2)


def test_deltas_are_pruned_once_their_message_is_a_row():
    register("talker", [TextDelta("Hello "), TextDelta("Ann.")])
    conversation = chat("talker", person())
    assert not Event.objects.filter(type="deltas").exists()
    assert event_types(conversation).count("stream_ended") == 1
    check_invariants(conversation)


def test_an_agent_that_nobody_registers_any_more_ends_the_run_and_says_so():
    """PS-42, P9."""
    register("gone", "Hello.")
    conversation = begin("gone", person())
    Conversation.objects.update(agent_name="never was")
    drive(conversation)
    assert conversation.status == "error"
    assert "never was" in rows(conversation, "error")[0].content["text"]
    assert Run.objects.get().error_type == "unknown_agent"


def test_a_builder_that_raises_ends_the_run_and_says_so():
    register_broken("broken", ZeroDivisionError("no model today"))
    conversation = begin("broken", person())
    drive(conversation)
    assert conversation.status == "error"
    assert "no model today" in Run.objects.get().cause


def test_a_run_that_is_over_or_unknown_is_not_driven_again():
    """CD-24, SM-06."""
    model = register("plain", "Hello Ann.")
    conversation = chat("plain", person())
    run = Run.objects.get()
    runs.drive_run(run_id=run.pk)
    runs.drive_run(run_id="00000000-0000-4000-8000-000000000000")
    assert len(model.requests) == 1
    assert transcript(conversation) == ["user text: hi", "assistant text: Hello Ann."]


def test_a_run_may_be_tried_again_after_an_error_from_its_last_boundary():
    register(
        "shaky", calls(call("c1", "note", text="x")), Overloaded("busy"), "Done.", tools=[note]
    )
    owner = person()
    conversation = chat("shaky", owner)
    assert conversation.status == "error"
    runs.retry_run(conversation=conversation, actor=owner)
    drive(conversation)
    assert conversation.status == "idle"
    assert history(conversation) == ["U", "A(c1)", "T(c1)", "A"]
    assert ToolExecution.objects.count() == 1
    check_invariants(conversation)


def test_there_is_nothing_to_try_again_where_everything_is_answered():
    register("plain", "Hello Ann.")
    owner = person()
    conversation = chat("plain", owner)
    with pytest.raises(NothingToDo, match="idle"):
        runs.retry_run(conversation=conversation, actor=owner)
    Conversation.objects.update(status="cancelled")
    with pytest.raises(NothingToDo, match="answered"):
        runs.retry_run(conversation=conversation, actor=owner)


def test_a_drained_worker_hands_its_run_over_and_the_next_one_goes_on():
    """CD-63: paused with the cause draining, at a boundary; nothing is run twice."""
    asks = calls(call("c1", "drain_while_running"), text="One moment.")
    model = register("drained", asks, "Done.", tools=[drain_while_running])
    conversation = begin("drained", person())
    try:
        drive(conversation)
        run = Run.objects.get()
        assert (run.status, run.attempt) == ("queued", 0)
        assert conversation.status == "running"
        assert conversation.lease_token is None
        drive(conversation)
        assert len(model.requests) == 1
    finally:
        runs.cancel_drain()
    drive(conversation)
    assert history(conversation) == ["U", "A(c1)", "T(c1)", "A"]
    assert statuses(conversation) == ["running", "idle"]
    assert ToolExecution.objects.get().attempts == 1
    check_invariants(conversation)


def test_a_waiting_approval_is_cancelled_with_the_conversation():
    register(
        "gated",
        calls(call("c1", "note", text="x")),
        "Fine.",
        tools=[note],
        middlewares=[HumanInTheLoop({"note": True})],
    )
    owner = person()
    conversation = chat("gated", owner)
    runs.cancel_run(conversation=conversation, actor=owner)
    conversation.refresh_from_db()
    assert conversation.status == "cancelled"
    assert [row.status for row in rows(conversation, "tool_call")] == ["cancelled"]
    assert transcript(conversation)[-1] == "system notification: The agent was stopped."
    check_invariants(conversation)
    conversations.post_message(conversation=conversation, text="go on", actor=owner)
    drive(conversation)
    assert history(conversation) == ["U", "A(c1)", "T(c1)", "U", "A"]
    assert not ToolExecution.objects.exists()


def test_a_run_that_nobody_drives_is_cancelled_at_once_and_its_message_kept():
    register("plain", "Hello Ann.")
    owner = person()
    conversation = begin("plain", owner)
    runs.cancel_run(conversation=conversation, actor=owner)
    drive(conversation)
    assert conversation.status == "cancelled"
    assert Run.objects.get().status == "cancelled"
    conversations.post_message(conversation=conversation, text="and now", actor=owner)
    drive(conversation)
    assert AgentMessage.objects.first().data["content"][0]["text"] == "hi"
    assert transcript(conversation)[-1] == "assistant text: Hello Ann."
    check_invariants(conversation)


def test_nothing_is_cancelled_where_nothing_runs_and_nobody_else_may():
    """SM-17."""
    register("plain", "Hello Ann.")
    owner = person()
    conversation = chat("plain", owner)
    with pytest.raises(NothingToDo, match="idle"):
        runs.cancel_run(conversation=conversation, actor=owner)
    with pytest.raises(NotAllowed):
        runs.cancel_run(conversation=conversation, actor=person("eve"))
    with pytest.raises(NothingToDo):
        runs.cancel_run(conversation=conversation, actor=operator())


def test_what_tools_change_in_the_state_is_stored():
    @tool
    async def remember(word: str) -> ToolOutput:
        """Remember a word."""
        return ToolOutput("Remembered.", state={"metadata": {"word": word}})

    register("memory", calls(call("c1", "remember", word="tea")), "Done.", tools=[remember])
    chat("memory", person())
    assert SavedState.objects.get().data["metadata"] == {"word": "tea"}


def test_no_secret_reaches_a_row():
    """PS-21."""
    secret = "sk-made-up-4711"
    register(
        "secretive",
        calls(call("c1", "note", text="x")),
        "Done.",
        tools=[note],
        system_prompt=f"Never say {secret}",
        tool_context={"key": secret},
        scope={"email": secret},
    )
    conversation = chat("secretive", person())
    stored = [
        *AgentMessage.objects.values_list("data", flat=True),
        *SavedState.objects.values_list("data", flat=True),
        *Event.objects.values_list("payload", flat=True),
        *(row.content for row in rows_by_number(conversation)),
    ]
    assert secret not in repr(stored)


def test_the_state_of_a_conversation_without_rows_is_empty():
    """PS-24."""
    register("plain", "Hello Ann.")
    conversation = conversations.create_conversation(agent="plain", owner=person())
    assert states.load_state(conversation) == AgentState()
