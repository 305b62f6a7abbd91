"""`resume`: replies are checked first, the right work goes on, and each effect happens once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

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
    Halt,
    Interrupt,
    Interrupted,
    InvalidResume,
    Message,
    Middleware,
    MultipleInterrupts,
    Question,
    Reject,
    ScriptedModel,
    SubAgentInterrupt,
    TextPart,
    ToolContext,
    ToolResult,
    serialize,
    tool,
)
from sagents_app.engine.errors import BudgetExceeded
from sagents_app.engine.middlewares import AskUserQuestion, HumanInTheLoop, SubAgents
from sagents_app.engine.sub_agents import SubAgent
from tests.engine.doubles import Journal, Notes, asked, call, calling, results, shape, told


def gated(*replies: Any, notes: Notes | None = None, **options: Any) -> tuple[Agent, Notes]:
    """An agent whose `note` is gated and whose `free` is not."""
    notes = notes or Notes()
    options.setdefault("middlewares", [HumanInTheLoop({"note": True})])
    tools = [notes.tool, Notes("free").tool]
    return Agent(model=ScriptedModel(*replies), tools=tools, **options), notes


def requests(agent: Agent) -> list[Any]:
    model = agent.setup.models[0]
    assert isinstance(model, ScriptedModel)
    return model.requests


def stored(state: AgentState) -> AgentState:
    return serialize.load_state(serialize.dump_state(state))


# what is no answer


@dataclass(frozen=True)
class Wrong:
    id: str
    replies: Any
    problem: str


WRONG = [
    Wrong("an empty mapping", {}, "without a reply: 'c1', 'c2'"),
    Wrong("nothing", None, "replies are a mapping"),
    Wrong("a message", Message.user("yes"), "replies are a mapping"),
    Wrong("a list", [Approve(), Approve()], "replies are a mapping"),
    Wrong("B013: only one of two", {"c1": Approve()}, "without a reply: 'c2'"),
    Wrong(
        "B027: another call's",
        {"c1": Approve(), "c2": Approve(), "c9": Approve()},
        "not open: 'c9'",
    ),
    Wrong("no decision: None", {"c1": None, "c2": Approve()}, "a reply is one of"),
    Wrong("no decision: True", {"c1": True, "c2": Approve()}, "a reply is one of"),
    Wrong("no decision: False", {"c1": False, "c2": Approve()}, "a reply is one of"),
    Wrong("no decision: a text", {"c1": "approve", "c2": Approve()}, "a reply is one of"),
    Wrong("no decision: the class", {"c1": Approve, "c2": Approve()}, "a reply is one of"),
    Wrong("of another kind", {"c1": Answer(other_text="y"), "c2": Approve()}, "got answer"),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.id)
async def test_a_resume_without_proper_decisions_is_refused_and_nothing_runs(case: Wrong) -> None:
    """B002: the interrupt stays; the right replies still work afterwards."""
    agent, notes = gated(calling(call("c1", text="a"), call("c2", text="b")), "done")
    waiting = await agent.execute(asked())
    before = serialize.dump_state(waiting.state)
    with pytest.raises(InvalidResume, match=case.problem):
        await agent.resume(waiting.state, case.replies)
    assert notes.taken == []
    assert serialize.dump_state(waiting.state) == before
    done = await agent.resume(waiting.state, {"c1": Approve(), "c2": Approve()})
    assert isinstance(done, Completed)
    assert notes.taken == ["a", "b"]


async def test_a_state_that_waits_for_nothing_cannot_be_resumed() -> None:
    """P-111."""
    agent, _ = gated("never")
    with pytest.raises(InvalidResume, match="nothing is open"):
        await agent.resume(asked(), {"c1": Approve()})
    assert requests(agent) == []


async def test_an_interrupt_that_nobody_claims_cannot_be_resumed() -> None:
    """P-111: a question without the middleware that would take its answer."""
    question = Question("sure?", tool_call_id="c1")
    waiting = ToolResult("c1", "note", is_interrupt=True, interrupt=question)
    state = asked(calling(call()), Message.tool(waiting), interrupt=question)
    agent, _ = gated("never")
    with pytest.raises(InvalidResume, match="No middleware handled the resume"):
        await agent.resume(state, {"c1": Answer(other_text="yes")})
    assert requests(agent) == []


async def test_a_halt_cannot_be_resumed() -> None:
    agent, _ = gated("never")
    with pytest.raises(InvalidResume, match="halted"):
        await agent.resume(asked(interrupt=Halt("x", tool_call_id="c1")), {"c1": Approve()})


async def test_a_second_decision_finds_nothing_open() -> None:
    """B021: whatever its kind; the host keeps who was first."""
    agent, notes = gated(calling(call("c1", text="a")), "done")
    waiting = await agent.execute(asked())
    done = await agent.resume(waiting.state, {"c1": Approve()})
    with pytest.raises(InvalidResume, match="nothing is open"):
        await agent.resume(done.state, {"c1": Reject()})
    assert notes.taken == ["a"]


async def test_a_stale_approval_is_not_applied_to_a_newer_call() -> None:
    """B027: decided on the first, shown the second."""
    agent, notes = gated(calling(call("c1", text="a")), calling(call("c2", text="b")))
    first = await agent.execute(asked())
    second = await agent.resume(first.state, {"c1": Reject()})
    assert isinstance(second, Interrupted)
    with pytest.raises(InvalidResume, match="not open: 'c1'"):
        await agent.resume(second.state, {"c1": Approve()})
    assert notes.taken == []


# falsy values


async def test_falsy_arguments_arrive_as_they_were_given() -> None:
    """B003: an edit to {} and an edit of one argument to null are edits."""
    taken: list[dict[str, Any]] = []

    @tool(name="note")
    def note(flag: bool | None = True, number: int | None = 5, text: str | None = "default") -> str:
        """Note."""
        taken.append({"flag": flag, "number": number, "text": text})
        return "noted"

    gate = HumanInTheLoop({"note": True})
    edits: list[dict[str, Any]] = [
        {},
        {"flag": False, "number": 0, "text": ""},
        {"flag": None, "number": None, "text": None},
    ]
    for edit in edits:
        given = call("c1", flag=True, number=7, text="x")
        agent = Agent(model=ScriptedModel(calling(given), "done"), tools=[note], middlewares=[gate])
        waiting = await agent.execute(asked())
        done = await agent.resume(stored(waiting.state), {"c1": Edit(edit)})
        assert isinstance(done, Completed)
        assert results(done.state)["c1"].decision == "edit"
    assert taken == [
        {"flag": True, "number": 5, "text": "default"},
        {"flag": False, "number": 0, "text": ""},
        {"flag": None, "number": None, "text": None},
    ]


async def test_a_falsy_option_is_an_answer() -> None:
    """B003: "0" and "false" are values like any other; an empty text is refused, not taken."""
    options = [{"label": "No", "value": "0"}, {"label": "Never", "value": "false"}]
    asking = call("c1", "ask_user", question="?", response_type="single_select", options=options)
    agent = Agent(model=ScriptedModel(calling(asking), "done"), middlewares=[AskUserQuestion()])
    waiting = await agent.execute(asked())
    with pytest.raises(InvalidResume):
        await agent.resume(waiting.state, {"c1": Answer(other_text="")})
    done = await agent.resume(waiting.state, {"c1": Answer(("0",))})
    assert told(done.state) == {"c1": "User selected: 0"}


# the work that goes on


async def test_after_a_decision_the_turn_takes_one_more_call() -> None:
    """P-120, B017: call and result stand in the history, in order, once each."""
    agent, _ = gated(calling(call("c1", text="a")), "done", "more")
    waiting = await agent.execute(asked())
    done = await agent.resume(stored(waiting.state), {"c1": Approve()})
    assert isinstance(done, Completed)
    assert shape(done.state) == ["U", "A(c1)", "T(c1)", "A"]
    again = await agent.execute(stored(done.state).add_message(Message.user("more")))
    assert shape(requests(agent)[2].messages) == ["U", "A(c1)", "T(c1)", "A", "U"]
    assert isinstance(again, Completed)


async def test_a_second_gated_call_sends_the_first_results_once() -> None:
    """B018."""
    agent, notes = gated(calling(call("c1", text="a")), calling(call("c2", text="b")), "done")
    first = await agent.execute(asked())
    second = await agent.resume(stored(first.state), {"c1": Approve()})
    done = await agent.resume(stored(second.state), {"c2": Approve()})
    assert isinstance(done, Completed)
    assert [shape(request.messages) for request in requests(agent)] == [
        ["U"],
        ["U", "A(c1)", "T(c1)"],
        ["U", "A(c1)", "T(c1)", "A(c2)", "T(c2)"],
    ]
    assert notes.taken == ["a", "b"]


async def test_another_process_resumes_with_the_exact_stored_arguments() -> None:
    """B015, P8: from JSON text alone, with an agent built anew."""
    import json

    number = 12345678901234567890123
    first, _ = gated(calling(call("c1", text=f"{number} \N{SNOWMAN} \\u0000")))
    waiting = await first.execute(asked())
    text = json.dumps(serialize.dump_state(waiting.state))
    second, notes = gated("done")
    done = await second.resume(serialize.load_state(json.loads(text)), {"c1": Approve()})
    assert isinstance(done, Completed)
    assert notes.taken == [f"{number} \N{SNOWMAN} \\u0000"]


async def test_large_arguments_survive_the_wait() -> None:
    """B016: a megabyte of them."""
    text = "x" * 1_000_000
    agent, notes = gated(calling(call("c1", text=text)), "done")
    waiting = await agent.execute(asked())
    assert waiting.interrupt.action_requests[0].arguments == {"text": text}  # type: ignore[union-attr]
    await agent.resume(stored(waiting.state), {"c1": Approve()})
    assert notes.taken == [text]


async def test_a_resume_may_come_with_another_context() -> None:
    """B019: context and decisions are separate; the call runs once, with today's context."""
    seen: list[Any] = []

    @tool(name="note")
    def note(ctx: ToolContext) -> str:
        """Note."""
        seen.append((ctx.acting_user, ctx.tool_context["zone"], ctx.scope, ctx.conversation_id))
        return "noted"

    def agent(*replies: Any, zone: str) -> Agent:
        return Agent(
            model=ScriptedModel(*replies),
            tools=[note],
            middlewares=[HumanInTheLoop({"note": True})],
            tool_context={"zone": zone},
            scope=f"tenant of {zone}",
        )

    waiting = await agent(calling(call("c1")), zone="UTC").execute(asked(), acting_user="ann")
    done = await agent("done", zone="CET").resume(
        waiting.state, {"c1": Approve()}, acting_user="bob", conversation_id="v1"
    )
    assert isinstance(done, Completed)
    assert seen == [("bob", "CET", "tenant of CET", "v1")]


@dataclass(frozen=True)
class Predicate:
    id: str
    answers: list[Any]


@pytest.mark.parametrize(
    "case",
    [
        Predicate("it would be free by now", [True, False]),
        Predicate("it would raise by now", [True, RuntimeError("no")]),
    ],
    ids=lambda case: case.id,
)
async def test_the_gate_is_asked_once_a_call(case: Predicate) -> None:
    """B020: the stored decision comes first, also through storage and a pause."""
    answers = iter(case.answers)
    asked_of: list[Any] = []

    def when(arguments: Mapping[str, Any], context: ToolContext) -> bool:
        asked_of.append(arguments["text"])
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    agent, notes = gated(
        calling(call("c1", text="a")),
        "done",
        middlewares=[HumanInTheLoop({"note": {"when": when}})],
    )
    waiting = await agent.execute(asked())
    questions = iter([True])
    paused = await agent.resume(
        stored(waiting.state), {"c1": Approve()}, should_pause=lambda: next(questions, False)
    )
    done = await agent.execute(stored(paused.state))
    assert isinstance(done, Completed)
    assert (asked_of, notes.taken) == (["a"], ["a"])


async def test_a_call_that_was_free_is_free_when_its_batch_goes_on() -> None:
    """B020: a tightened rule holds for new calls."""
    limit = [10]
    asked_of: list[Any] = []

    def when(arguments: Mapping[str, Any], context: ToolContext) -> bool:
        asked_of.append(arguments["text"])
        return len(arguments["text"]) > limit[0]

    gate = HumanInTheLoop({"note": {"when": when}})
    agent, notes = gated(
        calling(call("c1", text="short"), call("c2", text="a long enough text")),
        "done",
        middlewares=[gate],
    )
    waiting = await agent.execute(asked())
    limit[0] = 0
    done = await agent.resume(stored(waiting.state), {"c2": Approve()})
    assert isinstance(done, Completed)
    assert asked_of == ["short", "a long enough text"]
    assert notes.taken == ["short", "a long enough text"]


# tools that are gone or changed


@dataclass(frozen=True)
class Deployed:
    id: str
    reply: Decision
    text: str
    decision: str


@pytest.mark.parametrize(
    "case",
    [
        Deployed(
            "rejected without the tool",
            Reject("too late"),
            "A person declined this call. Do not repeat it. Their note: too late",
            "reject",
        ),
        Deployed(
            "approved without the tool",
            Approve(),
            "Tool 'note' not found. Available are: lookup.",
            "approve",
        ),
    ],
    ids=lambda case: case.id,
)
async def test_a_decision_about_a_tool_that_is_gone_is_an_answer(case: Deployed) -> None:
    """B022."""
    old, notes = gated(calling(call("c1", text="a")))
    waiting = await old.execute(asked())
    new = Agent(model=ScriptedModel("done"), tools=[Notes("lookup").tool])
    done = await new.resume(stored(waiting.state), {"c1": case.reply})
    assert isinstance(done, Completed)
    result = results(done.state)["c1"]
    assert (result.text, result.decision, result.is_error) == (case.text, case.decision, True)
    assert notes.taken == []


async def test_an_edit_for_a_tool_that_is_gone_is_refused_and_can_be_rejected_instead() -> None:
    """B022."""
    old, _ = gated(calling(call("c1", text="a")))
    waiting = await old.execute(asked())
    new = Agent(model=ScriptedModel("done"))
    with pytest.raises(InvalidResume, match="tool 'note' is gone"):
        await new.resume(waiting.state, {"c1": Edit({"text": "b"})})
    assert isinstance(await new.resume(waiting.state, {"c1": Reject()}), Completed)


async def test_an_approval_is_validated_against_the_schema_of_today() -> None:
    """B022: a clear error result, and nothing runs."""
    ran: list[int] = []

    @tool(name="note")
    def note(amount: int) -> str:
        """Note."""
        ran.append(amount)
        return "noted"

    old, _ = gated(calling(call("c1", text="a")))
    waiting = await old.execute(asked())
    new = Agent(
        model=ScriptedModel("done"), tools=[note], middlewares=[HumanInTheLoop({"note": True})]
    )
    done = await new.resume(waiting.state, {"c1": Approve()})
    assert isinstance(done, Completed)
    assert ran == []
    assert "The arguments do not fit; the call was not run." in told(done.state)["c1"]
    assert "amount" in told(done.state)["c1"]


async def test_a_user_may_move_on_from_a_request_that_no_code_knows_any_more() -> None:
    """B022: cancel needs no tool and no middleware."""
    old, _ = gated(calling(call("c1", text="a")))
    waiting = await old.execute(asked())
    state = stored(waiting.state).cancel_pending_interrupts().add_message(Message.user("leave it"))
    model = ScriptedModel("fine")
    done = await Agent(model=model).execute(state)
    assert isinstance(done, Completed)
    assert shape(model.requests[0].messages) == ["U", "A(c1)", "T(c1)", "U"]


# forks


async def test_a_fork_from_before_the_call_asks_again() -> None:
    """B102: no decision and no result is taken over."""
    agent, notes = gated(
        calling(call("c1", text="a")), "done", calling(call("c1", text="a")), "done"
    )
    start = asked()
    waiting = await agent.execute(start)
    done = await agent.resume(waiting.state, {"c1": Approve()})
    assert isinstance(done, Completed)
    fork = await agent.execute(replace(done.state, messages=done.state.messages[:1]))
    assert isinstance(fork, Interrupted)
    assert notes.taken == ["a"]
    assert fork.state.decisions == {}
    rejected = await agent.resume(fork.state, {"c1": Reject()})
    assert isinstance(rejected, Completed)
    assert notes.taken == ["a"]


async def test_a_fork_from_the_open_call_takes_the_new_decision() -> None:
    """B021, B102: two answers from one stored point lead to two states."""
    agent, notes = gated(calling(call("c1", text="a")), "one", "two")
    waiting = stored((await agent.execute(asked())).state)
    approved = await agent.resume(waiting, {"c1": Approve()})
    rejected = await agent.resume(waiting, {"c1": Reject()})
    assert told(approved.state) == {"c1": "noted a"}
    assert told(rejected.state) == {"c1": "A person declined this call. Do not repeat it."}
    assert notes.taken == ["a"]


# interrupts pass through wrappers


@pytest.mark.parametrize("wrapped", ["retry", "tracing", "errors become results"])
async def test_an_interrupt_passes_through_wrappers_untouched(wrapped: str) -> None:
    """B011: it is a value, so `except Exception` never sees it; it is not tried again."""
    tries: list[int] = []

    def ask() -> Question:
        tries.append(1)
        return Question("sure?")

    def retrying() -> Any:
        for _ in range(3):
            try:
                return ask()
            except Exception:  # noqa: BLE001, S112  # the broad handler is the point
                continue
        return "gave up"

    def tracing() -> Any:
        answer = ask()
        assert answer is not None
        return answer

    def softened() -> Any:
        try:
            return ask()
        except Exception as error:  # noqa: BLE001  # the broad handler is the point
            return f"error: {error}"

    inner = {"retry": retrying, "tracing": tracing, "errors become results": softened}[wrapped]

    @tool(name="note")
    async def note() -> Any:
        """Ask."""
        return inner()

    agent = Agent(model=ScriptedModel(calling(call("c1"))), tools=[note])
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Interrupted)
    assert outcome.interrupt == Question("sure?", tool_call_id="c1")
    assert len(tries) == 1


async def test_bad_arguments_are_answered_before_any_gate_is_asked() -> None:
    """B023: a validator cannot pause, and its refusal is no crash."""
    seen: list[Any] = []
    gate = HumanInTheLoop({"note": {"when": lambda arguments, ctx: bool(seen.append(arguments))}})
    agent, notes = gated(calling(call("c1", text=5)), "done", middlewares=[gate])
    done = await agent.execute(asked())
    assert isinstance(done, Completed)
    assert results(done.state)["c1"].is_error
    assert (seen, notes.taken) == ([], [])


# several at once


async def test_gate_and_question_of_one_batch_are_settled_in_two_rounds_without_a_call() -> None:
    """P-118: both run after the approval; the question then waits; no model call in between."""
    asking = call("c2", "ask_user", question="sure?", response_type="freeform")
    stack = [HumanInTheLoop({"note": True}), AskUserQuestion()]
    agent, notes = gated(calling(call("c1", text="a"), asking), "done", middlewares=stack)
    waiting = await agent.execute(asked())
    assert isinstance(waiting.interrupt, ApprovalRequest)  # type: ignore[union-attr]
    second = await agent.resume(stored(waiting.state), {"c1": Approve()})
    assert isinstance(second, Interrupted)
    assert second.interrupt == Question("sure?", tool_call_id="c2")
    assert told(second.state)["c1"] == "noted a"
    assert not results(second.state)["c1"].is_interrupt
    assert len(requests(agent)) == 1
    done = await agent.resume(stored(second.state), {"c2": Answer(other_text="yes")})
    assert isinstance(done, Completed)
    assert told(done.state) == {"c1": "noted a", "c2": 'User responded: "yes"'}
    assert (notes.taken, len(requests(agent))) == (["a"], 2)


async def test_a_question_is_answered_by_the_middleware_that_owns_it() -> None:
    """P-110, P-117, P-119: whatever else stands in the stack."""
    asking = call("c1", "ask_user", question="sure?", response_type="freeform")
    for stack in (
        [AskUserQuestion()],
        [AskUserQuestion(), HumanInTheLoop({})],
        [HumanInTheLoop({}), AskUserQuestion()],
    ):
        agent = Agent(model=ScriptedModel(calling(asking), "done"), middlewares=stack)
        waiting = await agent.execute(asked())
        done = await agent.resume(waiting.state, {"c1": Answer(other_text="yes")})
        assert isinstance(done, Completed)
        assert shape(done.state) == ["U", "A(c1)", "T(c1)", "A"]
        assert told(done.state) == {"c1": 'User responded: "yes"'}


@dataclass(frozen=True, slots=True, kw_only=True)
class Papers(Interrupt):
    """An interrupt of a host's own."""

    type = "test_papers"
    papers: tuple[str, ...] = field(default=())


class Signing(Middleware):
    """Takes signatures one by one: as long as papers are left, it goes on waiting."""

    def restorable_interrupt(self, interrupt: Interrupt) -> bool:
        return isinstance(interrupt, Papers)

    def handle_resume(
        self, interrupt: Interrupt, reply: Decision, state: AgentState
    ) -> ToolResult | Interrupt | None:
        if not isinstance(interrupt, Papers) or interrupt.tool_call_id is None:
            return None
        if len(interrupt.papers) > 1:
            return replace(interrupt, papers=interrupt.papers[1:])
        return ToolResult(interrupt.tool_call_id, "sign", (TextPart("all signed"),))


@tool
def sign() -> Papers:
    """Have it signed."""
    return Papers(papers=("a", "b"))


async def test_an_owner_may_go_on_waiting_without_a_model_call() -> None:
    """P-112, P-113, P-115: the new interrupt stands on the state and in the placeholder."""
    model = ScriptedModel(calling(call("c1", "sign")), "done")
    agent = Agent(model=model, tools=[sign], middlewares=[HumanInTheLoop({}), Signing()])
    waiting = await agent.execute(asked())
    assert isinstance(waiting, Interrupted)
    assert waiting.interrupt == Papers(papers=("a", "b"), tool_call_id="c1")
    second = await agent.resume(waiting.state, {"c1": Approve()})
    assert isinstance(second, Interrupted)
    assert second.interrupt == Papers(papers=("b",), tool_call_id="c1")
    assert second.state.interrupt == second.interrupt
    assert results(second.state)["c1"].interrupt == second.interrupt
    assert len(model.requests) == 1
    done = await agent.resume(second.state, {"c1": Approve()})
    assert isinstance(done, Completed)
    assert told(done.state) == {"c1": "all signed"}


async def test_replies_may_be_stored_first_and_the_state_driven_on_by_another_process() -> None:
    """B015: for a call's interrupt, and for one that a hook raised and no call stands for."""

    class Asking(Middleware):
        def after_model(self, state: AgentState) -> Any:
            if state.metadata.get("signed"):
                return state
            return Papers(papers=("a",))

        def restorable_interrupt(self, interrupt: Interrupt) -> bool:
            return isinstance(interrupt, Papers)

        def handle_resume(self, interrupt: Interrupt, reply: Any, state: AgentState) -> Any:
            if not isinstance(interrupt, Papers):
                return None
            return state.put_metadata("signed", reply.type)

    stack = [HumanInTheLoop({"note": True}), Asking()]
    agent, notes = gated(calling(call("c1", text="a")), "done", middlewares=stack)
    waiting = await agent.execute(asked())
    assert isinstance(waiting, Interrupted)
    assert waiting.interrupt == Papers(papers=("a",))
    accepted = stored(agent.accept(waiting.state, {"test_papers": Approve()}))
    second = await agent.execute(accepted)
    assert isinstance(second, Interrupted)
    assert second.state.metadata == {"signed": "approve"}
    done = await agent.execute(stored(agent.accept(second.state, {"c1": Approve()})))
    assert isinstance(done, Completed)
    assert notes.taken == ["a"]


async def test_an_owner_that_raises_fails_the_turn() -> None:
    """P-110."""

    class Broken(Signing):
        def handle_resume(self, *given: Any) -> None:
            raise RuntimeError("no ink")

    model = ScriptedModel(calling(call("c1", "sign")), "never")
    agent = Agent(model=model, tools=[sign], middlewares=[Broken()])
    waiting = await agent.execute(asked())
    outcome = await agent.resume(waiting.state, {"c1": Approve()})
    assert isinstance(outcome, Failed)
    assert "no ink" in str(outcome.error)
    assert len(model.requests) == 1


async def test_an_error_of_the_turn_that_an_owner_raises_keeps_its_kind() -> None:
    class Strict(Signing):
        def handle_resume(self, *given: Any) -> None:
            raise BudgetExceeded("too many papers", limit=1, used=2)

    model = ScriptedModel(calling(call("c1", "sign")), "never")
    agent = Agent(model=model, tools=[sign], middlewares=[Strict()])
    waiting = await agent.execute(asked())
    outcome = await agent.resume(waiting.state, {"c1": Approve()})
    assert isinstance(outcome, Failed)
    assert (outcome.error.type, str(outcome.error)) == ("exceeded_max_runs", "too many papers")


async def test_what_nobody_settles_counts_as_put_aside() -> None:
    """Its owner answers None, and so does everybody else."""

    class Silent(Signing):
        def handle_resume(self, *given: Any) -> None:
            return None

    model = ScriptedModel(calling(call("c1", "sign")), "done")
    agent = Agent(model=model, tools=[sign], middlewares=[AskUserQuestion(), Silent()])
    waiting = await agent.execute(asked())
    outcome = await agent.resume(waiting.state, {"c1": Approve()})
    assert isinstance(outcome, Completed)
    assert results(outcome.state)["c1"].is_error
    assert told(outcome.state)["c1"].startswith("The person did not want to answer.")


async def test_what_nobody_claims_can_only_be_cancelled() -> None:
    model = ScriptedModel(calling(call("c1", "sign")), "done")
    agent = Agent(model=model, tools=[sign])
    waiting = await agent.execute(asked())
    with pytest.raises(InvalidResume, match="none of the agent's claims 'test_papers'"):
        await agent.resume(waiting.state, {"c1": Approve()})
    outcome = await agent.resume(waiting.state, {"c1": Cancel()})
    assert isinstance(outcome, Completed)
    assert results(outcome.state)["c1"].decision == "cancel"


class Proofreading(Signing):
    """Has each reply signed by two people before the turn ends, or sends it back."""

    def after_model(self, state: AgentState) -> Any:
        return Papers(papers=("a", "b"))

    def handle_resume(self, interrupt: Interrupt, reply: Any, state: AgentState) -> Any:
        assert isinstance(interrupt, Papers)
        if isinstance(reply, Reject):
            return state.add_message(Message.user(reply.note))
        if len(interrupt.papers) > 1:
            return replace(interrupt, papers=interrupt.papers[1:])
        return state.put_metadata("signed", True)


async def test_a_hook_that_stopped_the_turn_may_go_on_waiting() -> None:
    """P-112: the new interrupt stands on the state, and no model is called meanwhile."""
    model = ScriptedModel("done")
    agent = Agent(model=model, middlewares=[Proofreading()])
    waiting = await agent.execute(asked())
    second = await agent.resume(waiting.state, {"test_papers": Approve()})
    assert isinstance(second, Interrupted)
    assert second.interrupt == second.state.interrupt == Papers(papers=("b",))
    assert len(model.requests) == 1


async def test_a_final_reply_that_a_hook_held_back_ends_the_turn_once_it_is_settled() -> None:
    """It is not asked for again: another reply would be another one to settle."""
    model = ScriptedModel("done")
    agent = Agent(model=model, middlewares=[Proofreading()])
    waiting = await agent.execute(asked())
    second = await agent.resume(waiting.state, {"test_papers": Approve()})
    done = await agent.resume(stored(second.state), {"test_papers": Approve()})
    assert isinstance(done, Completed)
    assert shape(done.state) == ["U", "A"]
    assert done.state.metadata == {"signed": True}
    assert len(model.requests) == 1


async def test_a_final_reply_that_a_hook_held_back_still_owes_the_demanded_tool() -> None:
    notes = Notes()
    agent = Agent(model=ScriptedModel("done"), tools=[notes.tool], middlewares=[Proofreading()])
    waiting = await agent.execute(asked(), until_tool="note")
    second = await agent.resume(waiting.state, {"test_papers": Approve()}, until_tool="note")
    outcome = await agent.resume(second.state, {"test_papers": Approve()}, until_tool="note")
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "until_tool_not_called"


async def test_a_final_reply_that_was_sent_back_is_followed_by_another_call() -> None:
    model = ScriptedModel("rude", "polite")
    agent = Agent(model=model, middlewares=[Proofreading()])
    waiting = await agent.execute(asked())
    again = await agent.resume(waiting.state, {"test_papers": Reject("be polite")})
    assert isinstance(again, Interrupted)
    assert [one.text for one in model.requests[1].messages] == ["hi", "rude", "be polite"]


# sub-agents


def mailing(*replies: Any, notes: Notes) -> SubAgents:
    kind = SubAgent(
        name="mailer",
        description="Sends.",
        system_prompt="Send.",
        model=ScriptedModel(*replies),
        tools=(notes.tool,),
        middlewares=(HumanInTheLoop({"send": True}),),
    )
    return SubAgents([kind])


def task(call_id: str) -> Any:
    return call(call_id, "task", instructions="go", task_name="mailer")


@dataclass(frozen=True)
class Inner:
    id: str
    reply: Decision
    taken: list[str]


@pytest.mark.parametrize(
    "case",
    [
        Inner("approve", Approve(), ["a"]),
        Inner("edit", Edit({"text": "b"}), ["b"]),
        Inner("reject", Reject("no"), []),
    ],
    ids=lambda case: case.id,
)
async def test_each_decision_about_a_sub_agents_call_has_its_effect(case: Inner) -> None:
    """B009, B010, P-114: the parent has no gate; it sees one result for its task."""
    notes = Notes("send")
    inner = mailing(calling(call("i1", "send", text="a")), "finished", notes=notes)
    agent = Agent(model=ScriptedModel(calling(task("t1")), "done"), middlewares=[inner])
    waiting = await agent.execute(asked())
    assert isinstance(waiting, Interrupted)
    assert isinstance(waiting.interrupt, SubAgentInterrupt)
    assert waiting.interrupt.task_name == "mailer"
    assert not any(result.is_error for result in results(waiting.state).values())
    done = await agent.resume(stored(waiting.state), {"t1-i1": case.reply})
    assert isinstance(done, Completed)
    assert notes.taken == case.taken
    assert told(done.state) == {"t1": "finished"}


async def test_a_sub_agent_that_waits_again_stops_the_parent_without_a_call() -> None:
    """P-115: the same task, another inner call."""
    notes = Notes("send")
    replies = [calling(call("i1", "send", text="a")), calling(call("i2", "send", text="b")), "ok"]
    inner = mailing(*replies, notes=notes)
    agent = Agent(model=ScriptedModel(calling(task("t1")), "done"), middlewares=[inner])
    first = await agent.execute(asked())
    second = await agent.resume(stored(first.state), {"t1-i1": Approve()})
    assert isinstance(second, Interrupted)
    assert isinstance(second.interrupt, SubAgentInterrupt)
    assert second.interrupt.tool_call_id == "t1"
    assert second.state.interrupt == second.interrupt
    assert (len(requests(agent)), notes.taken) == (1, ["a"])
    done = await agent.resume(stored(second.state), {"t1-i2": Reject()})
    assert isinstance(done, Completed)
    assert notes.taken == ["a"]


async def test_a_waiting_sub_agent_runs_no_sibling_again() -> None:
    """B007: a free tool, a task that finishes, a task that waits; each effect once."""
    notes, sent = Notes("send"), Notes()
    replies = [calling(call("i1", "send", text="B")), "B done"]
    waits = mailing(*replies, notes=notes)
    finisher = SubAgent(
        name="finisher", description="Finishes.", system_prompt="x", model=ScriptedModel("A done")
    )
    kinds = SubAgents([finisher, *waits._kinds.values()])
    batch = [
        call("c1", text="mail"),
        call("ta", "task", instructions="go", task_name="finisher"),
        task("tb"),
    ]
    agent = Agent(
        model=ScriptedModel(calling(*batch), "done"), tools=[sent.tool], middlewares=[kinds]
    )
    journal = Journal()
    waiting = await agent.execute(asked(), journal=journal)
    assert isinstance(waiting, Interrupted)
    assert not isinstance(waiting.interrupt, MultipleInterrupts)
    done = await agent.resume(stored(waiting.state), {"tb-i1": Approve()}, journal=journal)
    assert isinstance(done, Completed)
    assert (sent.taken, notes.taken) == (["mail"], ["B"])
    assert told(done.state) == {"c1": "noted mail", "ta": "A done", "tb": "B done"}
    assert len(finisher.model.requests) == 1  # type: ignore[union-attr]


async def test_a_question_may_be_put_aside_and_the_model_goes_on() -> None:
    asking = call("c1", "ask_user", question="sure?", response_type="freeform")
    agent = Agent(model=ScriptedModel(calling(asking), "done"), middlewares=[AskUserQuestion()])
    waiting = await agent.execute(asked())
    done = await agent.resume(waiting.state, {"c1": Cancel()})
    assert isinstance(done, Completed)
    assert results(done.state)["c1"].decision == "cancel"
