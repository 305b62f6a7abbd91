"""What the host's code hears: after the commit, and without a way to undo it."""

from __future__ import annotations

from typing import Any

import pytest

from sagents_app import signals
from sagents_app.engine import Approve, tool
from sagents_app.engine.middlewares import HumanInTheLoop
from sagents_app.services import interrupts
from tests.world import call, calls, chat, drive, pending, person, register, reviewer

pytestmark = pytest.mark.django_db(transaction=True)


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"Paid {amount}."


@pytest.fixture
def heard():
    told: list[tuple[str, str]] = []

    def opened(interrupt: Any, **_: Any) -> None:
        told.append(("opened", interrupt.status))
        raise RuntimeError("a receiver of the host's fails")

    def decided(interrupt: Any, **_: Any) -> None:
        told.append(("decided", interrupt.status))

    def ended(run: Any, **_: Any) -> None:
        told.append(("ended", run.status))

    signals.interrupt_opened.connect(opened)
    signals.interrupt_decided.connect(decided)
    signals.run_ended.connect(ended)
    yield told
    signals.interrupt_opened.disconnect(opened)
    signals.interrupt_decided.disconnect(decided)
    signals.run_ended.disconnect(ended)


def test_opened_decided_and_ended_are_told_in_order_whatever_a_receiver_does(heard):
    asks = calls(call("c1", "pay", amount=5))
    register("gated", asks, "Done.", tools=[pay], middlewares=[HumanInTheLoop({"pay": True})])
    conversation = chat("gated", person())
    (row,) = pending(conversation)
    interrupts.decide_interrupt(
        interrupt=row, decision=Approve(), actor=reviewer(), digest=row.digest
    )
    drive(conversation)
    assert conversation.status == "idle"
    assert heard == [
        ("opened", "pending"),
        ("ended", "interrupted"),
        ("decided", "approved"),
        ("ended", "completed"),
    ]
