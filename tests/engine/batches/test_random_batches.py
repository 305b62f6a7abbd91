"""Batches of any mixture, decided in any order and in several visits, with restarts in between.

What is expected is worked out beside the engine, from the script of the batch and what was decided.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagents_app.engine import (
    Agent,
    AgentState,
    Answer,
    ApprovalRequest,
    Approve,
    Cancel,
    Completed,
    Decision,
    Edit,
    Failed,
    FunctionModel,
    Halt,
    Interrupted,
    InvalidResume,
    Message,
    ModelRequest,
    Outcome,
    Paused,
    Reject,
    Respond,
    ToolCall,
    ToolContext,
    ToolResult,
    serialize,
    session,
    tool,
)
from sagents_app.engine.events import Event
from sagents_app.engine.interrupts import has_halt, leaves, open_call_ids
from sagents_app.engine.middlewares import AskUserQuestion, Haltable, HumanInTheLoop, SubAgents
from sagents_app.engine.sub_agents import SubAgent

EXAMPLES = 500 if os.environ.get("CI") else 50
MOST_STEPS = 60
DECLINED = "A person declined this call. Do not repeat it."
UNANSWERED = "The user cancelled the question. Do not proceed with it; wait for their instructions."
MOVED_ON = (
    "The user did not respond to this and sent something new. Proceed with the user's new request."
)

TASKS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "one": (("s1",),),
    "two": (("s1", "s2"),),
    "again": (("s1",), ("s2",)),
    "asking": (("q1",),),
    "mixed": (("s1", "q1"),),
    "halting": (("h1",),),
}
"""The calls of a sub-agent, round by round; the letter says the kind: gated, question, halt."""
KINDS = ("gated", "free", "question", "halt", *TASKS)


def made(call_id: str, number: int) -> ToolCall:
    """A call of the kind that its id's letter stands for."""
    match call_id[0]:
        case "s":
            return ToolCall(call_id, "pay", {"n": number})
        case "f":
            return ToolCall(call_id, "look", {"n": number})
        case "q":
            asking = {"question": f"{number}?", "response_type": "freeform"}
            return ToolCall(call_id, "ask_user", asking)
        case _:
            return ToolCall(call_id, "stop", {"n": number})


@dataclass
class World:
    """What outlives every process: effects, journal, and what the models were asked."""

    batch: tuple[str, ...]
    early: bool
    effects: dict[str, list[int]] = field(default_factory=dict)
    finished: dict[str, ToolResult] = field(default_factory=dict)
    requests: list[ModelRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tools = (self._pay(), self._look(), self._stop())

    async def begin(self, call: ToolCall) -> ToolResult | None:
        return self.finished.get(call.call_id)

    async def finish(self, call: ToolCall, result: ToolResult) -> None:
        stored = json.loads(json.dumps(serialize.dump_result(result)))
        self.finished[call.call_id] = serialize.load_result(stored)

    def calls(self) -> tuple[ToolCall, ...]:
        letters = {"gated": "s", "free": "f", "question": "q", "halt": "h"}
        made_calls = []
        for place, kind in enumerate(self.batch):
            if kind in letters:
                made_calls.append(made(f"{letters[kind]}{place}", place))
            else:
                given = {"instructions": str(place), "task_name": kind}
                made_calls.append(ToolCall(f"t{place}", "task", given))
        return tuple(made_calls)

    def agent(self) -> Agent:
        """A new process's agent."""
        gate = {"allowed_decisions": ["approve", "edit", "reject", "respond"]}
        tools = self.tools
        kinds = [
            SubAgent(
                name=name,
                description=name,
                system_prompt="p",
                model=FunctionModel(self._rounds(name)),
                tools=tools,
                middlewares=(HumanInTheLoop({"pay": gate}), AskUserQuestion(), Haltable()),
            )
            for name in TASKS
            if name in self.batch
        ]
        return Agent(
            model=FunctionModel(self._outer),
            tools=tools,
            middlewares=[
                HumanInTheLoop({"pay": gate}, early_start=self.early),
                AskUserQuestion(),
                Haltable(),
                SubAgents(kinds, general=False),
            ],
        )

    def _outer(self, request: ModelRequest) -> Message | str:
        assert_sendable(request)
        self.requests.append(request)
        return Message.assistant(tool_calls=self.calls()) if len(request.messages) == 1 else "done"

    def _rounds(self, name: str) -> Callable[[ModelRequest], Message | str]:
        def reply(request: ModelRequest) -> Message | str:
            assert_sendable(request)
            before = sum(message.role == "assistant" for message in request.messages)
            if before == len(TASKS[name]):
                return f"{name} done"
            number = 10 * (int(request.messages[0].text) + 1)
            ids = TASKS[name][before]
            return Message.assistant(tool_calls=[made(one, number + int(one[1])) for one in ids])

        return reply

    def _note(self, ctx: ToolContext, n: int) -> str:
        self.effects.setdefault(ctx.call_id, []).append(n)
        return f"did {n}"

    def _pay(self) -> Any:
        @tool
        async def pay(n: int, ctx: ToolContext) -> str:
            """Pay."""
            return self._note(ctx, n)

        return pay

    def _look(self) -> Any:
        @tool(parallel=True)
        async def look(n: int, ctx: ToolContext) -> str:
            """Look."""
            return self._note(ctx, n)

        return look

    def _stop(self) -> Any:
        @tool
        async def stop(n: int, ctx: ToolContext) -> Halt:
            """Stop."""
            self._note(ctx, n)
            return Halt(f"stopped at {n}")

        return stop


def assert_sendable(request: ModelRequest) -> None:
    """Every call has exactly one result, in the message right behind it, in call order."""
    for place, message in enumerate(request.messages):
        if message.tool_calls:
            results = request.messages[place + 1].tool_results
            ids = [result.tool_call_id for result in results]
            assert ids == [one.call_id for one in message.tool_calls]
            assert not any(result.is_interrupt for result in results)


@dataclass
class Expected:
    """What the batch should come to, from its script and the decisions so far."""

    world: World
    decided: dict[str, Decision] = field(default_factory=dict)

    def outer(self) -> tuple[ToolCall, ...]:
        return self.world.calls()

    def gates_open(self) -> set[str]:
        return {one.call_id for one in self.outer() if one.name == "pay"} - set(self.decided)

    def started(self) -> bool:
        """Whether what needs no approval may have run."""
        return self.world.early or not self.gates_open()

    def halted(self) -> bool:
        kinds = {one.name for one in self.outer()}
        return self.started() and ("stop" in kinds or "halting" in self.world.batch)

    def open(self) -> set[str]:
        ids = self.gates_open()
        if self.started():
            for one in self.outer():
                if one.name == "ask_user" and one.call_id not in self.decided:
                    ids.add(one.call_id)
                if one.name == "task":
                    ids |= self.inner_open(one)
        return ids

    def inner_open(self, call: ToolCall) -> set[str]:
        """A sub-agent waits for its gated calls first, then for its questions, round by round."""
        for ids in TASKS[call.arguments["task_name"]]:
            for letter in "sq":
                named = {f"{call.call_id}-{one}" for one in ids if one[0] == letter}
                if left := named - set(self.decided):
                    return left
        return set()

    def text(self, call: ToolCall) -> str:
        """What the model reads of an outer call in the end."""
        if call.name == "task":
            return f"{call.arguments['task_name']} done"
        if call.name == "look":
            return f"did {call.arguments['n']}"
        return worded(call, self.decided[call.call_id])

    def effects(self) -> dict[str, list[int]]:
        """What has been done once everything is decided."""
        done: dict[str, list[int]] = {}
        for one in self.outer():
            if one.name == "look":
                done[one.call_id] = [one.arguments["n"]]
            elif one.name == "pay":
                done |= effect(one.call_id, one.arguments["n"], self.decided)
            elif one.name == "task":
                number = 10 * (int(one.arguments["instructions"]) + 1)
                for inner in itertools.chain(*TASKS[one.arguments["task_name"]]):
                    if inner[0] == "s":
                        name = f"{one.call_id}-{inner}"
                        done |= effect(name, number + int(inner[1]), self.decided)
        return done


def worded(call: ToolCall, decision: Decision) -> str:
    match decision:
        case Approve():
            return f"did {call.arguments['n']}"
        case Edit(arguments=given, arguments_json=text):
            changed = f"A person changed the arguments before the call ran, to {text}."
            return f"{changed}\ndid {given['n']}"
        case Reject():
            return DECLINED
        case Respond(text=text):
            return text
        case Answer(other_text=text):
            return f'User responded: "{text}"'
        case _:
            return UNANSWERED


def effect(call_id: str, number: int, decided: Mapping[str, Decision]) -> dict[str, list[int]]:
    match decided[call_id]:
        case Approve():
            return {call_id: [number]}
        case Edit(arguments=given):
            return {call_id: [given["n"]]}
        case _:
            return {}


def stored(state: AgentState) -> AgentState:
    return serialize.load_state(json.loads(json.dumps(serialize.dump_state(state))))


def is_question(call_id: str) -> bool:
    return call_id.rpartition("-")[2].startswith("q")


DECISIONS = st.one_of(
    st.just(Approve()),
    st.integers(100, 109).map(lambda n: Edit({"n": n})),
    st.just(Reject()),
    st.sampled_from(["done by hand", "0"]).map(Respond),
)
ANSWERS = st.one_of(st.sampled_from(["0", "false", "yes"]).map(lambda text: Answer((), text)),
                    st.just(Cancel()))  # fmt: skip
WRONG: tuple[Any, ...] = (None, True, "approve", Answer(("x",)), Edit({"n": "1"}), Edit({}))


class Play:
    """One batch from its first message to its end, as hypothesis draws what happens."""

    def __init__(self, data: st.DataObject, world: World) -> None:
        self.data = data
        self.world = world
        self.expected = Expected(world)
        self.agent = world.agent()
        self.crashes = 2
        self.pauses = 3

    def flips(self, label: str) -> bool:
        return self.data.draw(st.booleans(), label=label)

    async def run(self) -> None:
        outcome = await self.drive(AgentState((Message.user("go"),)))
        for _ in range(MOST_STEPS):
            if not isinstance(outcome, Interrupted):
                break
            outcome = await self.visit(outcome)
        assert isinstance(outcome, Completed)
        if not self.expected.halted():
            self.assert_done(outcome)

    async def visit(self, outcome: Interrupted) -> Outcome:
        """Look at what is open, try what is wrong, then decide some or all of it."""
        self.assert_waiting(outcome)
        state = outcome.state
        if self.flips("restart"):
            state, self.agent = stored(state), self.world.agent()
            assert state == outcome.state
        again = await self.agent.execute(state, journal=self.world)
        assert again == Interrupted(state, outcome.interrupt)
        if has_halt(outcome.interrupt):
            return await self.move_on(state)
        if self.flips("something wrong first"):
            await self.refused(state, self.wrong_replies(outcome))
        replies = self.replies(outcome)
        self.expected.decided |= replies
        return await self.drive(self.agent.accept(state, replies))

    def replies(self, outcome: Interrupted) -> dict[str, Decision]:
        ids = list(open_call_ids(outcome.interrupt))
        if self.may_be_partial(outcome):
            ids = self.data.draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))
        else:
            ids = self.data.draw(st.permutations(ids))
        return {
            one: self.data.draw(ANSWERS if is_question(one) else DECISIONS, label=one)
            for one in ids
        }

    def may_be_partial(self, outcome: Interrupted) -> bool:
        approvals = (isinstance(leaf, ApprovalRequest) for leaf in leaves(outcome.interrupt))
        return self.world.early and all(approvals)

    def wrong_replies(self, outcome: Interrupted) -> dict[str, Any]:
        right: dict[str, Any] = {
            one: Answer((), "x") if is_question(one) else Approve()
            for one in open_call_ids(outcome.interrupt)
        }
        some = self.data.draw(st.sampled_from(list(right)))
        ways = ["a stranger", "nothing", "another kind"]
        ways += ["stale"] if self.expected.decided else []
        ways += ["one is missing"] if not self.may_be_partial(outcome) else []
        match self.data.draw(st.sampled_from(ways), label="wrong"):
            case "a stranger":
                return {**right, "c99": Approve()}
            case "nothing":
                return {}
            case "stale":
                old = self.data.draw(st.sampled_from(list(self.expected.decided)))
                return {**right, old: Reject()}
            case "one is missing":
                return {key: one for key, one in right.items() if key != some}
            case _:
                wrong = self.data.draw(st.sampled_from(WRONG))
                return {
                    **right,
                    some: Approve() if wrong == Edit({}) and is_question(some) else wrong,
                }

    async def refused(self, state: AgentState, replies: Mapping[str, Any]) -> None:
        before = (
            serialize.dump_state(state),
            json.dumps(self.world.effects),
            len(self.world.requests),
        )
        with pytest.raises(InvalidResume):
            await self.agent.resume(state, replies, journal=self.world)
        assert before == (
            serialize.dump_state(state), json.dumps(self.world.effects), len(self.world.requests)
        )  # fmt: skip

    async def move_on(self, state: AgentState) -> Outcome:
        """After a halt nothing can be decided; the user's next message starts a new turn."""
        for reply in (Approve(), Cancel()):
            await self.refused(state, dict.fromkeys(open_call_ids(state.interrupt), reply))
        effects = json.dumps(self.world.effects)
        outcome = await self.drive(state.cancel_pending_interrupts().add_message(Message.user("!")))
        assert isinstance(outcome, Completed)
        assert json.dumps(self.world.effects) == effects
        self.assert_halted(outcome)
        return outcome

    async def drive(self, state: AgentState) -> Outcome:
        """Drive on to the next stop for a person, over pauses and crashes, each a new process."""
        while True:
            state = stored(state)
            may_pause = st.lists(st.booleans(), max_size=3 if self.pauses else 0)
            pauses = self.data.draw(may_pause, label="pauses")
            outcome = await self.agent.execute(
                state,
                journal=self.world,
                should_pause=lambda left=pauses: bool(left) and left.pop(),  # type: ignore[misc]
                on_event=self.crashing(),
            )
            self.assert_once()
            if isinstance(outcome, Completed | Interrupted):
                return outcome
            self.agent = self.world.agent()
            if isinstance(outcome, Paused):
                self.pauses -= 1
                state = outcome.state
            else:
                assert isinstance(outcome, Failed)
                assert outcome.error.type == "observer_failed", outcome.error

    def crashing(self) -> Callable[[Event], None]:
        """An observer at whose nth event the process dies, so that its state is lost."""
        last = self.data.draw(st.integers(1, 20), label="crash at") if self.crashes else 0
        count = itertools.count(1)

        def observe(event: Event) -> None:
            if next(count) == last:
                self.crashes -= 1
                raise RuntimeError("the process died")

        return observe

    def assert_once(self) -> None:
        """P3: no call has had its effect twice."""
        assert all(len(done) == 1 for done in self.world.effects.values()), self.world.effects

    def assert_waiting(self, outcome: Interrupted) -> None:
        """P2, P8: what is open is what should be, and each call has one result or is open."""
        ids = open_call_ids(outcome.interrupt)
        assert outcome.state.interrupt == outcome.interrupt
        shown = session.shown(outcome.interrupt)
        if self.expected.halted():
            assert shown == session.Shown(halts=shown.halts)
            assert shown.halts
        else:
            assert len(set(ids)) == len(ids)
            assert set(ids) == self.expected.open()
            assert {one.request.tool_call_id for one in shown.approvals} == {
                one for one in ids if not is_question(one)
            }
            assert {one.tool_call_id for one in shown.questions} == set(filter(is_question, ids))
        results = [one for message in outcome.state.messages for one in message.tool_results]
        known = [one.tool_call_id for one in results]
        assert len(set(known)) == len(known)
        calls = [one.call_id for one in self.expected.outer()]
        waiting = {one.tool_call_id for one in results if one.is_interrupt}
        tasks = {one for one in calls if any(name.startswith(f"{one}-") for name in ids)}
        if self.expected.started():
            assert set(calls) - set(known) == self.expected.gates_open()
            assert (set(ids) & set(known)) | tasks == waiting
        else:
            assert known == []
            assert self.world.effects == {}

    def assert_done(self, outcome: Completed) -> None:
        """P2, P3, P4: every call was answered once, with what was decided, and ran once."""
        assert [message.role for message in outcome.state.messages] == [
            "user", "assistant", "tool", "assistant"
        ]  # fmt: skip
        told = [(one.tool_call_id, one.text) for one in outcome.state.messages[2].tool_results]
        outer = self.expected.outer()
        assert told == [(one.call_id, self.expected.text(one)) for one in outer]
        assert self.world.effects == self.expected.effects()
        assert outcome.state.decisions == {}
        assert outcome.state.sub_agents == {}
        assert outcome.state.interrupt is None

    def assert_halted(self, outcome: Completed) -> None:
        """The halted calls keep their reason; what was not decided says that the user moved on."""
        told = {
            one.tool_call_id: one
            for message in outcome.state.messages
            for one in message.tool_results
        }
        outer = self.expected.outer()
        assert list(told) == [one.call_id for one in outer]
        open_ids = self.expected.open()
        for one in outer:
            result = told[one.call_id]
            if one.name == "stop" or one.arguments.get("task_name") == "halting":
                assert "stopped at" in result.text
                assert result.is_error
            elif one.call_id in open_ids or any(i.startswith(f"{one.call_id}-") for i in open_ids):
                assert (result.text, result.is_error) == (MOVED_ON, True)
            else:
                assert result.text == self.expected.text(one)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    data=st.data(),
    batch=st.lists(st.sampled_from(KINDS), min_size=1, max_size=6)
    | st.lists(st.sampled_from(("gated", "two", "again")), min_size=1, max_size=4),
    early=st.booleans(),
)
def test_any_batch_ends_as_it_was_decided(
    data: st.DataObject, batch: list[str], early: bool
) -> None:
    """P2, P3, P4, P8: after every step, whatever the mixture, the order and the restarts."""
    asyncio.run(Play(data, World(tuple(batch), early)).run())
