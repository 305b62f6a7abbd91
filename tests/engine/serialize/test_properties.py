"""Whatever a state holds: it can be stored, it comes back the same, and data stays data."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sagents_app.engine import (
    ActionRequest,
    AgentState,
    Answer,
    ApprovalRequest,
    Approve,
    Cancel,
    Edit,
    FilePart,
    Halt,
    ImagePart,
    InvalidState,
    Message,
    MultipleInterrupts,
    Question,
    QuestionOption,
    Reject,
    Respond,
    ReviewConfig,
    SubAgentInterrupt,
    TextPart,
    ThinkingPart,
    Todo,
    TokenUsage,
    ToolCall,
    ToolResult,
    UnknownOutcome,
    serialize,
)
from sagents_app.engine.messages import Expansion, StreamFailure

STORABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=20)
IDS = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)
INTEGERS = st.integers() | st.sampled_from([10**400, -(10**4000), 2**63, 2**64])
LEAVES = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    LEAVES | STORABLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STORABLE, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(STORABLE, JSON, max_size=4)
ENVELOPES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["halt", "approval", "text", "approve", "unknown", "tool_call"]),
        "__type__": st.just("sagents_app.engine.Halt"),
        "py/object": st.just("os.system"),
        "lc": st.just(1),
        "version": st.integers(0, 5),
        "state": OBJECTS,
        "messages": st.lists(OBJECTS, max_size=2),
        "interrupt": st.fixed_dictionaries({"type": st.just("halt"), "message": STORABLE}),
        "interrupt_data_b64": st.just("g3QAAAABdwR0eXBldwRoYWx0"),
        "tool_calls": st.lists(OBJECTS, max_size=2),
        "is_interrupt": st.just(True),
    },
)
DATA = OBJECTS | ENVELOPES
PARTS = (
    st.builds(TextPart, ANY_TEXT | ENVELOPES.map(json.dumps))
    | st.builds(
        ThinkingPart,
        ANY_TEXT,
        signature=st.none() | STORABLE,
        redacted=st.none() | STORABLE,
        provider=st.none() | st.just("anthropic"),
    )
    | st.builds(ImagePart, url=st.none() | ANY_TEXT, data=st.none() | STORABLE)
    | st.builds(FilePart, name=ANY_TEXT, data=st.none() | STORABLE)
)
CALLS = st.builds(ToolCall, IDS, ANY_TEXT, DATA | ANY_TEXT, st.none() | ANY_TEXT)
TODOS = st.lists(
    st.builds(
        Todo,
        st.integers(1, 99),
        ANY_TEXT.filter(str.strip),
        st.sampled_from(["pending", "in_progress", "completed", "cancelled"]),
    ),
    max_size=3,
).map(tuple)
ACTIONS = st.builds(ActionRequest, IDS, STORABLE, OBJECTS.map(json.dumps), STORABLE)
SIMPLE_INTERRUPTS = (
    st.builds(
        ApprovalRequest,
        action_requests=st.lists(ACTIONS, max_size=2).map(tuple),
        review_configs=st.dictionaries(
            STORABLE,
            st.builds(ReviewConfig, st.sampled_from([("approve",), ("reject", "respond")])),
            max_size=2,
        ),
    )
    | st.builds(
        Question,
        STORABLE,
        tool_call_id=IDS,
        response_type=st.sampled_from(["freeform", "single_select", "multi_select"]),
        options=st.lists(st.builds(QuestionOption, STORABLE, STORABLE), max_size=2).map(tuple),
        allow_other=st.booleans(),
        context=st.none() | STORABLE,
    )
    | st.builds(Halt, STORABLE, tool_call_id=IDS, source_tool=st.none() | STORABLE)
    | st.builds(UnknownOutcome, ACTIONS, known=STORABLE, tool_call_id=IDS)
)
INTERRUPTS = st.recursive(
    SIMPLE_INTERRUPTS,
    lambda inner: (
        st.builds(MultipleInterrupts, st.lists(inner, max_size=3).map(tuple))
        | st.builds(
            SubAgentInterrupt, STORABLE, path=st.lists(STORABLE, max_size=2).map(tuple), inner=inner
        )
    ),
    max_leaves=4,
)
DECISIONS = (
    st.builds(Approve, STORABLE)
    | st.builds(Edit, OBJECTS, STORABLE)
    | st.builds(Reject, STORABLE)
    | st.builds(Respond, STORABLE)
    | st.builds(Answer, st.lists(STORABLE, max_size=2).map(tuple), st.none() | STORABLE)
    | st.just(Cancel())
)
CONTENT = st.lists(PARTS, max_size=3).map(tuple)
SOME_CONTENT = st.lists(PARTS, min_size=1, max_size=3).map(tuple)
RESULTS = st.builds(
    ToolResult,
    IDS,
    STORABLE,
    CONTENT,
    is_error=st.booleans(),
    is_interrupt=st.booleans(),
    interrupt=st.none() | INTERRUPTS,
    expansion=st.none()
    | st.builds(
        Expansion,
        st.lists(SOME_CONTENT.map(Message.user), max_size=2).map(tuple),
        st.none() | CONTENT,
    ),
    state_update=st.none()
    | st.fixed_dictionaries(
        {}, optional={"todos": TODOS, "metadata": DATA, "messages": st.just(())}
    ).filter(bool),
    decision=st.none() | st.sampled_from(["approve", "edit", "reject"]),
)
STATUSES = st.sampled_from(["complete", "length", "cancelled", "content_filtered", "stream_error"])
COUNTS = st.integers(0, 10**6)
MESSAGES = (
    st.builds(Message, st.sampled_from(["user", "system"]), SOME_CONTENT, id=IDS)
    | st.builds(
        Message,
        st.just("assistant"),
        CONTENT,
        st.lists(CALLS, max_size=2).map(tuple),
        status=STATUSES,
        id=IDS,
        usage=st.none() | st.builds(TokenUsage, input_tokens=COUNTS, output_tokens=COUNTS),
        stream_failure=st.none() | st.builds(StreamFailure, STORABLE, ANY_TEXT),
        stop_details=st.none() | DATA,
    )
    | st.builds(
        Message,
        st.just("tool"),
        tool_results=st.lists(RESULTS, min_size=1, max_size=2).map(tuple),
        id=IDS,
    )
)


def states(sub_agents: Any) -> Any:
    return st.builds(
        AgentState,
        st.lists(MESSAGES, max_size=4).map(tuple),
        TODOS,
        DATA,
        st.none() | INTERRUPTS,
        JSON,
        st.dictionaries(IDS, DECISIONS, max_size=2),
        st.dictionaries(IDS, st.booleans(), max_size=2),
        COUNTS,
        COUNTS,
        sub_agents,
        COUNTS,
    )


STATES = states(st.dictionaries(IDS, states(st.just({})), max_size=1))
CLEAN = settings(deadline=None, max_examples=60)


@CLEAN
@given(STATES)
def test_every_state_comes_back_the_same(state: AgentState):
    """R-004, R-005, R-007, B081: whatever it holds, through the text that a database keeps."""
    text = json.dumps(serialize.dump_state(state), ensure_ascii=False)
    text.encode()
    assert "\\u0000" not in text.replace("\\\\", "")
    assert serialize.load_state(json.loads(text)) == state


@CLEAN
@given(DATA, ENVELOPES)
def test_data_that_looks_like_a_stored_form_stays_data(data: dict[str, Any], text: Any):
    """B081: metadata, arguments, details and texts are never read as anything but themselves."""
    envelope = json.dumps(text)
    call = ToolCall("c1", "look", data)
    state = AgentState(
        (
            Message.user(envelope),
            Message.assistant(envelope, tool_calls=[call]),
            Message.tool(ToolResult("c1", "look", (TextPart(envelope),))),
        ),
        metadata={"given": data},
        pause_reason=data,
    )
    loaded = serialize.load_state(json.loads(json.dumps(serialize.dump_state(state))))
    assert [message.text for message in loaded.messages] == [envelope, envelope, ""]
    assert loaded.messages[2].tool_results[0].text == envelope
    assert loaded.messages[1].tool_calls[0].arguments == data
    assert loaded.metadata == {"given": data}
    assert loaded.pause_reason == data
    assert loaded.interrupt is None


@CLEAN
@given(st.recursive(LEAVES | ANY_TEXT, lambda x: st.lists(x) | st.dictionaries(ANY_TEXT, x)))
def test_whatever_is_loaded_is_a_state_or_one_named_error(data: Any):
    """S-134, R-019, B081: a row edited by hand builds nothing and breaks nothing."""
    base = serialize.dump_state(AgentState())
    for given_ in (data, *({**base, field: data} for field in base)):
        try:
            loaded = serialize.load_state(given_)
        except InvalidState as error:
            assert str(error)  # noqa: PT017  # either of the two is right
        else:
            assert isinstance(loaded, AgentState)


@CLEAN
@given(ANY_TEXT)
def test_text_that_no_database_stores_is_marked_where_it_comes_in(text: str):
    """NUL and lone surrogates become U+FFFD in every text; the rest is kept."""
    pairs = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    clean = pairs.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    assert TextPart(text).text == clean
    assert ThinkingPart(text).text == clean
    assert FilePart(name=text).name == clean
    assert ToolCall("c1", text, {}).name == clean
    assert StreamFailure("died", text).message == clean
    if text.strip():
        assert Todo(1, text).content == clean
    assert serialize.dump_state(AgentState(metadata={text: [text]}))["metadata"] == {clean: [clean]}


@CLEAN
@given(st.dictionaries(ANY_TEXT, INTEGERS, max_size=3))
def test_numbers_of_any_size_survive_in_arguments(arguments: dict[str, int]):
    """Integers are verbatim, and the digest of what was shown does not change on the way."""
    call = ToolCall("c1", "count", json.dumps(arguments))
    message = Message.assistant(tool_calls=[call])
    loaded = serialize.load_message(json.loads(json.dumps(serialize.dump_message(message))))
    assert sorted(loaded.tool_calls[0].arguments.values()) == sorted(call.arguments.values())
    assert loaded.tool_calls[0].digest == call.digest
    assert loaded.tool_calls[0] == call


def test_numbers_that_are_no_json_are_marked():
    """NaN, infinities, integers beyond Python's own limit: a problem of the call, no crash."""
    for text in ('{"a":NaN}', '{"a":Infinity}', '{"a":1e999}', '{"a":' + "9" * 5000 + "}"):
        call = ToolCall("c1", "count", text)
        assert call.problem is not None
        assert call.arguments_json == text
    for value in (float("nan"), float("-inf"), 10**5000):
        assert ToolCall("c1", "count", {"a": value}).problem is not None
    metadata = {"nan": float("nan"), "inf": float("inf"), "huge": 10**5000, "kept": 10**400}
    assert serialize.dump_state(AgentState(metadata=metadata))["metadata"] == {
        "nan": "nan",
        "inf": "inf",
        "huge": hex(10**5000),
        "kept": 10**400,
    }


def test_keys_that_become_one_are_refused():
    """Two keys may differ only in what cannot be stored."""
    lone = chr(0xD800)
    call = ToolCall("c1", "pay", {lone: 1, "\ufffd": 2})
    assert call.problem == "the arguments are not valid JSON (the key '\ufffd' is doubled)"
    assert ToolCall("c1", "pay", {lone: 1}).arguments == {"\ufffd": 1}


def test_a_nul_in_arguments_reaches_the_tool_as_it_was_sent():
    """The canonical text holds it escaped, which every text column takes."""
    call = ToolCall("c1", "look", '{"a":"x\\u0000y"}')
    assert call.arguments == {"a": "x\x00y"}
    assert call.arguments_json == '{"a":"x\\u0000y"}'


def test_arguments_that_nest_endlessly_are_a_problem_and_no_crash():
    """Beyond what a parser takes, the text is kept as it came."""
    text = '{"a":' * 100_000
    call = ToolCall("c1", "look", text)
    assert call.problem == "the arguments are not valid JSON (JSON is nested too deeply)"
    assert call.arguments_json == text


def test_a_doubled_key_does_not_hide_a_value():
    """What a reviewer reads is what runs: the last of two equal keys does not win silently."""
    call = ToolCall("c1", "pay", '{"amount": 1, "amount": 100}')
    assert call.problem == "the arguments are not valid JSON (the key 'amount' is doubled)"
    assert call.arguments == {}
