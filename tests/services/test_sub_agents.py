"""What a sub-agent waits for is a row like any other, with the path to it (P8)."""

from __future__ import annotations

from typing import Any

import pytest

from sagents_app.engine import Approve, Edit, Halt, Reject, ScriptedModel, tool
from sagents_app.engine.middlewares import Haltable, HumanInTheLoop, SubAgents
from sagents_app.engine.sub_agents import SubAgent
from sagents_app.models import Conversation, Interrupt
from sagents_app.services import interrupts
from sagents_app.services.errors import InvalidDecision
from tests.world import (
    call,
    calls,
    chat,
    check_invariants,
    drive,
    history,
    pending,
    person,
    register,
    reviewer,
    rows,
    transcript,
)

pytestmark = pytest.mark.django_db
RAN: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@tool
async def pay(amount: int) -> str:
    """Pay."""
    RAN.append(amount)
    return f"Paid {amount}."


@tool
async def stop(message: str) -> Halt:
    """Stop the workflow."""
    return Halt(message)


def delegated(*inner: Any, batch: Any = None) -> Conversation:
    """A conversation whose agent gave a task to its clerk."""
    clerk = SubAgent(
        name="clerk",
        description="pays bills",
        system_prompt="Pay.",
        model=ScriptedModel(*inner),
        tools=(pay, stop),
        middlewares=(HumanInTheLoop({"pay": True}), Haltable()),
    )
    task = call("t1", "task", instructions="Pay 5.", task_name="clerk")
    register(
        "boss",
        batch or calls(task),
        "All done.",
        "And more.",
        middlewares=[SubAgents([clerk]), Haltable()],
    )
    return chat("boss", person())


def decide(row: Interrupt, decision: Any) -> None:
    interrupts.decide_interrupt(
        interrupt=row, decision=decision, actor=reviewer(), digest=row.digest
    )


@pytest.mark.parametrize(
    ("decision", "ran"),
    [(Approve(), [5]), (Edit({"amount": 7}), [7]), (Reject(note="no"), [])],
    ids=["approve", "edit", "reject"],
)
def test_an_inner_call_is_decided_in_place(decision, ran):
    """B009, B010, B107, IR-10, IR-19: from rows alone, since every drive builds its agent anew."""
    conversation = delegated(calls(call("c1", "pay", amount=5)), "Paid it.")
    (row,) = pending(conversation)
    assert (row.kind, row.tool_name, row.path) == ("approval", "pay", ["boss", "clerk"])
    assert [one.status for one in rows(conversation, "tool_call")] == ["interrupted"]
    decide(row, decision)
    drive(conversation)
    assert ran == RAN
    assert conversation.status == "idle"
    assert transcript(conversation)[-3:] == [
        "assistant tool_call: task",
        "tool tool_result: Paid it.",
        "assistant text: All done.",
    ]
    assert history(conversation) == ["U", "A(t1)", "T(t1)", "A"]
    check_invariants(conversation)


def test_edited_arguments_have_to_fit_the_inner_tool():
    conversation = delegated(calls(call("c1", "pay", amount=5)), "Paid it.")
    (row,) = pending(conversation)
    with pytest.raises(InvalidDecision):
        decide(row, Edit({"amount": "much"}))
    assert pending(conversation) == [row]


def test_an_inner_halt_is_the_parents_and_its_text_stands_once():
    """CR-35, HP-09."""
    conversation = delegated(calls(call("c1", "stop", message="No money.")))
    (row,) = pending(conversation)
    assert row.kind == "halt"
    assert transcript(conversation)[-1] == "assistant halt: No money."
    interrupts.dismiss_halt(interrupt=row, actor=conversation.owner)
    conversation.refresh_from_db()
    assert conversation.status == "idle"
    check_invariants(conversation)


def test_two_tasks_wait_side_by_side_and_each_gets_its_own_decision():
    """B029, B033."""
    tasks = [call(name, "task", instructions="Pay.", task_name="clerk") for name in ("t1", "t2")]
    first, second = (calls(call("c1", "pay", amount=n)) for n in (1, 2))
    conversation = delegated(first, second, "Paid.", "Paid.", batch=calls(*tasks))
    one, two = pending(conversation)
    assert one.tool_call_id != two.tool_call_id
    decide(two, Reject())
    conversation.refresh_from_db()
    assert conversation.status == "interrupted"
    interrupts.decide_interrupt(
        interrupt=one, decision=Approve(), actor=reviewer("rob"), digest=one.digest
    )
    drive(conversation)
    assert RAN == [1]
    assert conversation.status == "idle"
    assert history(conversation) == ["U", "A(t1,t2)", "T(t1,t2)", "A"]
    check_invariants(conversation)
