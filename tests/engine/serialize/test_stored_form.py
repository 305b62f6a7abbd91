"""The stored form of a state: what is in it, what is not, and what becomes of unreadable data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    AgentState,
    Approve,
    Cancel,
    Completed,
    Edit,
    Halt,
    Interrupt,
    Interrupted,
    InvalidState,
    Message,
    Misconfigured,
    MultipleInterrupts,
    Question,
    Reject,
    ReviewConfig,
    ScriptedModel,
    SubAgentInterrupt,
    TextPart,
    ThinkingPart,
    Todo,
    ToolCall,
    ToolResult,
    UnknownInterrupt,
    serialize,
    tool,
)
from sagents_app.engine.display_items import stop_reason
from sagents_app.engine.middlewares import AskUserQuestion, HumanInTheLoop
from tests.engine.serialize import examples

FIXTURES = Path(__file__).parent / "fixtures"
HI = Message.user("hi")


def fixture(name: str) -> Any:
    return json.loads((FIXTURES / name).read_text())


def stored(state: AgentState) -> AgentState:
    """Return the state as another process loads it: through JSON text."""
    return serialize.load_state(json.loads(json.dumps(serialize.dump_state(state))))


def with_result(result: ToolResult) -> AgentState:
    call = ToolCall(result.tool_call_id, result.name)
    return AgentState((HI, Message.assistant(tool_calls=[call]), Message.tool(result)))


class TestForm:
    def test_stored_form_is_json_with_text_keys_and_a_version(self):
        """R-001: version, todo fields, metadata keys are text."""
        state = AgentState((HI,), (Todo(1, "a", "completed"),), {"a": 1, 2: {"b": 3}})  # type: ignore[dict-item]
        data = serialize.dump_state(state)
        assert data["version"] == 3
        assert data["todos"] == [{"id": 1, "content": "a", "status": "completed"}]
        assert data["metadata"] == {"a": 1, "2": {"b": 3}}
        assert json.loads(json.dumps(data)) == data

    def test_empty_state_is_stored_empty(self):
        """R-001: [], [], {}."""
        data = serialize.dump_state(AgentState())
        assert (data["messages"], data["todos"], data["metadata"]) == ([], [], {})
        assert stored(AgentState()) == AgentState()

    async def test_nothing_of_the_agent_is_stored(self):
        """R-003: no name, prompt, tool context, scope, tool or key anywhere."""

        @tool
        async def look(what: str) -> str:
            """Look at it."""
            return "seen"

        agent = Agent(
            model=ScriptedModel(
                Message.assistant(tool_calls=[ToolCall("c1", "look", {"what": "x"})]), "done"
            ),
            system_prompt="secret prompt",
            name="secret name",
            tools=[look],
            tool_context={"key": "secret key"},
            scope="secret scope",
        )
        outcome = await agent.execute(AgentState((HI,)), acting_user="secret user")
        text = json.dumps(serialize.dump_state(outcome.state))
        assert "secret" not in text
        assert "Look at it" not in text

    def test_what_is_empty_is_left_out_of_a_message(self):
        """R-009, R-011: no interrupt, failure or details where there are none."""
        data = serialize.dump_message(
            replace(Message.tool(ToolResult("c1", "look", (TextPart("x"),))), id="m1")
        )
        assert data == {
            "id": "m1",
            "role": "tool",
            "status": "complete",
            "tool_results": [
                {
                    "tool_call_id": "c1",
                    "name": "look",
                    "content": [{"type": "text", "text": "x"}],
                }
            ],
        }

    def test_the_programs_value_of_a_result_is_not_stored(self):
        """R-023: `processed_content` is for the running program alone."""
        result = ToolResult("c1", "look", (TextPart("x"),), processed_content=object())
        (loaded,) = stored(with_result(result)).messages[2].tool_results
        assert loaded == replace(result, processed_content=None)

    def test_messages_can_be_kept_apart(self):
        """A host that stores messages as rows gives them back when it loads the rest."""
        state = examples.everything()
        data = serialize.dump_state(state, with_messages=False)
        rows = [serialize.dump_message(message) for message in state.messages]
        assert "messages" not in data
        loaded = serialize.load_state(data, [serialize.load_message(row) for row in rows])
        assert loaded == state


class TestRoundTrip:
    def test_state_with_everything_comes_back_the_same(self):
        """R-004, R-005, R-007: each kind of part, call, result, interrupt and decision."""
        assert stored(examples.everything()) == examples.everything()

    def test_integers_in_metadata_stay_integers(self):
        """R-004: numbers keep their kind."""
        metadata = stored(AgentState(metadata={"a": 1, "b": 1.0, "c": True})).metadata
        assert [type(metadata[key]) for key in "abc"] == [int, float, bool]

    def test_call_keeps_its_arguments_as_they_were_shown(self):
        """R-010, R-024: canonical text, provider's id and digest survive."""
        call = ToolCall("c1", "pay", '{"b": 2.50, "a": [1, null]}', "provider-1")
        loaded = serialize.load_message(
            serialize.dump_message(Message.assistant(tool_calls=[call]))
        ).tool_calls[0]
        assert loaded == call
        assert loaded.arguments == {"a": [1, None], "b": 2.5}
        assert loaded.digest == call.digest

    def test_unreadable_arguments_survive_as_they_came(self):
        """R-024: a call that cannot be parsed keeps its text and the reason, and stays unrun."""
        call = ToolCall("c1", "pay", '{"a": ')
        message = Message.assistant(tool_calls=[call])
        loaded = serialize.load_message(serialize.dump_message(message)).tool_calls[0]
        assert loaded == call
        assert loaded.arguments_json == '{"a": '
        assert loaded.problem is not None

    @pytest.mark.parametrize("status", ["length", "cancelled", "content_filtered", "stream_error"])
    def test_dead_stream_still_says_so_after_a_restart(self, status: Any):
        """R-011: the reason and the provider's own account survive."""
        message = replace(examples.everything().messages[4], status=status)
        loaded = serialize.load_message(serialize.dump_message(message))
        assert loaded == message
        assert loaded.stop_details == {"code": 529}
        assert stop_reason(loaded) == stop_reason(message)

    def test_assistant_without_content_stays_without(self):
        """R-025: nothing is invented for it."""
        message = Message.assistant(tool_calls=[ToolCall("c1", "pay")])
        assert serialize.load_message(serialize.dump_message(message)).content == ()

    async def test_approval_survives_a_restart(self):
        """R-007: the gated call runs after the reload, once, with the arguments that were shown."""
        ran = []

        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            ran.append(amount)
            return "paid"

        agent = Agent(
            model=ScriptedModel(
                Message.assistant(tool_calls=[ToolCall("c1", "pay", {"amount": 5})]), "done"
            ),
            tools=[pay],
            middlewares=[HumanInTheLoop({"pay": True})],
        )
        waits = await agent.execute(AgentState((HI,)))
        assert isinstance(waits, Interrupted)
        outcome = await agent.resume(stored(waits.state), {"c1": Approve()})
        assert isinstance(outcome, Completed)
        assert ran == [5]


class Mood(Enum):
    """Plain, so that JSON does not know it."""

    GOOD = "good"


@dataclass(frozen=True, slots=True)
class Signer:
    """A value inside a host's own interrupt."""

    name: str
    due: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature(Interrupt):
    """A host's own kind, with values that JSON does not have."""

    type = "test_signature"
    signers: tuple[Signer, ...]
    amount: Decimal
    mood: Mood = Mood.GOOD
    first: Interrupt | None = None
    others: tuple[Interrupt, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)


class TestInterrupts:
    def test_a_hosts_own_kind_comes_back_with_its_own_types(self):
        """R-007: types and nested values exactly; looks of an envelope inside stay data."""
        interrupt = Signature(
            tool_call_id="c1",
            signers=(Signer("Ann", datetime(2025, 1, 2, tzinfo=UTC)),),
            amount=Decimal("1.10"),
            first=Halt("stop"),
            others=(Question("Why?"), Signature(signers=(), amount=Decimal(1))),
            raw={"type": "halt", "message": "only data"},
        )
        data = json.loads(json.dumps(serialize.dump_interrupt(interrupt)))
        assert serialize.load_interrupt(data) == interrupt

    def test_a_kind_whose_annotations_only_python_reads_is_still_loaded(self):
        @dataclass(frozen=True, slots=True, kw_only=True)
        class Odd(Interrupt):
            type = "test_odd"
            value: NotThere = 1  # type: ignore[name-defined]  # noqa: F821

        loaded = serialize.load_interrupt({"type": "test_odd", "value": 2})
        assert loaded == Odd(value=2)

    def test_a_kind_needs_a_type_that_no_other_has(self):
        """R-007: a stored type names one kind; the same class made again is the same kind."""
        with pytest.raises(Misconfigured, match="Copy needs a `type` of its own, got 'halt'"):
            type("Copy", (Interrupt,), {"type": "halt", "__module__": __name__})
        with pytest.raises(Misconfigured, match="Halt needs a `type` of its own, got 'halt'"):
            type("Halt", (Interrupt,), {"type": "halt", "__module__": __name__})
        with pytest.raises(Misconfigured, match="Bare needs a `type` of its own, got ''"):
            type("Bare", (Interrupt,), {})
        assert serialize.load_interrupt({"type": "halt", "message": "x"}) == Halt("x")

    @pytest.mark.parametrize(
        "data",
        [
            pytest.param({"type": "gone_kind", "why": "x"}, id="unknown kind"),
            pytest.param({"type": "approval"}, id="a field is missing"),
            pytest.param({"type": "approval", "action_requests": "text"}, id="a field is wrong"),
            pytest.param({"type": "multiple_interrupts", "interrupts": [1]}, id="a bad member"),
            pytest.param({"type": "test_signature", "signers": 5, "amount": "x"}, id="host's own"),
            pytest.param({"type": "unknown", "stored_type": "x"}, id="the unknown kind itself"),
        ],
    )
    def test_unreadable_interrupt_stays_pending_and_can_be_cancelled(self, data: dict[str, Any]):
        """R-008: no exception, nothing of the data is lost, and nothing is run."""
        loaded = serialize.load_interrupt({**data, "tool_call_id": "c1"})
        values = {key: value for key, value in data.items() if key != "type"}
        assert loaded == UnknownInterrupt(data["type"], data=values, tool_call_id="c1")
        again = serialize.dump_interrupt(loaded)
        assert again == {**data, "tool_call_id": "c1"}

    @pytest.mark.parametrize("payload", ["g3QAAAAB", b"\x80", {"no": "type"}, [1], 5, {"type": 3}])
    def test_malformed_payload_of_a_result_is_no_interrupt(self, payload: Any):
        """R-006, R-008: the result stays a placeholder, which a cold start then demotes."""
        data = {"tool_call_id": "c1", "name": "ask", "is_interrupt": True, "interrupt": payload}
        result = serialize.load_result(data)
        assert (result.is_interrupt, result.interrupt) == (True, None)
        cleaned = with_result(result).clean_stale_interrupts([AskUserQuestion()])
        (demoted,) = cleaned.messages[2].tool_results
        assert (demoted.is_interrupt, demoted.is_error) == (False, True)
        assert "incompatible" in demoted.text

    @pytest.mark.parametrize("data", [None, "halt", [], {}, {"type": 5}])
    def test_what_has_no_type_is_no_interrupt(self, data: Any):
        with pytest.raises(InvalidState, match="an interrupt is a mapping with a type, got"):
            serialize.load_interrupt(data)

    def test_a_stored_review_rule_is_not_widened(self):
        """A rule with an empty list allows nothing, rather than the default."""
        data = serialize.dump_interrupt(examples.APPROVAL)
        data["review_configs"]["refund"]["allowed_decisions"] = []
        loaded = serialize.load_interrupt(data)
        assert loaded.review_config("refund") == ReviewConfig(())  # type: ignore[attr-defined]

    def test_nested_interrupts_keep_their_kinds(self):
        inner = MultipleInterrupts((examples.QUESTION, examples.APPROVAL))
        outer = SubAgentInterrupt("mailer", path=("a", "b"), inner=inner, tool_call_id="c1")
        assert serialize.load_interrupt(serialize.dump_interrupt(outer)) == outer


class TestDecisions:
    @pytest.mark.parametrize(
        "data",
        [
            {},
            None,
            {"type": "aprove"},
            {"type": "edit"},
            {"type": "edit", "arguments_json": "[1]"},
            {"type": "edit", "arguments_json": "{"},
            {"type": "edit", "arguments_json": {"a": 1}},
            {"type": "respond"},
            {"type": "answer", "selected": "text"},
        ],
    )
    def test_unreadable_decision_is_an_error_and_never_an_approval(self, data: Any):
        """P9: a lost decision is not a decision."""
        with pytest.raises(InvalidState):
            serialize.load_decision(data)

    @pytest.mark.parametrize(
        "decision", [Edit({}), Edit({"a": None}), Reject(""), Reject("why"), Approve(""), Cancel()]
    )
    def test_falsy_content_of_a_decision_arrives_as_given(self, decision: Any):
        """B003, B047: `{}` and null are edits."""
        assert serialize.load_decision(serialize.dump_decision(decision)) == decision

    def test_a_lost_verdict_means_ask(self):
        """P9: only a stored False frees a call."""
        data = {**serialize.dump_state(AgentState((HI,))), "verdicts": {"a": None, "b": 0, "c": 1}}
        assert serialize.load_state(data).verdicts == {"a": True, "b": True, "c": True}
        data["verdicts"] = {"a": False}
        assert serialize.load_state(data).verdicts == {"a": False}


class TestVersions:
    def test_version_1_is_upgraded(self):
        """R-012, R-013, R-018: renamed arguments, renumbered todos, parts in today's form."""
        state = serialize.load_state(fixture("state-v1.json"))
        assert [(message.role, message.text) for message in state.messages] == [
            ("system", "Be brief."),
            ("user", "Research llamas"),
            ("assistant", ""),
            ("tool", ""),
            ("assistant", "They are calm."),
        ]
        assert [(call.name, call.arguments) for call in state.messages[2].tool_calls] == [
            ("task", {"instructions": "llamas", "task_name": "researcher"}),
            ("get_task_instructions", {"task_name": "researcher"}),
            ("search", {"subagent_type": "kept", "deep": {"subagent_type": "kept"}}),
        ]
        assert [
            (result.tool_call_id, result.text, result.is_error)
            for result in state.messages[3].tool_results
        ] == [
            ("call_1", "Llamas are calm.", False),
            ("call_2", "Ask one thing.", False),
            ("call_3", "timeout", True),
        ]
        assert state.todos == (
            Todo(1, "Research", "completed"),
            Todo(2, "Write", "in_progress"),
        )
        assert state.metadata == {
            "conversation_title": "Llamas",
            "count": 3,
            "nested": {"list": [1, None, "x"]},
        }
        assert len({message.id for message in state.messages}) == 5

    def test_version_2_is_upgraded(self):
        """R-006, R-011, R-013, R-022: options, reasons of a dead stream, opaque interrupts."""
        state = serialize.load_state(fixture("state-v2.json"))
        user, assistant, results, died, stopped = state.messages
        assert [serialize.dump_part(part) for part in user.content] == [
            {"type": "text", "text": "What is in these?"},
            {"type": "image", "data": "aW1n", "mime_type": "image/jpeg"},
            {"type": "image", "url": "https://example.com/a.png"},
            {"type": "file", "name": "a.pdf", "data": "cGRm", "mime_type": "application/pdf"},
        ]
        assert assistant.content == (
            ThinkingPart("A picture.", signature="c2ln"),
            ThinkingPart("", redacted="b3BhcXVl"),
            TextPart("I will ask."),
        )
        assert [call.arguments for call in assistant.tool_calls] == [
            {"question": "Which?", "count": 12345678901234567890},
            {"task_name": "researcher", "subagent_type": "untouched"},
        ]
        assert results.tool_results == (
            ToolResult(
                "call_1", "ask_user", (TextPart("Waiting for user response..."),), is_interrupt=True
            ),
            ToolResult("call_2", "task", (TextPart("done"),)),
        )
        assert (died.status, died.text, stop_reason(died)) == (
            "stream_error",
            "It brok",
            "stream_error",
        )
        assert died.stream_failure is not None
        assert (died.stream_failure.type, died.stream_failure.message) == (
            "overloaded",
            "try later",
        )
        assert died.stop_details == {"code": 529}
        assert (stopped.status, stopped.stream_failure, stopped.stop_details) == (
            "cancelled",
            None,
            None,
        )
        assert state.todos == (Todo(7, "Look"), Todo(3, "Tell", "cancelled"))
        assert state.metadata == {"debug": {"calls": 2}}

    def test_version_3_is_read_as_it_was_written(self):
        """R-012: today's form, frozen as it was first written."""
        assert serialize.load_state(fixture("state-v3.json")) == examples.everything()

    @pytest.mark.parametrize("name", ["state-v1.json", "state-v2.json", "state-v3.json"])
    async def test_conversation_of_every_version_goes_on(self, name: str):
        """R-013: the history of an old state can be sent, and nothing of it is lost."""
        state = serialize.load_state(fixture(name)).cancel_pending_interrupts()
        model = ScriptedModel("Hello again.")
        outcome = await Agent(model=model).execute(state.add_message(HI))
        assert isinstance(outcome, Completed)
        assert list(outcome.state.messages[:-1]) == [*state.messages, HI]
        assert stored(outcome.state) == outcome.state

    def test_missing_version_is_the_first(self):
        """R-012: treated as 1 and migrated."""
        data = fixture("state-v1.json")
        del data["version"]
        (call, _, _) = serialize.load_state(data).messages[2].tool_calls
        assert call.arguments == {"instructions": "llamas", "task_name": "researcher"}

    def test_an_old_state_may_stand_without_its_envelope(self):
        """R-017: the inner mapping alone is a state too."""
        inner = fixture("state-v1.json")["state"]
        assert len(serialize.load_state(inner).messages) == 5

    @pytest.mark.parametrize("version", [4, 0, -1, "2", None, 2.0, True])
    def test_unknown_version_is_refused(self, version: Any):
        """R-012: what a newer version wrote is not guessed at, and never an empty state."""
        with pytest.raises(InvalidState, match=r"version .* is not among 1 to 3") as caught:
            serialize.load_state({**fixture("state-v3.json"), "version": version})
        assert caught.value.path == "version"

    @pytest.mark.parametrize("inner", [{}, {"state": None}, {"state": "x"}, {"serialized_at": "x"}])
    def test_envelope_without_a_state_is_an_error(self, inner: dict[str, Any]):
        """S-131: "cannot tell" is not an empty conversation."""
        with pytest.raises(InvalidState, match="the stored form holds no state"):
            serialize.load_state({"version": 2, **inner})

    @pytest.mark.parametrize("wrong", [None, "text", 5, {"a": 1}])
    @pytest.mark.parametrize("version", [1, 2])
    def test_missing_parts_of_an_old_state_are_empty(self, version: int, wrong: Any):
        """R-017: messages, todos and metadata of a wrong type are [], [], {}."""
        inner = {
            "messages": wrong,
            "todos": wrong,
            "metadata": None if wrong == {"a": 1} else wrong,
        }
        state = serialize.load_state({"version": version, "state": inner})
        assert (list(state.messages), state.todos, state.metadata) == ([], (), {})

    def test_pending_message_of_an_old_state_is_not_lost(self):
        """R-016: read apart from the state; None where there is none."""
        pending = serialize.load_pending_message(fixture("state-v2.json"))
        assert pending is not None
        assert (pending.role, pending.text) == ("user", "Never mind.")
        assert serialize.load_pending_message(fixture("state-v1.json")) is None
        assert serialize.load_pending_message({"version": 2, "pending_message": None}) is None
        assert serialize.load_pending_message("text") is None

    @pytest.mark.parametrize(
        ("kind", "media", "mime"),
        [
            ("image", "webp", "image/webp"),
            ("image", "image/gif", "image/gif"),
            ("file", "pdf", "application/pdf"),
            ("image", None, None),
        ],
    )
    def test_media_of_an_old_part_become_mime_types(self, kind: str, media: Any, mime: Any):
        """R-022: options by name, whatever their form."""
        part = {"type": kind, "content": "eA==", "options": {"media": media}}
        message = {"role": "user", "status": None, "content": [part]}
        (loaded,) = serialize.load_state({"version": 2, "state": {"messages": [message]}}).messages
        assert loaded.content[0].mime_type == mime  # type: ignore[union-attr]
        assert loaded.status == "complete"


@dataclass(frozen=True)
class Broken:
    id: str
    changes: dict[str, Any]
    told: str


BROKEN = [
    Broken("S-134 a message that is none", {"messages": ["x"]}, "state: cannot be read"),
    Broken("R-019 a message without a role", {"messages": [{}]}, "state: cannot be read"),
    Broken(
        "R-019 a role that does not exist",
        {"messages": [{"role": "robot"}]},
        "role 'robot' or status 'complete' is unknown",
    ),
    Broken(
        "R-019 a status that does not exist",
        {"messages": [{"role": "user", "status": "odd", "content": [{"type": "text"}]}]},
        "role 'user' or status 'odd' is unknown",
    ),
    Broken(
        "R-019 a part that does not exist",
        {"messages": [{"role": "user", "content": [{"type": "smell"}]}]},
        "a part of the unknown type 'smell'",
    ),
    Broken(
        "R-025 a user message without content",
        {"messages": [{"role": "user", "status": "complete"}]},
        "a user message needs content",
    ),
    Broken(
        "R-025 a system message without content",
        {"messages": [{"role": "system", "content": []}]},
        "a system message needs content",
    ),
    Broken(
        "R-018 one invalid todo",
        {"todos": [{"id": 1, "content": "ok"}, {"id": 2, "content": " "}]},
        "todo 2 needs content",
    ),
    Broken("R-018 a todo that is none", {"todos": ["x"]}, "a todo is a Todo or a mapping"),
    Broken("R-019 a negative count", {"runs_used": -1}, "a count is a number from 0, got -1"),
    Broken("R-019 a count that is text", {"tokens_used": "9"}, "a count is a number from 0"),
    Broken("R-019 a count that is endless", {"tool_failures": float("inf")}, "a count is a number"),
    Broken("R-019 decisions that are none", {"decisions": {"c1": {}}}, "a decision is one of"),
    Broken("R-019 an interrupt that is none", {"interrupt": "halt"}, "an interrupt is a mapping"),
]


OLD_BROKEN = [
    Broken("R-019 a message that is none", {"messages": ["x"]}, "state: cannot be read"),
    Broken(
        "R-019 a part that is none",
        {"messages": [{"role": "user", "content": ["x"]}]},
        "state: cannot be read",
    ),
    Broken(
        "R-019 a part of no kind",
        {"messages": [{"role": "user", "content": [{"type": "smell", "content": "x"}]}]},
        "a part of the unknown type 'smell'",
    ),
    Broken(
        "R-019 a result that is none",
        {"messages": [{"role": "tool", "tool_results": ["x"]}]},
        "state: cannot be read",
    ),
    Broken("R-018 a todo that is none", {"todos": [5]}, "a todo is a Todo or a mapping"),
    Broken("R-018 an invalid todo", {"todos": [{"id": "a", "content": ""}]}, "todo 1 needs"),
]


class TestUnreadable:
    @pytest.mark.parametrize("case", OLD_BROKEN, ids=[case.id for case in OLD_BROKEN])
    @pytest.mark.parametrize("version", [1, 2])
    def test_broken_state_of_an_old_version_is_the_same_error(self, version: int, case: Broken):
        """R-019: an upgrade passes on what it cannot read, and the reader names it."""
        with pytest.raises(InvalidState, match=case.told):
            serialize.load_state({"version": version, "state": case.changes})

    @pytest.mark.parametrize("case", BROKEN, ids=[case.id for case in BROKEN])
    def test_broken_state_is_one_named_error(self, case: Broken):
        """R-019: never a traceback of another kind, never half a state."""
        with pytest.raises(InvalidState, match=case.told):
            serialize.load_state({**serialize.dump_state(AgentState()), **case.changes})

    @pytest.mark.parametrize("data", [None, "text", [], 5])
    def test_what_is_no_mapping_is_no_state(self, data: Any):
        with pytest.raises(InvalidState, match="a state is a mapping, got"):
            serialize.load_state(data)

    def test_endless_nesting_is_an_error_and_no_crash(self):
        data = serialize.dump_state(AgentState())
        for _ in range(2000):
            data = {**serialize.dump_state(AgentState()), "sub_agents": {"c1": data}}
        with pytest.raises(InvalidState, match="RecursionError"):
            serialize.load_state(data)


class TestMetadata:
    def test_one_value_that_is_no_json_does_not_take_the_others_along(self):
        """R-021: structs as text, functions as None, enums as text, nested values kept."""
        metadata = {
            "kept": 1,
            "mood": Mood.GOOD,
            "signer": Decimal("1.5"),
            "function": print,
            "nested": {"deep": [1, {"set": {7}}], "nan": float("nan")},
        }
        assert stored(AgentState(metadata=metadata)).metadata == {
            "kept": 1,
            "mood": "Mood.GOOD",
            "signer": "1.5",
            "function": None,
            "nested": {"deep": [1, {"set": [7]}], "nan": "nan"},
        }

    def test_a_value_that_holds_itself_is_marked(self):
        loop: list[Any] = [1]
        loop.append(loop)
        metadata = {"loop": loop, "kept": 1}
        assert stored(AgentState(metadata=metadata)).metadata == {
            "loop": [1, "(circular)"],
            "kept": 1,
        }

    def test_a_value_that_is_nested_too_deeply_is_marked(self):
        deep: Any = "bottom"
        for _ in range(5000):
            deep = [deep]
        metadata = stored(AgentState(metadata={"deep": deep, "kept": 1})).metadata
        assert metadata["kept"] == 1
        assert "(nested too deeply)" in json.dumps(metadata["deep"])

    def test_todos_given_as_mappings_are_stored(self):
        """R-020: they are todos from the moment the state has them."""
        state = AgentState(todos=[{"id": 1, "content": "a"}])  # type: ignore[arg-type]
        assert stored(state).todos == (Todo(1, "a"),)

    def test_todos_of_a_waiting_state_change_are_stored(self):
        """R-020: also where a tool gave them and nobody has applied them yet."""
        result = ToolResult("c1", "plan", state_update={"todos": [{"id": 1, "content": "a"}]})
        loaded = serialize.load_result(json.loads(json.dumps(serialize.dump_result(result))))
        assert AgentState().merge(loaded.state_update or {}).todos == (Todo(1, "a"),)

    @pytest.mark.parametrize(
        "change",
        [{"todos": ["x"]}, {"todos": 5}, {"messages": ["x"]}, {"sub_agents": {"c1": 1}}],
    )
    def test_an_unusable_state_change_does_not_keep_its_result_from_being_stored(
        self, change: dict[str, Any]
    ):
        """R-020: the effect is finished; whoever applies the change says what is wrong with it."""
        result = ToolResult("c1", "plan", (TextPart("done"),), state_update=change)
        loaded = serialize.load_result(json.loads(json.dumps(serialize.dump_result(result))))
        assert loaded == result
