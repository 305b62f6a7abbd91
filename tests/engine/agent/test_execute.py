"""`execute`: what goes in, what is called, and the state that comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    AgentState,
    Completed,
    Failed,
    FunctionModel,
    Halt,
    Interrupted,
    Message,
    Middleware,
    Misconfigured,
    ModelError,
    ModelRequest,
    ScriptedModel,
    TextPart,
    ToolError,
    ToolResult,
    tool,
)
from sagents_app.engine.deltas import FinishDelta, ReplyDelta, TextDelta, ToolCallDelta
from sagents_app.engine.errors import Overloaded, RateLimited, StreamDied
from sagents_app.engine.middlewares import HumanInTheLoop
from tests.engine.doubles import Events, Notes, asked, call, calling, results, shape, texts, told


async def test_a_text_reply_completes_the_turn() -> None:
    """P-030, P-140."""
    model = ScriptedModel("hello")
    outcome = await Agent(model=model).execute(asked())
    assert isinstance(outcome, Completed)
    assert outcome.tool_result is None
    assert [(one.role, one.text) for one in outcome.state.messages] == [
        ("user", "hi"),
        ("assistant", "hello"),
    ]
    assert len(model.requests) == 1


async def test_a_call_and_then_a_text_take_two_calls() -> None:
    """P-140."""
    model = ScriptedModel(calling(call("c1", text="a")), "done")
    outcome = await Agent(model=model, tools=[Notes().tool]).execute(asked())
    assert isinstance(outcome, Completed)
    assert shape(outcome.state) == ["U", "A(c1)", "T(c1)", "A"]
    assert [shape(request.messages) for request in model.requests] == [
        ["U"],
        ["U", "A(c1)", "T(c1)"],
    ]
    assert [one.name for one in model.requests[0].tools] == ["note"]


async def test_the_hooks_run_around_the_call_in_order_and_in_reverse() -> None:
    """P-031: the demand is checked before any of them."""
    seen: list[str] = []

    class Telling(Middleware):
        def __init__(self, name: str) -> None:
            self.name = name

        @property
        def key(self) -> str:
            return self.name

        def before_turn(self, state: AgentState) -> AgentState:
            seen.append(f"turn {self.name}")
            return state

        async def before_model(self, state: AgentState) -> AgentState:
            seen.append(f"before {self.name}")
            return state

        def after_model(self, state: AgentState) -> AgentState:
            seen.append(f"after {self.name}")
            return state

    model = ScriptedModel(calling(call()), "done")
    stack = [Telling("a"), Telling("b")]
    agent = Agent(model=model, tools=[Notes().tool], middlewares=stack)
    with pytest.raises(Misconfigured):
        await agent.execute(asked(), until_tool="nobody")
    assert seen == []
    await agent.execute(asked())
    once = ["before a", "before b", "after b", "after a"]
    assert seen == ["turn a", "turn b", *once, *once]


async def test_the_prompt_goes_with_the_call_and_not_into_the_history() -> None:
    """P-033."""
    model = ScriptedModel("hello")
    outcome = await Agent(model=model, system_prompt="Be kind.").execute(asked())
    assert model.requests[0].system == "Be kind."
    assert shape(outcome.state) == ["U", "A"]


async def test_two_system_prompts_are_refused() -> None:
    """P-036: the agent's and the history's."""
    model = ScriptedModel("hello")
    state = AgentState((Message.system("Be brief."), Message.user("hi")))
    with pytest.raises(Misconfigured, match="only one system prompt"):
        await Agent(model=model, system_prompt="Be kind.").execute(state)
    assert model.requests == []


async def test_a_system_message_of_the_history_is_used_where_the_agent_has_no_prompt() -> None:
    """P-036, P-252."""
    model = ScriptedModel("hello")
    state = AgentState((Message.system("Be brief."), Message.user("hi")))
    outcome = await Agent(model=model).execute(state)
    assert isinstance(outcome, Completed)
    assert shape(model.requests[0].messages) == ["S", "U"]


async def test_what_is_no_message_is_refused_before_any_call() -> None:
    """P-037."""
    model = ScriptedModel("hello")
    with pytest.raises(Misconfigured, match="messages hold only Message objects, got 'hi'"):
        await Agent(model=model).execute(AgentState(("hi",)))  # type: ignore[arg-type]
    assert model.requests == []


async def test_a_scripted_reply_may_be_a_function_of_the_request() -> None:
    def count(request: ModelRequest) -> str:
        return f"{len(request.messages)} messages"

    async def count_later(request: ModelRequest) -> str:
        return count(request)

    agent = Agent(model=ScriptedModel(count, count_later))
    first = await agent.execute(asked())
    second = await agent.execute(first.state.add_message(Message.user("and now?")))
    assert texts(second.state.messages) == ["hi", "1 messages", "and now?", "3 messages"]


def test_a_function_model_takes_nothing_but_a_function() -> None:
    with pytest.raises(Misconfigured, match="takes a function of the request, got 'hello'"):
        FunctionModel("hello")  # type: ignore[arg-type]


async def test_an_interrupted_state_is_answered_at_once() -> None:
    """P-040: upstream forgets the stale interrupt; here it stands and nothing is called."""
    model = ScriptedModel("never")
    state = asked(interrupt=Halt("enough"))
    outcome = await Agent(model=model).execute(state)
    assert outcome == Interrupted(state, Halt("enough"))
    assert model.requests == []


async def test_the_state_that_was_given_is_not_changed() -> None:
    state = asked()
    await Agent(model=ScriptedModel("hello")).execute(state)
    await Agent(model=ScriptedModel("other")).execute(state)
    assert shape(state) == ["U"]


# streams that died, replies that were cut


async def test_a_stream_that_dies_keeps_its_partial_text_marked_and_fails_the_turn() -> None:
    """P-070: the error's own type; on the message too."""
    dying = [TextDelta("Hel"), Overloaded("busy")]
    outcome = await Agent(model=ScriptedModel(dying)).execute(asked())
    assert isinstance(outcome, Failed)
    assert (outcome.error.type, str(outcome.error)) == ("overloaded", "busy")
    partial = outcome.state.messages[-1]
    assert (partial.role, partial.text, partial.status) == ("assistant", "Hel", "stream_error")
    assert partial.stream_failure is not None
    assert (partial.stream_failure.type, partial.stream_failure.message) == ("overloaded", "busy")


async def test_a_stream_that_dies_in_a_call_answers_the_call_and_never_runs_it() -> None:
    """P-070, B055: also a whole call, since nobody knows whether it was meant so."""
    notes = Notes()
    dying = [
        ToolCallDelta(index=0, call_id="c1", name="note", arguments={"text": "a"}),
        StreamDied("reset"),
    ]
    model = ScriptedModel(dying, "fine")
    agent = Agent(model=model, tools=[notes.tool])
    failed = await agent.execute(asked())
    assert isinstance(failed, Failed)
    assert failed.error.type == "stream_error"
    assert shape(failed.state) == ["U", "A(c1)", "T(c1)"]
    assert results(failed.state)["c1"].is_error
    assert "stream_error" in told(failed.state)["c1"]
    done = await agent.execute(failed.state.add_message(Message.user("go on")))
    assert isinstance(done, Completed)
    assert (notes.taken, shape(model.requests[1].messages)) == ([], ["U", "A(c1)", "T(c1)", "U"])


async def test_a_stream_without_an_end_is_a_death_too() -> None:
    from collections.abc import AsyncGenerator, Sequence

    from sagents_app.engine import FunctionModel

    async def stream(_request: Any) -> AsyncGenerator[Sequence[Any]]:
        yield (TextDelta("Hel"),)

    outcome = await Agent(model=FunctionModel(stream)).execute(asked())
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "protocol_error"
    assert outcome.state.messages[-1].status == "stream_error"


async def test_a_whole_reply_behind_which_the_stream_dies_is_not_taken_for_complete() -> None:
    notes = Notes()
    dying = [ReplyDelta(calling(call("c1"))), StreamDied("reset")]
    agent = Agent(model=ScriptedModel(dying), tools=[notes.tool])
    failed = await agent.execute(asked())
    assert isinstance(failed, Failed)
    assert failed.state.messages[1].status == "stream_error"
    assert notes.taken == []
    assert shape(failed.state) == ["U", "A(c1)", "T(c1)"]


@pytest.mark.parametrize(
    "dying",
    [[StreamDied("reset")], [TextDelta(""), StreamDied("reset")], [FinishDelta(), StreamDied("r")]],
    ids=["nothing", "an empty text", "an end"],
)
async def test_a_partial_with_nothing_to_show_leaves_no_message(dying: list[Any]) -> None:
    """P-076."""
    events = Events()
    outcome = await Agent(model=ScriptedModel(dying)).execute(asked(), on_event=events)
    assert isinstance(outcome, Failed)
    assert shape(outcome.state) == ["U"]
    assert "MessageAdded" not in events.names


@pytest.mark.parametrize("status", ["length", "content_filtered"])
async def test_a_reply_that_was_cut_completes_the_turn_with_its_status(status: Any) -> None:
    """P-074, E-074, E-075."""
    model = ScriptedModel([TextDelta("Hel"), FinishDelta(status=status)])
    outcome = await Agent(model=model).execute(asked())
    assert isinstance(outcome, Completed)
    assert (outcome.state.messages[-1].text, outcome.state.messages[-1].status) == ("Hel", status)


@pytest.mark.parametrize("status", ["length", "content_filtered"])
async def test_the_calls_of_a_reply_that_was_cut_are_answered_and_never_run(status: Any) -> None:
    """E-074, P2; the turn completes, and the next one can be sent."""
    notes = Notes()
    cut = [
        ToolCallDelta(index=0, call_id="c1", name="note", arguments='{"text": "a"}'),
        ToolCallDelta(index=1, call_id="c2", name="note", arguments='{"text": "b'),
        FinishDelta(status=status),
    ]
    model = ScriptedModel(cut, "fine")
    agent = Agent(model=model, tools=[notes.tool], middlewares=[HumanInTheLoop({"note": True})])
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Completed)
    assert shape(outcome.state) == ["U", "A(c1,c2)", "T(c1,c2)"]
    assert notes.taken == []
    text = f"The reply was cut off ({status}) before this call was complete; it was not run."
    assert told(outcome.state) == {"c1": text, "c2": text}
    done = await agent.execute(outcome.state.add_message(Message.user("go on")))
    assert isinstance(done, Completed)


async def test_a_reply_that_was_cut_fails_a_turn_with_a_demand() -> None:
    cut = [
        ToolCallDelta(index=0, call_id="c1", name="note", arguments="{}"),
        FinishDelta(status="length"),
    ]
    agent = Agent(model=ScriptedModel(cut), tools=[Notes().tool])
    outcome = await agent.execute(asked(), until_tool="note")
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "until_tool_not_called"


# fallbacks


async def test_a_fallback_repeats_the_call_and_never_a_tool() -> None:
    """The tool of the first round ran once, whatever the second call went through."""
    notes = Notes()
    first = ScriptedModel(calling(call("c1", text="a")), RateLimited("slow"), name="first")
    second = ScriptedModel("done", name="second")
    agent = Agent(model=first, fallback_models=[second], tools=[notes.tool])
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Completed)
    assert notes.taken == ["a"]
    assert shape(second.requests[0].messages) == ["U", "A(c1)", "T(c1)"]
    assert first.requests[1] == second.requests[0]
    assert outcome.state.messages[-1].text == "done"


async def test_what_a_failed_model_showed_is_void_and_not_kept() -> None:
    events = Events()
    first = ScriptedModel([TextDelta("Hel"), StreamDied("reset")], name="first")
    second = ScriptedModel("hello", name="second")
    agent = Agent(model=first, fallback_models=[second])
    outcome = await agent.execute(asked(), on_event=events)
    assert [one.text for one in outcome.state.messages] == ["hi", "hello"]
    assert events.names == ["Deltas", "CallFailed", "ReplyRestarted", "Deltas", "MessageAdded"]


async def test_a_failed_model_that_showed_nothing_restarts_nothing() -> None:
    events = Events()
    agent = Agent(model=ScriptedModel(RateLimited("slow")), fallback_models=[ScriptedModel("x")])
    await agent.execute(asked(), on_event=events)
    assert events.names == ["CallFailed", "Deltas", "MessageAdded"]


async def test_the_error_that_ends_a_turn_names_each_attempt() -> None:
    first = ScriptedModel(RateLimited("slow"), name="first")
    second = ScriptedModel([TextDelta("Hel"), StreamDied("reset")], name="second")
    outcome = await Agent(model=first, fallback_models=[second]).execute(asked())
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "models_exhausted"
    assert str(outcome.error) == "every model failed (first: slow; second: reset)"
    assert [(name, error.type) for name, error in outcome.error.attempts] == [  # type: ignore[attr-defined]
        ("first", "rate_limited"),
        ("second", "stream_error"),
    ]
    assert outcome.state.messages[-1].text == "Hel"
    assert outcome.state.messages[-1].status == "stream_error"


async def test_a_hook_that_raises_before_a_fallback_fails_the_turn() -> None:
    def broken(model: Any, request: Any) -> None:
        raise RuntimeError("no")

    spare = ScriptedModel("never")
    agent = Agent(
        model=ScriptedModel(ModelError("x")), fallback_models=[spare], before_fallback=broken
    )
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Failed)
    assert str(outcome.error) == "RuntimeError: no"
    assert spare.requests == []


# replies that are not as they should be


@dataclass(frozen=True)
class Reply:
    id: str
    message: Message


def raw(role: Any = "assistant", **fields: Any) -> Message:
    return Message(role, **fields)


@pytest.mark.parametrize(
    "case",
    [
        Reply("nothing in it", raw(id="m1")),
        Reply("an empty text", raw(content=(TextPart(""),), id="m1")),
        Reply("no id", raw(content=(TextPart("x"),))),
        Reply("no role", raw(None, content=(TextPart("x"),), id="m1")),
        Reply("an unknown role", raw("banana", content=(TextPart("x"),), id="m1")),
        Reply("a user's role", raw("user", content=(TextPart("x"),), id="m1")),
        Reply("unknown parts", raw(content=("x", {"type": "audio"}, TextPart("y")), id="m1")),
        Reply("a tool's result", Message.tool(ToolResult("c9", "note", (TextPart("fake"),)))),
    ],
    ids=lambda case: case.id,
)
async def test_an_odd_reply_becomes_an_assistant_message_that_can_be_stored_and_sent(
    case: Reply,
) -> None:
    from sagents_app.engine import serialize

    model = ScriptedModel(case.message, "fine")
    agent = Agent(model=model, tools=[Notes().tool])
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Completed)
    reply = outcome.state.messages[-1]
    assert reply.role == "assistant"
    assert reply.id
    assert reply.tool_results == ()
    assert all(isinstance(part, TextPart) for part in reply.content)
    again = serialize.load_state(serialize.dump_state(outcome.state))
    done = await agent.execute(again.add_message(Message.user("go on")))
    assert isinstance(done, Completed)
    assert shape(model.requests[1].messages) == ["U", "A", "U"]


async def test_an_empty_stream_is_an_empty_answer() -> None:
    outcome = await Agent(model=ScriptedModel("")).execute(asked())
    assert isinstance(outcome, Completed)
    assert outcome.state.messages[-1].is_empty


@dataclass(frozen=True)
class Ids:
    id: str
    given: list[str | None]
    kept: list[str | None]
    """The id itself where it is usable, None where a fresh one stands for it."""


IDS = [
    Ids("usable and unused", ["a", "b-2_C"], ["a", "b-2_C"]),
    Ids("doubled in one message", ["a", "a"], ["a", None]),
    Ids("empty", ["", "b"], [None, "b"]),
    Ids("two empty ones", ["", ""], [None, None]),
    Ids("too long", ["x" * 65, "x" * 64], [None, "x" * 64]),
    Ids("characters that are not allowed", ["a b", "a/b", "ä"], [None, None, None]),
    Ids("taken by an earlier turn", ["old", "new"], [None, "new"]),
    Ids("none", [None], [None]),
]


@pytest.mark.parametrize("case", IDS, ids=lambda case: case.id)
async def test_a_call_id_is_unique_in_its_conversation(case: Ids) -> None:
    """B056, B057: the model's own id where it will do, else a fresh one and its own beside it."""
    notes = Notes()
    earlier = (
        calling(call("old")),
        Message.tool(ToolResult("old", "note", (TextPart("x"),))),
        Message.assistant("so"),
        Message.user("more"),
    )
    batch = [call(given, text=str(n)) for n, given in enumerate(case.given)]  # type: ignore[arg-type]
    model = ScriptedModel(calling(*batch), "done")
    outcome = await Agent(model=model, tools=[notes.tool]).execute(asked(*earlier))
    assert isinstance(outcome, Completed)
    calls = outcome.state.messages[5].tool_calls
    ids = [one.call_id for one in calls]
    assert len({*ids, "old"}) == len(case.given) + 1
    for call_, given, kept in zip(calls, case.given, case.kept, strict=True):
        assert (call_.call_id if kept else None) == kept
        assert call_.provider_id == (None if kept else given or None)
    assert notes.taken == [str(n) for n in range(len(case.given))]
    assert [one.tool_call_id for one in outcome.state.messages[6].tool_results] == ids


@pytest.mark.parametrize(
    "arguments",
    ["not json", "[1, 2]", "null", '"text"', "5", '{"text": ', '{"text": NaN}', [1, 2], 5],
    ids=str,
)
async def test_arguments_that_are_no_object_are_answered_and_never_run(arguments: Any) -> None:
    """The model may correct itself; the call it made stays in the history."""
    notes = Notes()
    bad = calling(call_with(arguments))
    model = ScriptedModel(bad, calling(call("c2", text="b")), "done")
    outcome = await Agent(model=model, tools=[notes.tool]).execute(asked())
    assert isinstance(outcome, Completed)
    assert notes.taken == ["b"]
    assert results(outcome.state)["c1"].is_error
    assert "The call was not run" in told(outcome.state)["c1"]
    assert "Traceback" not in told(outcome.state)["c1"]
    assert shape(model.requests[1].messages) == ["U", "A(c1)", "T(c1)"]


@pytest.mark.parametrize("arguments", ["", None, "{}", {}], ids=repr)
async def test_no_arguments_are_an_empty_object(arguments: Any) -> None:
    notes = Notes()
    model = ScriptedModel(calling(call_with(arguments)), "done")
    await Agent(model=model, tools=[notes.tool]).execute(asked())
    assert notes.taken == [""]


def call_with(arguments: Any) -> Any:
    from sagents_app.engine import ToolCall

    return ToolCall("c1", "note", arguments)


@pytest.mark.parametrize("name", ["", "nobody", "note ", "NOTE"])
async def test_a_call_to_no_tool_is_answered_with_the_known_ones(name: str) -> None:
    notes = Notes()
    model = ScriptedModel(calling(call("c1", name)), "done")
    outcome = await Agent(model=model, tools=[notes.tool]).execute(asked())
    assert isinstance(outcome, Completed)
    assert notes.taken == []
    assert f"Tool {name!r} not found." in told(outcome.state)["c1"]
    assert "Available are: note." in told(outcome.state)["c1"]


async def test_a_second_result_of_one_tool_may_be_an_error_and_the_turn_goes_on() -> None:
    """P-211, P-213."""
    files: dict[str, str] = {}

    @tool
    def create(path: str, content: str) -> str:
        """Create a file."""
        if path in files:
            raise ToolError(f"{path} exists")
        files[path] = content
        return "created"

    model = ScriptedModel(
        calling(call("c1", "create", path="a", content="1")),
        calling(call("c2", "create", path="a", content="2")),
        "done",
    )
    outcome = await Agent(model=model, tools=[create]).execute(asked())
    assert isinstance(outcome, Completed)
    assert files == {"a": "1"}
    assert told(outcome.state) == {"c1": "created", "c2": "a exists"}
    assert results(outcome.state)["c2"].is_error


async def test_a_model_that_raises_no_model_error_fails_the_turn_in_words() -> None:
    outcome = await Agent(model=ScriptedModel(KeyError("boom"))).execute(asked())
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "protocol_error"
    assert "boom" in str(outcome.error)
