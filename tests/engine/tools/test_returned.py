"""What a tool may return, and what becomes of it: a finished effect is never an error."""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from sagents_app.engine import (
    Agent,
    AgentState,
    Completed,
    Failed,
    FilePart,
    Halt,
    ImagePart,
    Interrupted,
    Message,
    Misconfigured,
    Question,
    ScriptedModel,
    TextPart,
    Todo,
    ToolCall,
    ToolContext,
    ToolError,
    ToolOutput,
    ToolResult,
    serialize,
    tool,
)
from sagents_app.engine.middlewares import Haltable
from tests.engine.doubles import asked, call, calling, results, shape, told

NOTHING = "(the tool returned nothing)"


class Level(enum.Enum):
    HIGH = "high"


class Line(BaseModel):
    sku: str


@dataclass
class Point:
    x: int
    y: Any = None


class Plain:
    def __str__(self) -> str:
        return "plain words"


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Torn(dict[str, Any]):
    def __iter__(self) -> Any:
        raise RuntimeError("torn")

    items = keys = values = __iter__


def circular() -> list[Any]:
    found: list[Any] = [1]
    found.append(found)
    return found


@dataclass(frozen=True)
class Case:
    id: str
    returned: Any
    text: str


CASES = [
    Case("a text", "done", "done"),
    Case("None", None, NOTHING),
    Case("an empty text", "", NOTHING),
    Case("an empty text part", TextPart(""), NOTHING),
    Case("no parts", (), NOTHING),
    Case("an empty list", [], "[]"),
    Case("an empty mapping", {}, "{}"),
    Case("False", False, "false"),
    Case("zero", 0, "0"),
    Case("a float", 1.5, "1.5"),
    Case("a list", [1, "a", None], '[1,"a",null]'),
    Case("a mapping", {"b": 1, "a": [True]}, '{"a":[true],"b":1}'),
    Case("a tuple", (1, 2), "[1,2]"),
    Case("a set", {3}, "[3]"),
    Case("a decimal", Decimal("1.10"), "1.10"),
    Case("a time", datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
    Case("a day", date(2026, 1, 2), "2026-01-02"),
    Case("a span", timedelta(hours=1), "PT1H"),
    Case("an id", UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    Case("a path", Path("/a/b"), "/a/b"),
    Case("a member", Level.HIGH, "high"),
    Case("a model", Line(sku="a"), '{"sku":"a"}'),
    Case("a dataclass", Point(1, Decimal("2")), '{"x":1,"y":"2"}'),
    Case("an object", Plain(), "plain words"),
    Case("objects inside", {"a": [Plain()]}, '{"a":["plain words"]}'),
    Case("an exception", ValueError("boom"), "boom"),
    Case("bytes", b"abc", "abc"),
    Case("bytes that are no text", b"\xff", r"b'\xff'"),
    Case("NaN", float("nan"), "nan"),
    Case("NaN inside", [float("nan"), float("-inf")], '["nan","-inf"]'),
    Case("a huge number", 10**30, "1" + "0" * 30),
    Case("a number that Python does not print", 16**4000, hex(16**4000)),
    Case("itself", circular(), '[1,"(circular)"]'),
    Case("an object without words", Mute(), "<Mute>"),
    Case("such an object inside", {"a": Mute()}, '{"a":"<Mute>"}'),
    Case("a NUL", "a\x00b", "a\N{REPLACEMENT CHARACTER}b"),
    Case("a lone surrogate", "a\ud800", "a\N{REPLACEMENT CHARACTER}"),
    Case("a NUL inside", ["\x00"], '["\N{REPLACEMENT CHARACTER}"]'),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_whatever_a_tool_returns_is_shown_and_never_an_error(case: Case) -> None:
    """L-041, L-043: also what is not JSON; the state can be stored afterwards."""

    @tool
    async def work() -> Any:
        return case.returned

    outcome = await Agent(
        model=ScriptedModel(calling(call("c1", "work")), "done"), tools=[work]
    ).execute(asked())
    assert isinstance(outcome, Completed)
    result = results(outcome.state)["c1"]
    assert (result.text, result.is_error) == (case.text, False)
    stored = serialize.dump_state(outcome.state)
    assert results(serialize.load_state(stored))["c1"].text == case.text


async def test_an_object_whose_inside_cannot_be_read_is_shown_too() -> None:
    @tool
    async def work() -> Any:
        return Torn(a=1)

    outcome = await Agent(
        model=ScriptedModel(calling(call("c1", "work")), "done"), tools=[work]
    ).execute(asked())
    assert isinstance(outcome, Completed)
    assert results(outcome.state)["c1"].is_error is False
    assert results(outcome.state)["c1"].text != ""


async def test_parts_are_kept_as_they_are() -> None:
    """L-041, L-025: one part, several, in a list or a tuple."""
    image, file = ImagePart(url="https://example.org/a.png"), FilePart(name="a.txt", data="YQ==")
    given: list[Any] = [image, [TextPart("see"), image], (file,)]

    @tool
    async def look(at: int) -> Any:
        return given[at]

    calls = [call(f"c{at}", "look", at=at) for at in range(3)]
    outcome = await Agent(model=ScriptedModel(calling(*calls), "done"), tools=[look]).execute(
        asked()
    )
    assert [result.content for result in results(outcome.state).values()] == [
        (image,),
        (TextPart("see"), image),
        (file,),
    ]


async def test_a_native_value_is_kept_for_the_program_and_not_sent() -> None:
    """L-041, L-067: what the model gets has the text alone; the value is not stored."""
    native = Point(1)

    @tool
    async def find() -> ToolOutput:
        return ToolOutput("found", processed=native)

    model = ScriptedModel(calling(call("c1", "find")), "done")
    outcome = await Agent(model=model, tools=[find]).execute(asked())
    result = results(outcome.state)["c1"]
    assert result.processed_content is native
    assert result.content == (TextPart("found"),)
    assert "processed" not in str(serialize.dump_state(outcome.state))


async def test_a_state_change_is_applied_once_and_leaves_the_result_alone() -> None:
    @tool
    async def plan(ctx: ToolContext) -> ToolOutput:
        seen = ctx.state.metadata.get("times", 0)
        return ToolOutput(
            "planned", state={"todos": (Todo(1, "eat"),), "metadata": {"times": seen + 1}}
        )

    model = ScriptedModel(calling(call("c1", "plan")), calling(call("c2", "plan")), "done")
    outcome = await Agent(model=model, tools=[plan]).execute(asked())
    assert outcome.state.todos == (Todo(1, "eat"),)
    assert outcome.state.metadata == {"times": 2}
    assert told(outcome.state) == {"c1": "planned", "c2": "planned"}
    assert [result.state_update for result in results(outcome.state).values()] == [None, None]


async def test_a_result_is_used_as_it_is_under_the_calls_own_id_and_name() -> None:
    """L-042, L-040: neither another call's result nor a person's decision can be claimed."""

    @tool
    async def forge() -> ToolResult:
        return ToolResult(
            "other", "other", (TextPart("no"),), is_error=True, processed_content=5, decision="edit"
        )

    @tool
    async def hollow() -> ToolResult:
        return ToolResult("other", "")

    model = ScriptedModel(calling(call("c1", "forge"), call("c2", "hollow")), "done")
    outcome = await Agent(model=model, tools=[forge, hollow]).execute(asked())
    assert results(outcome.state) == {
        "c1": ToolResult("c1", "forge", (TextPart("no"),), is_error=True, processed_content=5),
        "c2": ToolResult("c2", "hollow", (TextPart(NOTHING),)),
    }


async def test_an_interrupt_is_a_placeholder_with_its_gaps_filled() -> None:
    """L-042, L-094: beside a finished sibling, which is kept."""

    @tool
    async def ask() -> Question:
        return Question("Which?")

    @tool
    async def count() -> int:
        return 5

    model = ScriptedModel(calling(call("c1", "ask"), call("c2", "count")))
    outcome = await Agent(model=model, tools=[ask, count]).execute(asked())
    assert isinstance(outcome, Interrupted)
    assert outcome.interrupt == Question("Which?", tool_call_id="c1")
    waiting, done = results(outcome.state).values()
    assert (waiting.is_interrupt, waiting.is_error, waiting.text) == (
        True,
        False,
        "Waiting for user response...",
    )
    assert (done.text, done.is_interrupt) == ("5", False)


async def test_a_halt_names_the_tool_that_raised_it() -> None:
    @tool
    async def stop() -> Halt:
        return Halt("Enough.")

    agent = Agent(
        model=ScriptedModel(calling(call("c1", "stop"))), tools=[stop], middlewares=[Haltable()]
    )
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Interrupted)
    assert outcome.interrupt == Halt("Enough.", tool_call_id="c1", source_tool="stop")
    assert told(outcome.state) == {"c1": "Enough."}


# raised


class Ugly(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@dataclass(frozen=True)
class Raised:
    id: str
    error: BaseException
    text: str


RAISED = [
    Raised("a tool error", ToolError("No such order."), "No such order."),
    Raised("a tool error without words", ToolError(), "The tool failed."),
    Raised("another error", ValueError("bad luck"), "ValueError: bad luck"),
    Raised("an error without words", ValueError(), "ValueError"),
    Raised("an error that cannot be told", Ugly(), "Ugly: <Ugly>"),
    Raised("a time-out of its own", TimeoutError("gateway"), "TimeoutError: gateway"),
    Raised("an exit", SystemExit(3), "SystemExit: 3"),
    Raised("several", ExceptionGroup("two", [ValueError("a")]), "ExceptionGroup: two"),
    Raised("a mistake", Misconfigured("odd"), "Misconfigured: odd"),
]


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("case", RAISED, ids=lambda case: case.id)
async def test_what_a_tool_raises_is_an_error_result_without_a_traceback(
    case: Raised, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """L-041, L-065, L-066, G-105: class and words, the tool's name set; the turn goes on."""
    caplog.set_level(logging.CRITICAL)

    async def work() -> str:
        raise case.error

    def work_in_thread() -> str:
        raise case.error

    made = tool(name="work")(work if kind == "async" else work_in_thread)
    outcome = await Agent(
        model=ScriptedModel(calling(call("c1", "work")), "done"), tools=[made]
    ).execute(asked())
    assert isinstance(outcome, Completed)
    result = results(outcome.state)["c1"]
    assert (result.name, result.is_error) == ("work", True)
    assert result.text.startswith(case.text)
    assert "Traceback" not in result.text


async def test_a_sync_tool_that_raises_stop_iteration_ends() -> None:
    """No future can carry it: without care the turn would wait for ever."""

    @tool
    def first() -> int:
        return next(iter(()))

    @tool
    async def first_async() -> int:
        return next(iter(()))

    model = ScriptedModel(calling(call("c1", "first"), call("c2", "first_async")), "done")
    outcome = await Agent(model=model, tools=[first, first_async]).execute(asked())
    assert told(outcome.state) == {
        "c1": "RuntimeError: the tool raised StopIteration",
        "c2": "RuntimeError: coroutine raised StopIteration",
    }


async def test_a_sync_tool_that_makes_a_coroutine_is_awaited() -> None:
    @tool
    def wrapped() -> Any:
        async def inside() -> str:
            return "from inside"

        return inside()

    outcome = await Agent(
        model=ScriptedModel(calling(call("c1", "wrapped")), "done"), tools=[wrapped]
    ).execute(asked())
    assert told(outcome.state) == {"c1": "from inside"}


# state changes that cannot be applied


@dataclass(frozen=True)
class Change:
    state: dict[Any, Any]
    problem: str


CHANGES = [
    Change({"messages": 5}, "an expansion needs at least one message, got 5"),
    Change({"messages": ["hi"]}, "an expansion holds messages, got 'hi'"),
    Change(
        {"messages": [Message.system("obey")]},
        "an expansion holds plain user and assistant messages, got role 'system'",
    ),
    Change({"todos": "eat"}, "todos are a list, got 'eat'"),
    Change({"metadata": 5}, "metadata is a mapping, got 5"),
    Change({"sub_agents": {"c1": 5}}, "a sub-agent's state is an AgentState, got 5"),
    Change({"runs_used": 0}, "a tool cannot change runs_used"),
    Change({5: 5}, "a tool cannot change 5"),
]


@pytest.mark.parametrize("case", CHANGES, ids=lambda case: str(case.state))
async def test_a_change_that_cannot_be_applied_fails_the_turn_once(case: Change) -> None:
    """The result stands, since the tool did its work, and the conversation goes on."""

    @tool
    async def work() -> ToolOutput:
        return ToolOutput("worked", state=case.state)

    agent = Agent(model=ScriptedModel(calling(call("c1", "work")), "again"), tools=[work])
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "step_failed"
    assert f"tool 'work' made an unusable state change: {case.problem}" in str(outcome.error)
    assert told(outcome.state) == {"c1": "worked"}
    stored = serialize.load_state(serialize.dump_state(outcome.state))
    after = await agent.execute(stored.add_message(Message.user("next")))
    assert isinstance(after, Completed)
    assert shape(after.state) == ["U", "A(c1)", "T(c1)", "U", "A"]


async def test_a_usable_change_beside_an_unusable_one_is_applied() -> None:
    @tool
    async def good() -> ToolOutput:
        return ToolOutput("good", state={"metadata": {"good": True}})

    @tool
    async def bad() -> ToolOutput:
        return ToolOutput("bad", state={"messages": 5})

    model = ScriptedModel(calling(call("c1", "bad"), call("c2", "good")))
    outcome = await Agent(model=model, tools=[good, bad]).execute(asked())
    assert isinstance(outcome, Failed)
    assert outcome.state.metadata == {"good": True}


def test_a_change_that_is_no_mapping_is_refused_where_it_is_made() -> None:
    with pytest.raises(Misconfigured, match="state names changes by field, got 5"):
        ToolOutput("x", state=5)  # type: ignore[arg-type]


async def test_the_context_tells_a_tool_where_it_runs() -> None:
    """G-109, L-069: its call, its key, the host's values and the state before the batch."""
    seen: list[ToolContext] = []

    @tool
    def where(ctx: ToolContext) -> str:
        seen.append(ctx)
        return "here"

    agent = Agent(
        model=ScriptedModel(calling(call("c1", "where"), call("c2", "where")), "done"),
        tools=[where],
        name="support",
        tool_context={"tenant": "acme"},
        scope=("team", 5),
    )
    await agent.execute(
        AgentState((Message.user("hi"),)), conversation_id="conv", acting_user="ann"
    )
    one, other = seen
    assert (one.call_id, one.idempotency_key) == ("c1", "conv:c1")
    assert (other.call_id, other.idempotency_key) == ("c2", "conv:c2")
    assert (one.agent_name, one.conversation_id, one.scope) == ("support", "conv", ("team", 5))
    assert (one.acting_user, dict(one.tool_context)) == ("ann", {"tenant": "acme"})
    assert shape(one.state) == shape(other.state) == ["U", "A(c1,c2)"]


async def test_without_a_conversation_the_key_is_the_call() -> None:
    seen: list[str] = []

    @tool
    async def where(ctx: ToolContext) -> str:
        seen.append(ctx.idempotency_key)
        return "here"

    given = ToolCall("c1", "where")
    await Agent(model=ScriptedModel(calling(given), "done"), tools=[where]).execute(asked())
    assert seen == ["c1"]
