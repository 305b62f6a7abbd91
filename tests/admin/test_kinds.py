"""Each kind of request has its own words, and unheard-of ones a plain page."""

from __future__ import annotations

from typing import Any

from sagents_app import engine
from sagents_app.engine import serialize
from sagents_app.models import Interrupt
from tests.admin.conftest import Desk

PAY = {"number": "1", "amount": 1}


def turn_into(row: Interrupt, interrupt: engine.Interrupt, *allowed: str, **fields: Any) -> None:
    """Have a waiting request be of another kind."""
    payload = serialize.dump_interrupt(interrupt)
    changed = {"kind": interrupt.type, "payload": payload, "allowed_decisions": list(allowed)}
    Interrupt.objects.filter(pk=row.pk).update(**changed, **fields)
    row.refresh_from_db()


def ask_for_outcome(desk: Desk) -> Interrupt:
    row = desk.ask(pay=PAY)
    call = engine.ActionRequest(row.tool_call_id, "pay", row.arguments, "Pay an invoice")
    known = "The worker was lost while it ran."
    unknown = engine.UnknownOutcome(call, known=known, tool_call_id=row.tool_call_id)
    turn_into(row, unknown, "respond", "reject", "approve")
    return row


def ask_for_budget(desk: Desk) -> Interrupt:
    row = desk.ask(pay=PAY)
    budget = engine.BudgetRequest(5, used=5, tool_call_id=row.tool_call_id)
    turn_into(row, budget, "approve", "edit", "reject", arguments="{}", tool_name="")
    return row


def test_an_unknown_outcome_asks_whether_it_was_done(desk: Desk) -> None:
    page = desk.page(ask_for_outcome(desk)).content.decode()
    for words in (
        "Was it done? Pay an invoice",
        "The worker was lost while it ran.",
        "Run it again",
        "It was not done",
        "It was done, with this result",
    ):
        assert words in page


def test_what_was_done_is_told_as_the_result(desk: Desk) -> None:
    row = ask_for_outcome(desk)
    desk.decide(row, "respond", answer="Receipt 77.")
    row.refresh_from_db()
    assert (row.status, row.decision["text"]) == ("answered", "Receipt 77.")
    assert "Receipt 77." in desk.page(row).content.decode()


def test_a_budget_is_raised_to_a_number(desk: Desk) -> None:
    row = ask_for_budget(desk)
    response = desk.page(row)
    assert "clerk has used up its budget" in response.content.decode()
    refused = desk.decide(row, "edit", argument_0="4")
    assert "above the 5 used" in str(refused.context["form"].errors)
    desk.decide(row, "edit", argument_0="9")
    row.refresh_from_db()
    assert (row.status, row.decision["arguments_json"]) == ("edited", '{"limit":9}')


def test_a_request_from_inside_shows_the_path_of_agents(desk: Desk) -> None:
    row = desk.ask(pay=PAY)
    Interrupt.objects.filter(pk=row.pk).update(path=["clerk", "payments"])
    for response in (desk.page(row), desk.queue()):
        assert "clerk → payments" in response.content.decode()


def test_a_request_of_an_agent_that_is_gone_can_still_be_rejected(desk: Desk) -> None:
    row = desk.ask(pay=PAY)
    row.conversation.agent_name = "retired"
    row.conversation.save(update_fields=["agent_name"])
    assert "retired" in desk.page(row).content.decode()
    desk.decide(row, "reject")
    row.refresh_from_db()
    assert row.status == "rejected"


def test_a_request_that_expires_says_when(desk: Desk) -> None:
    row = desk.ask(pay=PAY)
    Interrupt.objects.filter(pk=row.pk).update(expires_at=row.created_at)
    assert "Expires" in desk.page(row).content.decode()
