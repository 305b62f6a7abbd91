"""What a page shows of what is open, and how several kinds in one batch are settled together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sagents_app.engine import (
    ActionRequest,
    Agent,
    Answer,
    ApprovalRequest,
    Approve,
    BudgetRequest,
    Completed,
    Halt,
    Interrupt,
    Interrupted,
    MultipleInterrupts,
    Question,
    ReviewConfig,
    ScriptedModel,
    SubAgentInterrupt,
    UnknownInterrupt,
    serialize,
    session,
)
from sagents_app.engine.middlewares import AskUserQuestion, HumanInTheLoop, SubAgents
from sagents_app.engine.session import CLEARED, Approval, Shown, shown
from sagents_app.engine.sub_agents import SubAgent
from tests.engine.doubles import Notes, asked, call, calling, told

ONE = Question("one?", tool_call_id="q1")
TWO = Question("two?", tool_call_id="q2")
REFUND = ActionRequest("c1", "refund", '{"order":1}', "Refund")
DELETE = ActionRequest("c2", "delete")
RULE = ReviewConfig(("approve", "reject"))
APPROVALS = ApprovalRequest((REFUND, DELETE), {"delete": RULE})
BOTH = (Approval(REFUND, ReviewConfig()), Approval(DELETE, RULE))
HALT = Halt("fix it", source_tool="gate", tool_call_id="h1")
INSIDE = SubAgentInterrupt("mailer", path=("boss", "mailer"), inner=APPROVALS, tool_call_id="t")
PATHS = {"c1": ("boss", "mailer"), "c2": ("boss", "mailer")}
DEEP = SubAgentInterrupt("chief", path=("boss", "chief", "mailer"), tool_call_id="t",
    inner=SubAgentInterrupt("mailer", path=("chief", "mailer"), inner=ONE))  # fmt: skip
LOST = UnknownInterrupt("from_the_future", tool_call_id="x")
BUDGET = BudgetRequest(10, used=10)


@pytest.mark.parametrize(
    ("interrupt", "expected"),
    [
        pytest.param(None, CLEARED, id="I-140 nothing"),
        pytest.param(ONE, Shown(questions=(ONE,)), id="I-148 a question"),
        pytest.param(
            MultipleInterrupts((TWO, ONE)), Shown(questions=(TWO, ONE)), id="I-142 in order"
        ),
        pytest.param(
            MultipleInterrupts((ONE, INSIDE)),
            Shown(questions=(ONE,), approvals=BOTH, paths=PATHS),
            id="I-143 I-149 a mixture",
        ),
        pytest.param(INSIDE, Shown(approvals=BOTH, paths=PATHS), id="I-144 a sub-agent's"),
        pytest.param(APPROVALS, Shown(approvals=BOTH), id="I-145 approvals"),
        pytest.param(HALT, Shown(halts=(HALT,)), id="I-146 a halt"),
        pytest.param(
            MultipleInterrupts((ONE, HALT, INSIDE, LOST)),
            Shown(halts=(HALT,)),
            id="halt wins over everything",
        ),
        pytest.param(
            DEEP,
            Shown(questions=(ONE,), paths={"q1": ("boss", "chief", "mailer")}),
            id="agents within agents",
        ),
        pytest.param(LOST, Shown(others=(LOST,)), id="an unreadable kind"),
        pytest.param(BUDGET, Shown(others=(BUDGET,)), id="a budget"),
        pytest.param(ApprovalRequest(()), CLEARED, id="an empty request"),
        pytest.param(MultipleInterrupts(()), CLEARED, id="an empty batch"),
    ],
)
def test_a_page_shows_what_is_open_by_kind(interrupt: Interrupt | None, expected: Shown) -> None:
    """Also the same when it is delivered again, or was stored in between (I-153)."""
    assert shown(interrupt) == expected
    assert shown(interrupt) == shown(interrupt)
    assert bool(expected) is (expected != CLEARED)
    if interrupt is not None:
        restored = serialize.load_interrupt(
            json.loads(json.dumps(serialize.dump_interrupt(interrupt)))
        )
        assert shown(restored) == expected


async def test_a_question_and_a_sub_agents_approval_are_settled_by_one_mapping() -> None:
    """I-106: upstream settles no such mixture."""
    sent = Notes("send")
    kind = SubAgent(
        name="mailer",
        description="m",
        system_prompt="p",
        model=ScriptedModel(calling(call("s", "send", text="x")), "sent"),
        tools=(sent.tool,),
        middlewares=(HumanInTheLoop({"send": True}),),
    )
    asking = call("q", "ask_user", question="?", response_type="freeform")
    agent = Agent(
        name="boss",
        model=ScriptedModel(
            calling(asking, call("t", "task", instructions="go", task_name="mailer")), "done"
        ),
        middlewares=[SubAgents([kind], general=False), AskUserQuestion()],
    )
    waits = await agent.execute(asked())
    assert isinstance(waits, Interrupted)
    open_now = shown(waits.interrupt)
    assert [one.tool_call_id for one in open_now.questions] == ["q"]
    assert [one.request.tool_call_id for one in open_now.approvals] == ["t-s"]
    assert open_now.paths == {"t-s": ("boss", "mailer")}
    replies: dict[str, Any] = {"t-s": Approve(), "q": Answer(other_text="yes")}
    outcome = await agent.resume(waits.state, replies)
    assert isinstance(outcome, Completed)
    assert told(outcome.state) == {"q": 'User responded: "yes"', "t": "sent"}
    assert sent.taken == ["x"]
    assert session.shown(outcome.state.interrupt) == CLEARED
