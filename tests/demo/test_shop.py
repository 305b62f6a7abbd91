"""The demonstration's agent: what its script says, and what its tools do to the shop's orders."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps

from project.demo import tools
from project.demo.models import Order
from project.demo.scripted import demo_model, plan
from sagents_app.engine import (
    Agent,
    AgentState,
    Approve,
    Completed,
    Edit,
    Halt,
    Interrupted,
    Message,
    ModelRequest,
    Outcome,
    Reject,
    ToolContext,
    ToolError,
)
from sagents_app.engine.middlewares import Haltable, HumanInTheLoop

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _stock(transactional_db: None) -> None:
    """Stock the shop anew: tests with transactions of their own empty it."""
    Order.objects.all().delete()
    import_module("project.demo.migrations.0001_orders").stock(apps, None)


def context(key: str = "key") -> ToolContext:
    return ToolContext(state=AgentState(), call_id="c", idempotency_key=key)


def refund(number: str, amount: str, key: str = "key") -> Any:
    return tools.refund.function(number, Decimal(amount), "because", context(key))


def support() -> Agent:
    return Agent(
        model=demo_model(typing_pause=0),
        tools=[tools.look_up_order, tools.refund, tools.delete_order, tools.check_dispute],
        middlewares=[HumanInTheLoop({"refund": True, "delete_order": True}), Haltable()],
    )


async def say(agent: Agent, words: str, state: AgentState | None = None) -> Outcome:
    return await agent.execute((state or AgentState()).add_message(Message.user(words)))


@dataclass(frozen=True)
class Case:
    words: str
    calls: str


@pytest.mark.parametrize(
    "case",
    [
        Case("Where is order 1002?", "look_up_order"),
        Case("Please refund order 1001", "look_up_order"),
        Case("Delete 1003", "delete_order"),
        Case("My card was charged twice for order 1004", "check_dispute"),
    ],
)
def test_the_script_begins_by_what_the_person_says(case: Case) -> None:
    _, calls = plan(ModelRequest("", [Message.user(case.words)]))
    assert [name for name, _ in calls] == [case.calls]


def test_the_script_says_what_it_is_and_what_can_be_tried() -> None:
    planned = plan(ModelRequest("", [Message.user("hello")]))
    assert "scripted demo model" in planned
    assert "no AI" in planned


async def test_an_approved_refund_is_paid_and_a_second_turn_knows_of_it() -> None:
    agent = support()
    waiting = await say(agent, "Please refund order 1001")
    assert isinstance(waiting, Interrupted)
    call_id = waiting.state.messages[-1].tool_calls[0].call_id
    done = await agent.resume(waiting.state, {call_id: Approve()})
    assert isinstance(done, Completed)
    assert done.state.messages[-1].text == (
        "Refunded 249.00 euros for order 1001. Is there anything else?"
    )
    again = await say(agent, "refund order 1001 once more", done.state)
    assert "Order 1001 has been refunded already." in again.state.messages[-1].text


async def test_two_orders_in_one_message_are_both_looked_up() -> None:
    done = await say(support(), "Where is order 1002?\nAnd order 1003?")
    text = done.state.messages[-1].text
    assert "Coffee grinder" in text
    assert "Milk jug" in text


async def test_a_changed_refund_is_paid_as_the_reviewer_said() -> None:
    agent = support()
    waiting = await say(agent, "Please refund order 1002")
    call_id = waiting.state.messages[-1].tool_calls[0].call_id
    edited = Edit({"number": "1002", "amount": "10", "reason": "half"})
    done = await agent.resume(waiting.state, {call_id: edited})
    assert "A colleague changed my request" in done.state.messages[-1].text
    assert (await Order.objects.aget(number="1002")).refunded == Decimal(10)


async def test_a_declined_deletion_is_told_with_its_note() -> None:
    agent = support()
    waiting = await say(agent, "delete order 1003")
    call_id = waiting.state.messages[-1].tool_calls[0].call_id
    done = await agent.resume(waiting.state, {call_id: Reject("keep it for the tax office")})
    assert "> keep it for the tax office" in done.state.messages[-1].text
    assert (await Order.objects.aget(number="1003")).status == Order.Status.DELIVERED


async def test_a_disputed_payment_halts_and_the_next_message_goes_on() -> None:
    agent = support()
    halted = await say(agent, "I was charged twice for order 1004")
    assert isinstance(halted, Interrupted)
    assert isinstance(halted.interrupt, Halt)
    assert "Copper kettle" in halted.interrupt.message
    moved_on = halted.state.cancel_pending_interrupts()
    done = await say(agent, "then where is order 1002?", moved_on)
    assert "Coffee grinder" in done.state.messages[-1].text


def test_a_refund_under_one_key_is_paid_once() -> None:
    assert refund("1003", "5") == refund("1003", "5") == "Refunded 5.00 euros for order 1003."
    assert Order.objects.get(number="1003").refunded == Decimal(5)


@pytest.mark.parametrize("amount", ["0", "-1", "18.91"])
def test_a_refund_beyond_the_order_is_refused(amount: str) -> None:
    with pytest.raises(ToolError, match=r"18\.90 of order 1003 are left"):
        refund("1003", amount)


def test_an_order_that_is_not_there_is_an_error_that_names_those_that_are() -> None:
    with pytest.raises(ToolError, match="1001, 1002, 1003, 1004"):
        tools.look_up_order.function("9999")


def test_a_deleted_order_is_not_found_any_more() -> None:
    tools.delete_order.function("1003")
    with pytest.raises(ToolError, match="no order '1003'"):
        tools.look_up_order.function("1003")
