"""Deltas are folded by index and id into one message, and told in the order in which they came."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagents_app.engine import (
    Agent,
    Cancelled,
    Completed,
    Failed,
    FunctionModel,
    Message,
    Middleware,
    ModelError,
    ScriptedModel,
    TextPart,
    ThinkingPart,
    TokenUsage,
    ToolCall,
)
from sagents_app.engine.deltas import (
    Accumulator,
    AttemptFailed,
    FinishDelta,
    ReplyDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from sagents_app.engine.errors import Overloaded, RateLimited, StreamDied
from sagents_app.engine.events import (
    CallFailed,
    Deltas,
    MessageAdded,
    ReplyRestarted,
    ToolCallSeen,
    UsageReported,
)
from tests.engine.doubles import Events, Notes, Switch, asked, call, calling, shape, told


async def reply_to(*deltas: Any) -> Message:
    """The message that a stream of `deltas` becomes; its calls are answered, not run."""
    outcome = await Agent(model=ScriptedModel(list(deltas), "done")).execute(asked())
    assert isinstance(outcome, Completed)
    return outcome.state.messages[1]


@dataclass(frozen=True)
class Case:
    id: str
    deltas: list[Any]
    content: tuple[Any, ...] = ()
    calls: tuple[tuple[str, str], ...] = ()
    """Name and arguments of each call."""


def fragment(index: int, arguments: Any = "", call_id: str | None = None, name: str = "") -> Any:
    return ToolCallDelta(index=index, call_id=call_id, name=name, arguments=arguments)


CASES = [
    Case("text", [TextDelta("Hel"), TextDelta("lo")], (TextPart("Hello"),)),
    Case("spaces", [TextDelta(" a "), TextDelta("\n"), TextDelta(" b")], (TextPart(" a \n b"),)),
    Case(
        "text at two indexes, with a gap",
        [TextDelta("b", 5), TextDelta("a", 0), TextDelta("c", 5)],
        (TextPart("a"), TextPart("bc")),
    ),
    Case("empty texts are dropped", [TextDelta("", 0), TextDelta("a", 1)], (TextPart("a"),)),
    Case(
        "thinking with a signature in fragments",
        [
            ThinkingDelta(text="let ", provider="anthropic"),
            ThinkingDelta(text="me see", signature="c2ln"),
            ThinkingDelta(signature="bmF0=="),
            TextDelta("So.", 1),
        ],
        (ThinkingPart("let me see", "c2lnbmF0==", None, "anthropic"), TextPart("So.")),
    ),
    Case(
        "redacted thinking",
        [ThinkingDelta(redacted="AAEC", provider="anthropic"), TextDelta("So.", 1)],
        (ThinkingPart("", None, "AAEC", "anthropic"), TextPart("So.")),
    ),
    Case(
        "thinking twice",
        [ThinkingDelta(text="a", index=0), ThinkingDelta(text="b", index=2), TextDelta("t", 1)],
        (ThinkingPart("a"), TextPart("t"), ThinkingPart("b")),
    ),
    Case(
        "a call in fragments",
        [fragment(0, "", "c1", "note"), fragment(0, '{"te'), fragment(0, 'xt": " a b "}')],
        calls=(("note", '{"text":" a b "}'),),
    ),
    Case(
        "a name in fragments, and said again",
        [fragment(0, "", "c1", "no"), fragment(0, "", "c1", "te"), fragment(0, "{}", None, "note")],
        calls=(("note", "{}"),),
    ),
    Case(
        "two calls whose fragments alternate",
        [
            fragment(0, '{"text"', "c1", "note"),
            fragment(1, '{"text"', "c2", "note"),
            fragment(0, ': "a"'),
            fragment(1, ': "b"'),
            fragment(1, "}"),
            fragment(0, "}"),
        ],
        calls=(("note", '{"text":"a"}'), ("note", '{"text":"b"}')),
    ),
    Case(
        "two calls of one index with ids of their own",
        [
            fragment(0, '{"text"', "c1", "note"),
            fragment(0, '{"text"', "c2", "note"),
            fragment(0, ': "a"}', "c1"),
            fragment(0, ': "b"}', "c2"),
        ],
        calls=(("note", '{"text":"a"}'), ("note", '{"text":"b"}')),
    ),
    Case(
        "a fragment without an id belongs to the newest of its index",
        [
            fragment(0, '{"text": "a"}', "c1", "note"),
            fragment(0, '{"text": ', "c2", "note"),
            fragment(0, '"b"}'),
        ],
        calls=(("note", '{"text":"a"}'), ("note", '{"text":"b"}')),
    ),
    Case(
        "an id that comes late",
        [fragment(0, '{"text": ', None, "note"), fragment(0, '"a"}', "c1")],
        calls=(("note", '{"text":"a"}'),),
    ),
    Case(
        "calls begin out of order",
        [fragment(3, "{}", "c3", "late"), fragment(1, "{}", "c1", "note")],
        calls=(("late", "{}"), ("note", "{}")),
    ),
    Case(
        "whole arguments at once, and nothing is added to them",
        [fragment(0, {"text": "a"}, "c1", "note"), fragment(0, "}}", "c1")],
        calls=(("note", '{"text":"a"}'),),
    ),
    Case(
        "text between calls",
        [
            TextDelta("I will "),
            fragment(0, "{}", "c1", "note"),
            TextDelta("do it."),
        ],
        (TextPart("I will do it."),),
        (("note", "{}"),),
    ),
    Case("an empty fragment is no call", [fragment(0), TextDelta("a")], (TextPart("a"),)),
    Case(
        "what is no delta is passed over",
        [TextDelta("a"), "what?", {"type": "audio"}, TextDelta("b")],
        (TextPart("ab"),),
    ),
    Case("no delta at all", []),
    Case(
        "what comes behind the end",
        [TextDelta("a"), FinishDelta(), TextDelta("b")],
        (TextPart("ab"),),
    ),
    Case(
        "what no database stores",
        [TextDelta("a\x00"), TextDelta("\ud83d"), TextDelta("\ude00")],
        (TextPart("a\N{REPLACEMENT CHARACTER}\N{GRINNING FACE}"),),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_deltas_are_folded_into_one_message(case: Case) -> None:
    """L-160, L-161, L-163, L-164, L-021, L-024, L-165, G-103, G-105, G-108, G-110, B069."""
    reply = await reply_to(*case.deltas)
    assert reply.content == case.content
    assert tuple((one.name, one.arguments_json) for one in reply.tool_calls) == case.calls
    assert (reply.role, reply.status, reply.stream_failure) == ("assistant", "complete", None)


async def test_no_tool_runs_with_another_calls_arguments() -> None:
    """B069."""
    notes = Notes()
    deltas = [
        fragment(0, '{"text": "fi', "c1", "note"),
        fragment(0, '{"text": "se', "c2", "note"),
        fragment(1, '{"text": "thi', "c3", "note"),
        fragment(0, 'rst"}', "c1"),
        fragment(1, 'rd"}'),
        fragment(0, 'cond"}', "c2"),
    ]
    model = ScriptedModel(deltas, "done")
    outcome = await Agent(model=model, tools=[notes.tool]).execute(asked())
    assert told(outcome.state) == {"c1": "noted first", "c2": "noted second", "c3": "noted third"}
    assert notes.taken == ["first", "second", "third"]


async def test_a_call_whose_json_is_broken_is_answered_and_the_sibling_runs() -> None:
    """L-166, G-107, B051: upstream fails the call of the model and makes it again."""
    notes = Notes()
    deltas = [fragment(0, '{"text": "a', "c1", "note"), fragment(1, '{"text": "b"}', "c2", "note")]
    model = ScriptedModel(deltas, "done")
    outcome = await Agent(model=model, tools=[notes.tool]).execute(asked())
    assert isinstance(outcome, Completed)
    assert notes.taken == ["b"]
    assert told(outcome.state)["c1"] == (
        "the arguments are not valid JSON (Unterminated string starting at: line 1 column 10 "
        "(char 9)). The call was not run; send it again with a JSON object."
    )
    assert len(model.requests) == 2


@dataclass(frozen=True)
class End:
    id: str
    ends: list[FinishDelta]
    status: str
    details: Any = None


CUT = FinishDelta(status="length", stop_details={"reason": "max_tokens"})
ENDS = [
    End("well", [FinishDelta()], "complete"),
    End("by length", [CUT], "length", {"reason": "max_tokens"}),
    End("by a filter", [FinishDelta(status="content_filtered")], "content_filtered"),
    End("twice: the cut stands", [CUT, FinishDelta()], "length", {"reason": "max_tokens"}),
    End("twice: only forward", [FinishDelta(), CUT], "length", {"reason": "max_tokens"}),
    End(
        "twice: the first cut stands",
        [CUT, FinishDelta(status="content_filtered")],
        "length",
        {"reason": "max_tokens"},
    ),
]


@pytest.mark.parametrize("case", ENDS, ids=lambda case: case.id)
async def test_a_reply_keeps_how_it_ended(case: End) -> None:
    """L-163, L-164, B074: only forward, a cut is kept, and the provider's account beside it."""
    reply = await reply_to(TextDelta("Hel"), *case.ends)
    assert (reply.text, reply.status, reply.stop_details) == ("Hel", case.status, case.details)


async def test_a_cut_inside_thinking_keeps_the_thinking() -> None:
    """B074 (a)."""
    reply = await reply_to(ThinkingDelta(text="let me"), FinishDelta(status="length"))
    assert (reply.content, reply.status) == ((ThinkingPart("let me"),), "length")


async def test_the_last_usage_counts_also_behind_the_end() -> None:
    """L-160, L-170, L-192, G-113: of one call, once, and of this turn's calls only."""
    events = Events()
    first, last = TokenUsage(input_tokens=5), TokenUsage(input_tokens=5, output_tokens=7)
    earlier = TokenUsage(input_tokens=1000)
    deltas = [UsageDelta(first), TextDelta("a"), FinishDelta(), UsageDelta(last)]
    old = Message("assistant", (TextPart("x"),), id="m1", usage=earlier)
    agent = Agent(model=ScriptedModel(deltas, name="tiny"))
    outcome = await agent.execute(asked(old, Message.user("more")), on_event=events)
    assert outcome.state.messages[-1].usage == last
    assert [one for one in events.seen if isinstance(one, UsageReported)] == [
        UsageReported(last, "tiny")
    ]


async def test_without_usage_none_is_reported() -> None:
    """L-192."""
    events = Events()
    outcome = await Agent(model=ScriptedModel("hi")).execute(asked(), on_event=events)
    assert outcome.state.messages[-1].usage is None
    assert "UsageReported" not in events.names


# what is told


async def test_deltas_are_told_in_lists_as_they_come_and_the_message_behind_them() -> None:
    """One event a batch, however many deltas are in it."""
    events = Events()
    batches: list[list[Any]] = [
        [TextDelta("a"), TextDelta("b")],
        [],
        [TextDelta("c"), FinishDelta()],
    ]

    async def stream(_request: Any) -> AsyncGenerator[Sequence[Any]]:
        for batch in batches:
            yield batch

    outcome = await Agent(model=FunctionModel(stream)).execute(asked(), on_event=events)
    assert events.seen == [
        Deltas((TextDelta("a"), TextDelta("b"))),
        Deltas((TextDelta("c"), FinishDelta())),
        MessageAdded(outcome.state.messages[-1]),
    ]


async def test_a_call_is_told_of_once_when_its_name_is_first_seen() -> None:
    """L-172: also where the name comes in fragments or again, and for a tool that nobody has."""
    events = Events()
    deltas = [
        fragment(0, "", "c1", "no"),
        fragment(0, "", None, "te"),
        fragment(0, "{}", "c1", "note"),
        fragment(1, "", "c2"),
        fragment(1, "{}", None, "nobody"),
        fragment(0, "", "c3", "note"),
    ]
    agent = Agent(model=ScriptedModel(deltas, "done"), tools=[Notes().tool])
    await agent.execute(asked(), on_event=events)
    assert [one for one in events.seen if isinstance(one, ToolCallSeen)] == [
        ToolCallSeen("no", 0, "c1"),
        ToolCallSeen("nobody", 1, None),
        ToolCallSeen("note", 0, "c3"),
    ]


async def test_the_middlewares_hear_first_and_one_that_raises_disturbs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """L-190, L-191: in order, each once; a failing observer is logged, upstream fails the call."""
    heard: list[str] = []

    class Listening(Middleware):
        def __init__(self, name: str, *, fails: bool = False) -> None:
            self.name, self.fails = name, fails

        @property
        def key(self) -> str:
            return self.name

        def on_event(self, event: Any) -> None:
            if isinstance(event, Deltas):
                heard.append(self.name)
                if self.fails:
                    raise RuntimeError("deaf")

    async def host(event: Any) -> None:
        if isinstance(event, Deltas):
            heard.append("host")

    stack = [Listening("a", fails=True), Listening("b")]
    agent = Agent(model=ScriptedModel("hello"), middlewares=stack)
    outcome = await agent.execute(asked(), on_event=host)
    assert isinstance(outcome, Completed)
    assert heard == ["a", "b", "host"]
    assert "a middleware's on_event failed on Deltas" in caplog.text


# streams that go wrong


async def test_a_reply_that_starts_over_voids_what_was_shown() -> None:
    """An adapter's retry; what was folded before it is in no message."""
    events = Events()
    error = RateLimited("slow")
    deltas = [
        TextDelta("Hel"),
        fragment(0, "{}", "c1", "note"),
        UsageDelta(TokenUsage(input_tokens=9)),
        AttemptFailed(model="tiny", error=error),
        TextDelta("Good"),
    ]
    notes = Notes()
    agent = Agent(model=ScriptedModel(deltas, name="tiny"), tools=[notes.tool])
    outcome = await agent.execute(asked(), on_event=events)
    assert isinstance(outcome, Completed)
    assert outcome.state.messages[-1].content == (TextPart("Good"),)
    assert (outcome.state.messages[-1].tool_calls, outcome.state.messages[-1].usage) == ((), None)
    assert notes.taken == []
    failed = events.seen.index(CallFailed("tiny", error))
    assert events.seen[failed + 1] == ReplyRestarted()


async def test_a_retry_inside_one_batch_shows_only_what_follows_it() -> None:
    events = Events()
    batch = [
        TextDelta("Hel"),
        AttemptFailed(model="tiny", error=Overloaded("busy")),
        TextDelta("Good"),
        FinishDelta(),
    ]

    async def stream(_request: Any) -> AsyncGenerator[Sequence[Any]]:
        yield batch

    await Agent(model=FunctionModel(stream)).execute(asked(), on_event=events)
    assert [one for one in events.seen if isinstance(one, Deltas)] == [
        Deltas((TextDelta("Good"), FinishDelta()))
    ]


async def test_an_error_before_any_delta_fails_the_turn_and_adds_nothing() -> None:
    """L-169: upstream reports that all is well."""
    events = Events()
    outcome = await Agent(model=ScriptedModel(Overloaded("busy"))).execute(asked(), on_event=events)
    assert isinstance(outcome, Failed)
    assert (outcome.error.type, shape(outcome.state)) == ("overloaded", ["U"])
    assert events.names == ["CallFailed"]


@pytest.mark.parametrize("error", [Overloaded("busy"), StreamDied("reset"), ModelError("odd")])
async def test_a_stream_that_dies_keeps_its_parts_and_names_the_cause(error: ModelError) -> None:
    """L-167, G-002, G-003, G-005, G-007, G-111, B074 (c): marked, told, and the turn has failed."""
    events = Events()
    deltas = [ThinkingDelta(text="hm"), TextDelta("Hello wor", 1), error]
    outcome = await Agent(model=ScriptedModel(deltas)).execute(asked(), on_event=events)
    assert isinstance(outcome, Failed)
    assert outcome.error is error
    partial = outcome.state.messages[-1]
    assert partial.content == (ThinkingPart("hm"), TextPart("Hello wor"))
    assert partial.status == "stream_error"
    assert partial.stream_failure is not None
    assert partial.stream_failure.type == error.type
    assert events.seen[-1] == MessageAdded(partial)
    assert shape(outcome.state) == ["U", "A"]


async def test_a_stream_that_dies_meets_no_demand() -> None:
    """B074 (d)."""
    deltas = [fragment(0, '{"text": "a"}', "c1", "note"), StreamDied("reset")]
    notes = Notes()
    agent = Agent(model=ScriptedModel(deltas), tools=[notes.tool])
    outcome = await agent.execute(asked(), until_tool="note")
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "stream_error"
    assert notes.taken == []


@pytest.mark.parametrize(
    ("given", "error", "expected"),
    [
        (5, "the model's stream failed: a reply is a text, a Message, deltas or", ["U"]),
        ([TextDelta("a"), KeyError("boom")], "the model's stream failed: 'boom'", ["U", "A"]),
        (RuntimeError("boom"), "the model's stream failed: boom", ["U"]),
        (RuntimeError(), "the model's stream failed: RuntimeError", ["U"]),
    ],
    ids=["no reply", "an error between deltas", "an error", "an error without words"],
)
async def test_a_model_that_breaks_the_contract_fails_the_turn_in_words(
    given: Any, error: str, expected: list[str]
) -> None:
    """L-113, G-112, L-140: odd shapes and other errors become one named failure of the model.

    A fallback is asked, as after any other, and what was streamed is kept.
    """
    outcome = await Agent(model=ScriptedModel(given)).execute(asked())
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "protocol_error"
    assert str(outcome.error).startswith(error)
    assert shape(outcome.state) == expected
    fallen_back = Agent(model=ScriptedModel(given), fallback_models=[ScriptedModel("good")])
    assert isinstance(await fallen_back.execute(asked()), Completed)


async def test_a_delta_that_holds_no_text_fails_the_turn() -> None:
    """L-113."""
    deltas: Any = [TextDelta(5)]  # type: ignore[arg-type]  # the mistake
    outcome = await Agent(model=ScriptedModel(deltas)).execute(asked())
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "step_failed"


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([TextDelta("Hel")], ["U", "A"]),
        ([ThinkingDelta(text="hm")], ["U", "A"]),
        ([fragment(0, '{"te', "c1", "note")], ["U", "A(c1)", "T(c1)"]),
        ([TextDelta("")], ["U"]),
        ([UsageDelta(TokenUsage(input_tokens=1))], ["U"]),
    ],
    ids=["text", "thinking", "half a call", "an empty text", "usage alone"],
)
async def test_a_cancel_between_deltas_keeps_what_can_be_shown(
    deltas: list[Any], expected: list[str]
) -> None:
    """L-168, B055 (a): marked as cancelled, its calls answered, the next message works."""
    switch = Switch()

    def turn_on(_request: Any) -> Any:
        async def stream() -> AsyncGenerator[Sequence[Any]]:
            switch.on = True
            yield deltas
            yield (TextDelta("never"), FinishDelta())

        return stream()

    agent = Agent(model=FunctionModel(turn_on), tools=[Notes().tool])
    outcome = await agent.execute(asked(), should_cancel=switch)
    assert isinstance(outcome, Cancelled)
    assert shape(outcome.state) == expected
    if len(expected) > 1:
        assert outcome.state.messages[1].status == "cancelled"
        assert "never" not in outcome.state.messages[1].text
    after = Agent(model=ScriptedModel("fine"), tools=[Notes().tool])
    done = await after.execute(outcome.state.add_message(Message.user("next")))
    assert isinstance(done, Completed)


# fallbacks


async def test_each_failed_call_is_told_of_and_the_end_only_once() -> None:
    """L-140, G-111: one `CallFailed` a model; a fallback that answers leaves no failure."""
    events = Events()
    first, second = RateLimited("slow"), Overloaded("busy")
    agent = Agent(
        model=ScriptedModel(first, name="a"),
        fallback_models=[ScriptedModel(second, name="b"), ScriptedModel("hello", name="c")],
    )
    outcome = await agent.execute(asked(), on_event=events)
    assert isinstance(outcome, Completed)
    assert [one for one in events.seen if isinstance(one, CallFailed)] == [
        CallFailed("a", first),
        CallFailed("b", second),
    ]


async def test_a_fallback_starts_from_where_the_turn_is_and_repeats_no_tool() -> None:
    """L-145, L-142: upstream starts from before the run; the hook is told of fallbacks alone."""
    notes = Notes()
    asked_for: list[Any] = []
    first = ScriptedModel(calling(call("c1", text="a")), Overloaded("busy"), "again", name="a")
    second = ScriptedModel(calling(call("c2", text="b")), name="b")
    agent = Agent(
        model=first,
        fallback_models=[second],
        tools=[notes.tool],
        before_fallback=lambda model, request: asked_for.append(
            (model.name, shape(request.messages))
        ),
    )
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Completed)
    assert notes.taken == ["a", "b"]
    assert asked_for == [("b", ["U", "A(c1)", "T(c1)"])]
    assert shape(outcome.state) == ["U", "A(c1)", "T(c1)", "A(c2)", "T(c2)", "A"]


async def test_what_a_turn_stops_for_is_no_failure_and_asks_no_fallback() -> None:
    """L-143, L-122, G-111."""
    spare = ScriptedModel("never")
    agent = Agent(
        model=ScriptedModel(calling(call("c1")), "done"),
        fallback_models=[spare],
        tools=[Notes().tool],
    )
    outcome = await agent.execute(asked(), until_tool="note")
    assert isinstance(outcome, Completed)
    assert outcome.tool_result is not None
    assert spare.requests == []


# whatever the order


@given(st.integers(0, 2**32), st.lists(st.text("abc {}", max_size=8), min_size=1, max_size=4))
def test_interleaved_fragments_always_land_in_their_own_call(seed: int, texts: list[str]) -> None:
    """B069, L-161: any interleaving, with the id on each fragment, on the first or never."""
    shuffled = random.Random(seed)
    queues = []
    for index, text in enumerate(texts):
        arguments = ToolCall("x", "note", {"text": text}).arguments_json
        cut = shuffled.randrange(len(arguments))
        with_id = f"c{index}" if shuffled.random() < 0.5 else None
        queues.append(
            [
                fragment(index, "", f"c{index}", "note"),
                fragment(index, arguments[:cut], with_id),
                fragment(index, arguments[cut:], with_id),
            ]
        )
    folded = Accumulator()
    while queues:
        queue = shuffled.choice(queues)
        folded.add(queue.pop(0))
        queues = [one for one in queues if one]
    got = {one.call_id: one.arguments for one in folded.message().tool_calls}
    assert got == {f"c{index}": {"text": text} for index, text in enumerate(texts)}


def test_a_whole_reply_stands_for_all_deltas() -> None:
    folded = Accumulator()
    whole = Message.assistant("whole")
    for delta in (TextDelta("part"), ReplyDelta(whole)):
        folded.add(delta)
    assert folded.message() is whole


def test_the_message_so_far_can_be_asked_for_at_any_time() -> None:
    """L-162: asking changes nothing."""
    folded = Accumulator()
    assert folded.is_empty
    assert folded.message().is_empty
    folded.add(TextDelta("a"))
    assert folded.message(cancelled=True).status == "cancelled"
    folded.add(TextDelta("b"))
    assert (folded.message().text, folded.is_empty) == ("ab", False)
    folded.add(AttemptFailed(model="tiny", error=Overloaded("busy")))
    assert folded.is_empty
