"""Gates: which calls wait, what a person may change, and what the model is told of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    AgentState,
    Approve,
    Cancelled,
    Completed,
    Edit,
    Failed,
    FunctionModel,
    Interrupted,
    InvalidResume,
    Message,
    Middleware,
    Misconfigured,
    ModelRequest,
    Paused,
    Question,
    Reject,
    ReviewConfig,
    ScriptedModel,
    ToolCall,
    ToolContext,
    ToolResult,
    serialize,
    tool,
)
from sagents_app.engine.events import Event, ToolFinished, ToolStarted
from sagents_app.engine.middlewares import HumanInTheLoop

HI = Message.user("hi")
DECLINED = "A person declined this call. Do not repeat it."
REPEATED = (
    "A person declined an identical call, {call_id}, before. "
    "It was not run and nobody was asked again; do not repeat it."
)


class Desk:
    """Tools that note what they did, and a journal that notes what it was told."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Any]] = []
        self.begun: list[ToolCall] = []
        self.finished: list[tuple[ToolCall, ToolResult]] = []

        @tool
        async def weather(city: str, unit: str | None = "C") -> str:
            """Look up the weather."""
            self.done.append((city, unit))
            return f"sun in {city}"

        @tool
        async def delete_file(path: str) -> str:
            """Delete a file."""
            self.done.append(("deleted", path))
            return "deleted"

        @tool(asks_person=True)
        async def ask(question: str) -> Question:
            """Ask."""
            return Question(question)

        self.tools = [weather, delete_file, ask]

    async def begin(self, call: ToolCall) -> None:
        self.begun.append(call)

    async def finish(self, call: ToolCall, result: ToolResult) -> None:
        self.finished.append((call, result))

    def agent(self, *replies: Any, gate: Middleware | None = None, **options: Any) -> Agent:
        gate = gate or HumanInTheLoop({"weather": True, "delete_file": True})
        return Agent(model=ScriptedModel(*replies), tools=self.tools, middlewares=[gate], **options)


def calling(*calls: ToolCall) -> Message:
    return Message.assistant(tool_calls=calls)


def weather(call_id: str = "c1", **arguments: Any) -> Message:
    return calling(ToolCall(call_id, "weather", {"city": "New York", **arguments}))


async def run(agent: Agent, **options: Any) -> Any:
    return await agent.execute(AgentState((HI,)), **options)


def reloaded(state: AgentState) -> AgentState:
    return serialize.load_state(json.loads(json.dumps(serialize.dump_state(state))))


def results(state: AgentState) -> list[ToolResult]:
    return [result for message in state.messages for result in message.tool_results]


def sent(agent: Agent, index: int) -> list[str]:
    """Return the texts of the last batch's results in the request at `index`."""
    request: ModelRequest = agent.setup.models[0].requests[index]  # type: ignore[attr-defined]
    return [result.text for result in request.messages[-1].tool_results]


class TestEdits:
    def test_an_edit_has_no_tool_name(self):
        """B038: the name of the tool cannot be edited, so no other gate can be slipped past."""
        with pytest.raises(TypeError, match="tool_name"):
            Edit({"path": "/etc"}, tool_name="delete_file")  # type: ignore[call-arg]

    async def test_a_stored_edit_that_names_another_tool_runs_the_call_that_was_shown(self):
        """B038: a name in the stored form, or among the arguments, changes no tool."""
        desk = Desk()
        agent = desk.agent(weather(), "done")
        waits = await run(agent)
        stored = {
            "type": "edit",
            "arguments_json": '{"city":"London"}',
            "tool_name": "delete_file",
            "name": "delete_file",
        }
        outcome = await agent.resume(waits.state, {"c1": serialize.load_decision(stored)})
        assert isinstance(outcome, Completed)
        assert desk.done == [("London", "C")]
        with pytest.raises(InvalidResume, match="the edited arguments of 'weather' do not fit"):
            await agent.resume(waits.state, {"c1": Edit({"city": "x", "name": "delete_file"})})

    async def test_the_model_is_told_what_ran_instead(self):
        """B041: result, journal and events show what was run, with the reviewer's note."""
        desk = Desk()
        heard: list[Event] = []
        agent = desk.agent(weather(), "done")
        waits = await run(agent)
        outcome = await agent.resume(
            waits.state,
            {"c1": Edit({"city": "London"}, note="the office moved")},
            journal=desk,
            on_event=heard.append,
        )
        assert isinstance(outcome, Completed)
        told = (
            'A person changed the arguments before the call ran, to {"city":"London"}. '
            "Their note: the office moved\nsun in London"
        )
        assert sent(agent, 1) == [told]
        assert [result.decision for result in results(outcome.state)] == ["edit"]
        assert outcome.state.messages[1].tool_calls[0].arguments == {"city": "New York"}
        ran = [desk.begun[0], desk.finished[0][0]]
        ran += [event.call for event in heard if isinstance(event, (ToolStarted, ToolFinished))]
        assert [call.arguments for call in ran] == [{"city": "London"}] * 4
        assert desk.finished[0][1].text == told

    @pytest.mark.parametrize(
        ("proposed", "edited", "ran"),
        [
            pytest.param({"unit": "F"}, {"city": "x", "unit": None}, ("x", None), id="null"),
            pytest.param({"unit": "F"}, {"city": "x"}, ("x", "C"), id="left out"),
            pytest.param({"unit": "F"}, {"city": ""}, ("", "C"), id="empty text"),
        ],
    )
    async def test_an_edit_is_told_by_presence_and_not_by_truth(
        self, proposed: dict[str, Any], edited: dict[str, Any], ran: Any
    ):
        """B047, B003: an explicit null, an empty text and an omission arrive as given."""
        desk = Desk()
        agent = desk.agent(weather(**proposed), "done")
        waits = await run(agent)
        outcome = await agent.resume(reloaded(waits.state), {"c1": Edit(edited)})
        assert isinstance(outcome, Completed)
        assert desk.done == [ran]

    async def test_an_edit_to_nothing_is_an_edit(self):
        """B003, B047: `{}` where the tool takes it."""
        ran: list[str] = []

        @tool
        async def greet(name: str = "you") -> str:
            """Greet."""
            ran.append(name)
            return "ok"

        agent = Agent(
            model=ScriptedModel(calling(ToolCall("c1", "greet", {"name": "Ann"})), "done"),
            tools=[greet],
            middlewares=[HumanInTheLoop({"greet": True})],
        )
        waits = await run(agent)
        outcome = await agent.resume(waits.state, {"c1": Edit({})})
        assert isinstance(outcome, Completed)
        assert ran == ["you"]

    @pytest.mark.parametrize(
        "edited",
        [{}, {"city": 5}, {"city": None}, {"city": "x", "unit": 1}, {"city": "x", "day": "Mon"}],
    )
    async def test_an_edit_that_does_not_fit_is_refused_and_nothing_changes(self, edited: Any):
        """Edited arguments are validated as strictly as the model's."""
        desk = Desk()
        agent = desk.agent(weather(), "done")
        waits = await run(agent)
        with pytest.raises(InvalidResume, match="the edited arguments of 'weather' do not fit"):
            await agent.resume(waits.state, {"c1": Edit(edited)})
        assert desk.done == []
        assert isinstance(await agent.resume(waits.state, {"c1": Approve()}), Completed)
        assert desk.done == [("New York", "C")]


class TestRejections:
    @pytest.mark.parametrize(
        ("note", "told"),
        [
            ("use the sandbox account", f"{DECLINED} Their note: use the sandbox account"),
            ("", DECLINED),
        ],
    )
    async def test_the_note_of_a_rejection_survives_a_restart(self, note: str, told: str):
        """B042: it is what the model sees; without one, a plain sentence."""
        desk = Desk()
        agent = desk.agent(weather(), "done")
        waits = await run(agent)
        decision = serialize.load_decision(
            json.loads(json.dumps(serialize.dump_decision(Reject(note))))
        )
        outcome = await agent.resume(reloaded(waits.state), {"c1": decision})
        assert isinstance(outcome, Completed)
        assert sent(agent, 1) == [told]
        (result,) = results(outcome.state)
        assert (result.is_error, result.decision) == (True, "reject")
        assert desk.done == []


class TestRepetitions:
    async def test_a_rejected_call_is_not_asked_about_again(self):
        """B103: the second, identical call is answered with reference to the first decision."""
        desk = Desk()
        agent = desk.agent(weather("c1"), weather("c2"), weather("c3"), "I give up.")
        waits = await run(agent)
        outcome = await agent.resume(reloaded(waits.state), {"c1": Reject()})
        assert isinstance(outcome, Completed)
        assert [(one.text, one.is_error, one.decision) for one in results(outcome.state)] == [
            (DECLINED, True, "reject"),
            (REPEATED.format(call_id="c1"), True, "repeated"),
            (REPEATED.format(call_id="c1"), True, "repeated"),
        ]
        assert desk.done == []
        assert outcome.state.rejected == {}

    async def test_a_model_that_repeats_for_ever_is_stopped(self):
        """B103: refusals count against the limit of failing batches; the run ends cleanly."""
        desk = Desk()
        calls = iter(range(100))
        agent = Agent(
            model=FunctionModel(lambda request: weather(f"c{next(calls)}")),
            tools=desk.tools,
            middlewares=[HumanInTheLoop({"weather": True})],
            max_tool_failures=5,
        )
        waits = await run(agent)
        outcome = await agent.resume(waits.state, {"c0": Reject()})
        assert isinstance(outcome, Failed)
        assert outcome.error.type == "exceeded_failure_count"
        assert [result.decision for result in results(outcome.state)] == [
            "reject",
            *["repeated"] * 5,
        ]
        assert desk.done == []

    async def test_other_arguments_are_another_call(self):
        """B103: only what is identical is refused; key order does not make a difference."""
        desk = Desk()
        same = ToolCall("c2", "weather", '{"unit": "C", "city": "New York"}')
        agent = desk.agent(
            weather("c1", unit="C"),
            calling(same, ToolCall("c3", "weather", {"city": "Rome"})),
            "done",
        )
        waits = await run(agent)
        again = await agent.resume(waits.state, {"c1": Reject()})
        assert isinstance(again, Interrupted)
        assert [one.tool_call_id for one in again.interrupt.action_requests] == ["c3"]  # type: ignore[attr-defined]
        outcome = await agent.resume(reloaded(again.state), {"c3": Approve()})
        assert isinstance(outcome, Completed)
        assert [(one.tool_call_id, one.decision) for one in results(outcome.state)] == [
            ("c1", "reject"),
            ("c2", "repeated"),
            ("c3", "approve"),
        ]
        assert desk.done == [("Rome", "C")]

    async def test_asking_again_is_a_choice(self):
        """B103: configurable; the second request can be approved."""
        desk = Desk()
        gate = HumanInTheLoop({"weather": True}, repeat_after_reject="ask")
        agent = desk.agent(weather("c1"), weather("c2"), "done", gate=gate)
        waits = await run(agent)
        again = await agent.resume(waits.state, {"c1": Reject()})
        assert isinstance(again, Interrupted)
        outcome = await agent.resume(reloaded(again.state), {"c2": Approve()})
        assert isinstance(outcome, Completed)
        assert desk.done == [("New York", "C")]

    @pytest.mark.parametrize("wrong", ["", "never", None, True])
    def test_an_unknown_choice_is_refused(self, wrong: Any):
        """P9: a misspelt rule stops start-up."""
        with pytest.raises(Misconfigured, match="repeat_after_reject is one of refuse, ask, got"):
            HumanInTheLoop({}, repeat_after_reject=wrong)

    async def test_the_next_turn_asks_anew(self):
        """B103: a rejection holds for its turn; the user may have asked for it since."""
        desk = Desk()
        agent = desk.agent(weather("c1"), "ok", weather("c2"), "done")
        waits = await run(agent)
        ended = await agent.resume(waits.state, {"c1": Reject()})
        assert isinstance(ended, Completed)
        again = await agent.execute(ended.state.add_message(HI))
        assert isinstance(again, Interrupted)
        assert again.interrupt.action_requests[0].tool_call_id == "c2"  # type: ignore[attr-defined]

    async def test_the_next_turn_asks_anew_after_the_user_moved_on(self):
        """B103: what was rejected in a turn that was given up is forgotten too."""
        desk = Desk()
        other = calling(ToolCall("c2", "weather", {"city": "Rome"}))
        agent = desk.agent(weather("c1"), other, weather("c3"), "done")
        waits = await run(agent)
        second = await agent.resume(waits.state, {"c1": Reject()})
        state = second.state.cancel_pending_interrupts().add_message(HI)
        again = await agent.execute(state)
        assert isinstance(again, Interrupted)
        assert again.interrupt.action_requests[0].tool_call_id == "c3"  # type: ignore[attr-defined]

    async def test_a_refused_repetition_is_no_demanded_result(self):
        """B103: an until-tool target is not met by it."""
        desk = Desk()
        agent = desk.agent(weather("c1"), weather("c2"), "done")
        waits = await run(agent, until_tool="weather")
        outcome = await agent.resume(waits.state, {"c1": Reject()}, until_tool="weather")
        assert isinstance(outcome, Failed)
        assert outcome.error.type == "until_tool_not_called"

    async def test_a_pause_does_not_forget_what_was_rejected(self):
        """B103: the memory is part of the stored state."""
        desk = Desk()
        agent = desk.agent(weather("c1"), weather("c2"), "done")
        waits = await run(agent)
        paused = await agent.resume(
            waits.state,
            {"c1": Reject()},
            should_pause=lambda: bool(desk.finished),
            journal=desk,
        )
        assert isinstance(paused, Paused)
        outcome = await agent.execute(reloaded(paused.state))
        assert isinstance(outcome, Completed)
        assert [one.decision for one in results(outcome.state)] == ["reject", "repeated"]

    async def test_a_free_call_is_never_refused(self):
        """B103: the memory is about gates; what needs no decision runs."""
        desk = Desk()
        gate = HumanInTheLoop({"weather": {"when": lambda arguments, ctx: not desk.finished}})
        agent = desk.agent(weather("c1"), weather("c2"), "done", gate=gate)
        waits = await run(agent)
        outcome = await agent.resume(waits.state, {"c1": Reject()}, journal=desk)
        assert isinstance(outcome, Completed)
        assert desk.done == [("New York", "C")]


class TestReach:
    async def test_an_approval_leaves_nothing_behind(self):
        """B044: "once" is once: the next identical call, in this or another turn, is asked."""
        desk = Desk()
        agent = desk.agent(weather("c1"), weather("c2"), "done", weather("c3"))
        first = await run(agent)
        second = await agent.resume(first.state, {"c1": Approve()})
        assert isinstance(second, Interrupted)
        assert (second.state.decisions, second.state.verdicts) == ({}, {"c2": True})
        ended = await agent.resume(second.state, {"c2": Approve()})
        assert isinstance(ended, Completed)
        assert (ended.state.decisions, ended.state.verdicts) == ({}, {})
        third = await agent.execute(ended.state.add_message(HI))
        assert isinstance(third, Interrupted)
        assert desk.done == [("New York", "C")] * 2

    async def test_a_second_gate_still_asks_where_the_first_lets_pass(self):
        """B044: the stricter rule wins over the free one."""

        class Deny(Middleware):
            def needs_approval(self, call: ToolCall, context: ToolContext) -> ReviewConfig:
                return ReviewConfig(("reject",))

        desk = Desk()
        agent = Agent(
            model=ScriptedModel(weather(), "done"),
            tools=desk.tools,
            middlewares=[HumanInTheLoop({"weather": False}), Deny()],
        )
        waits = await run(agent)
        assert isinstance(waits, Interrupted)
        with pytest.raises(InvalidResume, match="allows reject, got approve"):
            await agent.resume(waits.state, {"c1": Approve()})

    @pytest.mark.parametrize(
        "name",
        [
            "Delete_File",
            " delete_file",
            "delete_file ",
            "delete-file",
            "\N{FULLWIDTH LATIN SMALL LETTER D}elete_file",
            "",
        ],
    )
    async def test_a_name_that_differs_only_in_form_is_no_tool(self, name: str):
        """B045: exact look-up; an error result that may hint, never a call past the gate."""
        desk = Desk()
        gate = HumanInTheLoop({"delete_file": True})
        agent = desk.agent(calling(ToolCall("c1", name, {"path": "/"})), "done", gate=gate)
        outcome = await run(agent)
        assert isinstance(outcome, Completed)
        (result,) = results(outcome.state)
        assert result.is_error
        assert result.text.startswith(f"Tool {name!r} not found.")
        assert desk.done == []

    async def test_a_default_covers_every_tool_without_a_rule(self):
        """B046: tools added later wait; named free ones and those that only ask do not."""

        @tool
        async def added() -> str:
            """Arrive later."""
            return "ran"

        desk = Desk()
        calls = [
            ToolCall("c1", "weather", {"city": "x"}),
            ToolCall("c2", "added"),
            ToolCall("c3", "ask", {"question": "?"}),
        ]
        agent = Agent(
            model=ScriptedModel(calling(*calls)),
            tools=[*desk.tools, added],
            middlewares=[HumanInTheLoop({"weather": False}, default=True)],
        )
        waits = await run(agent)
        assert isinstance(waits, Interrupted)
        assert [one.tool_name for one in waits.interrupt.action_requests] == ["added"]  # type: ignore[attr-defined]

    async def test_a_default_may_be_a_rule(self):
        """B046: with decisions of its own, and a predicate."""
        desk = Desk()
        gate = HumanInTheLoop(
            {},
            default={
                "allowed_decisions": ["approve"],
                "when": lambda arguments, ctx: arguments["city"] == "Rome",
            },
        )
        rome = calling(ToolCall("c2", "weather", {"city": "Rome"}))
        agent = desk.agent(weather("c1"), rome, gate=gate)
        waits = await run(agent)
        assert isinstance(waits, Interrupted)
        assert [one.tool_call_id for one in waits.interrupt.action_requests] == ["c2"]  # type: ignore[attr-defined]
        assert waits.interrupt.review_config("weather") == ReviewConfig(("approve",))  # type: ignore[attr-defined]
        assert desk.done == [("New York", "C")]

    @pytest.mark.parametrize(
        ("rules", "told"),
        [
            (["weather"], r"HumanInTheLoop takes a mapping from tool to rule, got \['weather'\]"),
            ({"wether": True}, "no tool 'wether'; the agent has weather, delete_file, ask"),
            ({"weather": None}, "'weather' is True, False or a rule with"),
            ({"weather": {}}, "'weather' is True, False or a rule with"),
            ({"weather": 1}, "'weather' is True, False or a rule with"),
            ({"weather": {"alowed": []}}, "'weather' has the unknown key 'alowed'; known are"),
            ({"weather": {"when": "x"}}, "'weather' 'when' is a sync function"),
            ({"weather": {"when": Desk.begin}}, "'weather' 'when' is a sync function"),
            ({"weather": {"allowed_decisions": []}}, "'allowed_decisions' is a list of approve"),
            ({"weather": {"allowed_decisions": "edit"}}, "'allowed_decisions' is a list of"),
            ({"weather": {"allowed_decisions": ["edit"] * 2}}, "'allowed_decisions' is a list"),
            ({"weather": {"allowed_decisions": ["ok"]}}, r"a list of .*, got \['ok'\]"),
        ],
    )
    def test_a_misconfigured_gate_stops_the_start(self, rules: Any, told: str):
        """P9: empty, misspelt and unknown entries name tool and key."""
        with pytest.raises(Misconfigured, match=told):
            Desk().agent(gate=HumanInTheLoop(rules))

    async def test_a_gate_of_a_sub_agent_covers_only_the_tools_that_it_has(self):
        """B046: what is inherited is the same gate, its default and its rule for repetitions."""
        desk = Desk()
        gate = HumanInTheLoop({"weather": True, "delete_file": True}, repeat_after_reject="ask")
        desk.agent(gate=gate)
        inner = gate.inherited({"weather": desk.tools[0]})
        agent = Agent(model=ScriptedModel(weather()), tools=desk.tools[:1], middlewares=[inner])
        waits = await run(agent)
        assert waits.interrupt.review_configs == {
            "weather": ReviewConfig(repeat_after_reject="ask")
        }

    async def test_what_was_shown_has_a_digest_that_binds_the_decision(self):
        """P4: request and call have the same digest, and other arguments another one."""
        desk = Desk()
        waits = await run(desk.agent(weather()))
        (request,) = waits.interrupt.action_requests
        assert request.digest == waits.state.messages[1].tool_calls[0].digest
        assert request.digest != weather(unit="F").tool_calls[0].digest


@dataclass(frozen=True)
class Odd:
    id: str
    answer: Callable[[], Any]


def _raise() -> Any:
    raise RuntimeError("policy lost")


ODD = [
    Odd("raises", _raise),
    Odd("answers true", lambda: True),
    Odd("answers text", lambda: "no"),
    Odd("answers an empty mapping", dict),
]


class TestFailClosed:
    @pytest.mark.parametrize("answer", [None, False])
    async def test_a_gate_of_the_call_alone_lets_it_run(self, answer: bool | None):
        """A gate that needs no context takes none; None and False mean that nobody is asked."""
        seen: list[str] = []

        class Gate(Middleware):
            def needs_approval(self, call: ToolCall) -> bool | None:
                seen.append(call.name)
                return answer

        desk = Desk()
        outcome = await run(desk.agent(weather(), "done", gate=Gate()))
        assert isinstance(outcome, Completed)
        assert len(seen) == 1

    @pytest.mark.parametrize("case", ODD, ids=[case.id for case in ODD])
    async def test_a_gate_that_fails_or_answers_oddly_asks(
        self, case: Odd, caplog: pytest.LogCaptureFixture
    ):
        """P9: a lost policy means "ask", never "run"."""

        class Gate(Middleware):
            async def needs_approval(self, call: ToolCall, context: ToolContext) -> Any:
                return case.answer()

        desk = Desk()
        agent = desk.agent(weather(), "done", gate=Gate())
        with caplog.at_level(logging.CRITICAL):
            waits = await run(agent)
        assert isinstance(waits, Interrupted)
        assert waits.interrupt.review_configs == {"weather": ReviewConfig()}  # type: ignore[attr-defined]
        assert desk.done == []
        assert reloaded(waits.state) == waits.state

    async def test_calls_of_one_tool_under_different_rules_get_the_narrower_one(self):
        """A rule is shown by tool name: no call's rule may widen a sibling's."""

        class ByCity(Middleware):
            def needs_approval(self, call: ToolCall, context: ToolContext) -> ReviewConfig:
                if call.arguments["city"] == "Rome":
                    return ReviewConfig(("reject", "respond"))
                return ReviewConfig(("approve", "edit", "reject"))

        desk = Desk()
        cities = ("Oslo", "Rome", "Oslo")
        calls = [ToolCall(f"c{at}", "weather", {"city": city}) for at, city in enumerate(cities)]
        agent = desk.agent(calling(*calls), gate=ByCity())
        waits = await run(agent)
        assert waits.interrupt.review_configs == {"weather": ReviewConfig(("reject",))}

    @pytest.mark.parametrize(
        ("one", "other", "both"),
        [
            (("approve", "edit"), ("edit", "approve"), ("approve", "edit")),
            (("approve",), ("respond",), ("reject",)),
            (("approve", "reject"), ("reject",), ("reject",)),
        ],
    )
    def test_two_rules_allow_what_both_do(self, one: Any, other: Any, both: Any):
        """Nothing in common leaves the rejection."""
        assert ReviewConfig(one).narrowed(ReviewConfig(other)) == ReviewConfig(both)
        asking = ReviewConfig(one, "ask")
        assert asking.narrowed(ReviewConfig(other, "ask")).repeat_after_reject == "ask"
        assert asking.narrowed(ReviewConfig(other)).repeat_after_reject == "refuse"

    async def test_a_lost_verdict_is_asked_again_and_a_gated_call_never_runs(self):
        """P9: a stored state without verdicts or decisions runs nothing that is gated."""
        desk = Desk()
        agent = desk.agent("unused")
        state = AgentState((HI, weather()))
        outcome = await agent.execute(state)
        assert isinstance(outcome, Interrupted)
        assert desk.done == []

    async def test_a_cancel_while_a_call_waits_runs_nothing(self):
        """A cancelled turn answers the undecided call with its true cause."""
        desk = Desk()
        agent = desk.agent("unused")
        outcome = await agent.execute(AgentState((HI, weather())), should_cancel=lambda: True)
        assert isinstance(outcome, Cancelled)
        assert [one.text for one in results(outcome.state)] == [
            "The turn was cancelled before this call was run."
        ]
        assert desk.done == []
