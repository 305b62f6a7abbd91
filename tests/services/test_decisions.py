"""A decision means what was read: once, by somebody who may, about exactly what was shown (P4)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.utils import timezone

from sagents_app.engine import Answer, Approve, Cancel, Edit, Misconfigured, Reject, Respond, tool
from sagents_app.engine.middlewares import HumanInTheLoop
from sagents_app.models import Conversation, Event, Interrupt, InterruptDecision, Run, ToolExecution
from sagents_app.services import interrupts, recovery, runs
from sagents_app.services.agents import ReviewRule
from sagents_app.services.errors import (
    AlreadyDecided,
    DecisionMismatch,
    InvalidDecision,
    NotAllowed,
    NothingToDo,
)
from tests.world import (
    call,
    calls,
    chat,
    check_invariants,
    drive,
    event_types,
    history,
    pending,
    person,
    register,
    register_broken,
    reviewer,
    rows,
    statuses,
    transcript,
)

pytestmark = pytest.mark.django_db
RAN: list[tuple[str, Any]] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@tool
async def pay(amount: int, to: str | None = None) -> str:
    """Pay."""
    RAN.append(("pay", (amount, to)))
    return f"Paid {amount}."


@tool
async def look(what: str) -> str:
    """Look."""
    RAN.append(("look", what))
    return f"Saw {what}."


EVERY = {"allowed_decisions": ["approve", "edit", "reject", "respond"]}


def gated(*batch: Any, review: Any = (), gate: Any = EVERY, more: Any = ()) -> Conversation:
    """A conversation of ann's that waits for a decision about the calls."""
    asks = calls(*(batch or (call("c1", "pay", amount=5),)), text="One moment.")
    register(
        "gated",
        asks,
        *(more or ("Done.", "Done again.")),
        tools=[pay, look],
        middlewares=[HumanInTheLoop({"pay": gate})],
        review=review,
    )
    return chat("gated", person())


def decide(row: Interrupt, decision: Any, actor: Any, digest: str | None = None) -> Interrupt:
    shown = row.digest if digest is None else digest
    return interrupts.decide_interrupt(interrupt=row, decision=decision, actor=actor, digest=shown)


def test_a_gated_call_waits_as_a_row_and_nothing_runs():
    """IR-01, IR-38, B079."""
    conversation = gated()
    (row,) = pending(conversation)
    assert conversation.status == "interrupted"
    assert (row.kind, row.tool_name, row.tool_call_id) == ("approval", "pay", "c1")
    assert json.loads(row.arguments) == {"amount": 5}
    assert row.allowed_decisions == ["approve", "edit", "reject", "respond"]
    assert row.path == ["gated"]
    assert len(row.digest) == 64
    assert RAN == []
    assert [row.status for row in rows(conversation, "tool_call")] == ["pending"]
    check_invariants(conversation)


def test_the_request_is_told_before_the_status_and_both_at_once():
    """IR-01, B016."""
    conversation = gated()
    assert event_types(conversation)[-2:] == ["interrupt_opened", "status_changed"]
    status = Event.objects.filter(type="status_changed").last()
    assert [one["tool_call_id"] for one in status.payload["interrupts"]] == ["c1"]


@dataclass(frozen=True)
class Case:
    decision: Any
    status: str
    ran: list[Any]
    result: str
    shown: str


CASES = {
    "approve": Case(Approve(), "approved", [("pay", (5, None))], "Paid 5.", "completed"),
    "edit": Case(Edit({"amount": 7}), "edited", [("pay", (7, None))], "Paid 7.", "completed"),
    "edit to null": Case(
        Edit({"amount": 7, "to": None}), "edited", [("pay", (7, None))], "Paid 7.", "completed"
    ),
    "reject": Case(Reject(note="too much"), "rejected", [], "too much", "cancelled"),
    "respond": Case(Respond("I paid it."), "answered", [], "I paid it.", "completed"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_was_decided_is_what_happens(case):
    """IR-08, IR-17, IR-35, B003, B047: proposed, decided and executed stand side by side."""
    conversation = gated()
    (row,) = pending(conversation)
    rita = reviewer()
    decided = decide(row, case.decision, rita)
    assert (decided.status, decided.decided_by) == (case.status, rita)
    conversation.refresh_from_db()
    assert conversation.status == "running"
    assert RAN == []
    drive(conversation)
    assert case.ran == RAN
    (result,) = rows(conversation, "tool_result")
    assert case.result in result.content["content"]
    (shown,) = rows(conversation, "tool_call")
    assert shown.status == case.shown
    assert shown.metadata["decision"] == case.status
    assert shown.metadata["decided_by"] == "rita"
    row.refresh_from_db()
    assert json.loads(row.arguments) == {"amount": 5}
    if case.ran:
        assert json.loads(row.executed_arguments)["amount"] == case.ran[0][1][0]
    assert history(conversation) == ["U", "A(c1)", "T(c1)", "A"]
    assert statuses(conversation) == ["running", "interrupted", "running", "idle"]
    check_invariants(conversation)


def test_every_try_is_recorded_with_whoever_made_it():
    """IR-37, B021."""
    conversation = gated()
    (row,) = pending(conversation)
    rita, rob = reviewer(), reviewer("rob")
    decide(row, Approve(), rita)
    with pytest.raises(AlreadyDecided, match=r"rita was faster: approved at \d\d:\d\d:\d\d"):
        decide(row, Reject(), rob)
    drive(conversation)
    assert len(RAN) == 1
    tries = InterruptDecision.objects.values_list("actor__username", "outcome", "cause")
    assert list(tries) == [
        ("rita", "accepted", "decided"),
        ("rob", "refused", "already_decided"),
    ]


def test_a_decision_on_other_arguments_than_those_that_are_open_changes_nothing():
    """B027, B083."""
    conversation = gated()
    (row,) = pending(conversation)
    with pytest.raises(DecisionMismatch):
        decide(row, Approve(), reviewer(), digest="0" * 64)
    row.refresh_from_db()
    assert row.is_pending
    assert not Run.objects.live().exists()
    assert InterruptDecision.objects.get().cause == "decision_mismatch"


WRONG = [None, False, 0, "", "approve", {}, {"type": "approve"}, Answer(other_text="yes"), Cancel()]


@pytest.mark.parametrize("decision", WRONG, ids=repr)
def test_what_is_no_decision_about_the_request_changes_nothing(decision):
    """B002, B003, IR-40."""
    conversation = gated()
    (row,) = pending(conversation)
    with pytest.raises(InvalidDecision):
        decide(row, decision, reviewer())
    row.refresh_from_db()
    assert row.is_pending
    drive(conversation)
    assert RAN == []
    check_invariants(conversation)


def test_a_kind_of_decision_that_the_gate_does_not_allow_is_refused():
    """IR-40."""
    conversation = gated(gate={"allowed_decisions": ["approve", "reject"]})
    (row,) = pending(conversation)
    with pytest.raises(InvalidDecision, match="edit is not allowed here; allowed: approve, reject"):
        decide(row, Edit({"amount": 1}), reviewer())


@pytest.mark.parametrize(
    "arguments", [{"amount": "yes"}, {"amount": True}, {}, {"amount": 1, "other": 2}], ids=repr
)
def test_edited_arguments_have_to_fit_the_tool(arguments):
    """IR-40, B104."""
    conversation = gated()
    (row,) = pending(conversation)
    with pytest.raises(InvalidDecision):
        decide(row, Edit(arguments), reviewer())
    row.refresh_from_db()
    assert row.is_pending


def test_a_tool_that_is_gone_can_be_rejected_but_not_edited():
    """B022."""
    conversation = gated()
    (row,) = pending(conversation)
    register("gated", "Fine.", tools=[look])
    with pytest.raises(InvalidDecision, match="gone"):
        decide(row, Edit({"amount": 1}), reviewer())
    decide(row, Reject(), reviewer("rob"))
    drive(conversation)
    assert conversation.status == "idle"
    check_invariants(conversation)


def test_approving_a_tool_that_is_gone_is_an_error_result():
    """B022."""
    conversation = gated()
    (row,) = pending(conversation)
    register("gated", "Fine.", tools=[look])
    decide(row, Approve(), reviewer())
    drive(conversation)
    assert conversation.status == "idle"
    assert "not found" in rows(conversation, "tool_result")[0].content["content"]


def test_an_agent_that_cannot_be_built_can_be_rejected_but_not_edited():
    conversation = gated()
    (row,) = pending(conversation)

    register_broken("gated", ZeroDivisionError("not today"))
    with pytest.raises(InvalidDecision, match="cannot be built"):
        decide(row, Edit({"amount": 1}), reviewer())
    decide(row, Reject(), reviewer("rob"))


def test_nobody_else_than_the_rule_says_decides():
    """HP-18, PS-04, B083."""
    conversation = gated()
    (row,) = pending(conversation)
    superuser = person("root", is_superuser=True)
    inactive = reviewer("ina")
    inactive.is_active = False
    inactive.save()
    for nobody in (conversation.owner, person("eve"), inactive):
        with pytest.raises(NotAllowed):
            decide(row, Approve(), nobody)
    row.refresh_from_db()
    assert row.is_pending
    assert set(InterruptDecision.objects.values_list("cause", flat=True)) == {"not_allowed"}
    assert decide(row, Approve(), superuser).status == "approved"


def test_the_permission_is_asked_of_the_database_and_not_of_the_login():
    """B085."""
    conversation = gated()
    (row,) = pending(conversation)
    rita = reviewer()
    assert rita.has_perm("sagents_app.decide_interrupt")
    rita.user_permissions.clear()
    with pytest.raises(NotAllowed):
        decide(row, Approve(), rita)


def test_a_superuser_who_asked_does_not_decide_either():
    asks = calls(call("c1", "pay", amount=5))
    register("own", asks, "Done.", tools=[pay], middlewares=[HumanInTheLoop({"pay": True})])
    root = person("root", is_superuser=True)
    conversation = chat("own", root)
    (row,) = pending(conversation)
    assert row not in Interrupt.objects.reviewable_by(root)
    with pytest.raises(NotAllowed, match="somebody else"):
        decide(row, Approve(), root)


def test_a_rule_may_let_the_owner_decide():
    conversation = gated(review=[ReviewRule(tools=("pay",), owner_may_decide=True)])
    (row,) = pending(conversation)
    assert row in Interrupt.objects.reviewable_by(conversation.owner)
    assert decide(row, Approve(), conversation.owner).status == "approved"


def test_a_rule_may_want_a_group_and_another_permission():
    rule = ReviewRule(tools=("pay",), permission="auth.view_group", group="treasury")
    conversation = gated(review=[rule])
    (row,) = pending(conversation)
    rita, tess = reviewer(), person("tess", "view_group")
    for nobody in (rita, tess):
        assert row not in Interrupt.objects.reviewable_by(nobody)
        with pytest.raises(NotAllowed):
            decide(row, Approve(), nobody)
    tess.groups.add(Group.objects.create(name="treasury"))
    assert row in Interrupt.objects.reviewable_by(tess)
    assert decide(row, Approve(), tess).status == "approved"


def test_the_rule_that_counts_is_the_one_that_was_in_force():
    """P9: a policy that is lost later gives nobody more rights."""
    conversation = gated(review=[ReviewRule(tools=("pay",), permission="auth.view_group")])
    (row,) = pending(conversation)
    register("gated", "Done.", tools=[pay, look])
    with pytest.raises(NotAllowed):
        decide(row, Approve(), reviewer())


def test_another_tenant_sees_and_decides_nothing(settings):
    settings.SAGENTS_TENANT = "tests.services.test_decisions.tenant"
    conversation = gated()
    assert conversation.tenant == "a"
    (row,) = pending(conversation)
    bea, amy = reviewer("bea"), reviewer("amy")
    assert row not in Interrupt.objects.reviewable_by(bea)
    assert not Conversation.objects.visible_to(bea).exists()
    assert row in Interrupt.objects.reviewable_by(amy)
    with pytest.raises(NotAllowed):
        decide(row, Approve(), bea)


def tenant(user: Any) -> str:
    return user.username[0]


def test_a_rule_that_could_not_be_kept_is_refused():
    """P9."""
    for wrong in (
        {"approvals": 2},
        {"escalate_to": "managers"},
        {"permission": "decide"},
        {"tools": "pay"},
        {"deadline": timedelta(0)},
        {"on_expiry": "approve"},
    ):
        with pytest.raises(Misconfigured, match="ReviewRule"):
            ReviewRule(**{"tools": ("pay",), **wrong})


class TestBatches:
    def batch(self) -> Conversation:
        return gated(
            call("c1", "pay", amount=1),
            call("c2", "look", what="x"),
            call("c3", "pay", amount=3),
        )

    def test_nothing_of_the_batch_runs_before_the_last_decision(self):
        """IR-15, IR-36, B013, B034, B035."""
        conversation = self.batch()
        first, second = pending(conversation)
        rita = reviewer()
        decide(second, Approve(), rita)
        conversation.refresh_from_db()
        assert conversation.status == "interrupted"
        assert not Run.objects.live().exists()
        decide(first, Approve(), rita)
        drive(conversation)
        assert sorted(RAN) == [("look", "x"), ("pay", (1, None)), ("pay", (3, None))]
        assert history(conversation) == ["U", "A(c1,c2,c3)", "T(c1,c2,c3)", "A"]

    def test_each_call_gets_its_own_decision_whatever_the_order(self):
        """IR-14, B025, B026, B028, B043."""
        conversation = self.batch()
        first, second = pending(conversation)
        decide(second, Reject(note="not this"), reviewer())
        decide(first, Approve(), reviewer("rob"))
        drive(conversation)
        assert ("pay", (1, None)) in RAN
        assert ("pay", (3, None)) not in RAN
        status = {row.tool_call_id: row.status for row in rows(conversation, "tool_call")}
        assert status == {"c1": "completed", "c2": "completed", "c3": "cancelled"}
        check_invariants(conversation)

    def test_a_second_interrupt_is_another_batch(self):
        """IR-11, B018."""
        again = calls(call("c9", "pay", amount=9))
        conversation = gated(more=(again, "Done."))
        (row,) = pending(conversation)
        rita = reviewer()
        decide(row, Approve(), rita)
        drive(conversation)
        (second,) = pending(conversation)
        assert second.batch != row.batch
        assert conversation.status == "interrupted"
        with pytest.raises(AlreadyDecided):
            decide(row, Approve(), rita)
        decide(second, Reject(), rita)
        drive(conversation)
        assert RAN == [("pay", (5, None))]
        assert conversation.status == "idle"
        check_invariants(conversation)


class TestWithdrawing:
    def test_the_owner_takes_a_request_back_and_the_conversation_rests(self):
        conversation = gated()
        (row,) = pending(conversation)
        with pytest.raises(NotAllowed):
            interrupts.withdraw_request(interrupt=row, actor=reviewer())
        interrupts.withdraw_request(interrupt=row, actor=conversation.owner)
        row.refresh_from_db()
        conversation.refresh_from_db()
        assert (row.status, row.decision) == ("superseded", None)
        assert conversation.status == "idle"
        assert [one.status for one in rows(conversation, "tool_call")] == ["cancelled"]
        with pytest.raises(AlreadyDecided):
            decide(row, Approve(), reviewer("rob"))
        check_invariants(conversation)


class TestExpiry:
    def expired(self, on_expiry: str) -> tuple[Conversation, Interrupt]:
        rule = ReviewRule(tools=("pay",), deadline=timedelta(hours=1), on_expiry=on_expiry)
        conversation = gated(review=[rule])
        (row,) = pending(conversation)
        assert row.expires_at is not None
        assert not interrupts.expire_interrupt(interrupt=row)
        Interrupt.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        recovery.sweep()
        row.refresh_from_db()
        return conversation, row

    def test_a_request_that_nobody_decided_is_answered_and_the_run_goes_on(self):
        """B098, B099: expired is told apart from rejected."""
        conversation, row = self.expired("reject")
        assert (row.status, row.decided_by) == ("expired", None)
        assert InterruptDecision.objects.get().cause == "expired"
        drive(conversation)
        assert RAN == []
        assert "in time" in rows(conversation, "tool_result")[0].content["content"]
        assert conversation.status == "idle"
        check_invariants(conversation)

    def test_it_may_stop_the_conversation_instead(self):
        conversation, row = self.expired("halt")
        conversation.refresh_from_db()
        assert (row.status, conversation.status) == ("expired", "idle")
        assert "in time" in transcript(conversation)[-1]
        check_invariants(conversation)

    def test_it_may_wait_for_ever(self):
        conversation, row = self.expired("wait")
        assert row.is_pending
        decide(row, Approve(), reviewer())
        drive(conversation)
        assert len(RAN) == 1

    def test_what_was_decided_in_the_same_second_stands(self):
        rule = ReviewRule(tools=("pay",), deadline=timedelta(hours=1))
        conversation = gated(review=[rule])
        (row,) = pending(conversation)
        decide(row, Approve(), reviewer())
        Interrupt.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        assert not interrupts.expire_interrupt(interrupt=row)
        recovery.sweep()
        drive(conversation)
        assert len(RAN) == 1


def test_a_decision_needs_an_open_conversation():
    """IR-23, IR-24."""
    conversation = gated()
    (row,) = pending(conversation)
    runs.cancel_run(conversation=conversation, actor=conversation.owner)
    with pytest.raises(AlreadyDecided, match="cancelled"):
        decide(row, Approve(), reviewer())
    with pytest.raises(NothingToDo):
        interrupts.dismiss_halt(interrupt=row, actor=conversation.owner)
    assert not Run.objects.live().exists()


def test_a_hundred_pending_rows_are_found_with_one_query(django_assert_num_queries):
    conversation = gated()
    rita = reviewer()
    rita.user_permissions.add(Permission.objects.get(codename="view_conversation"))
    list(Interrupt.objects.reviewable_by(rita))  # fills the user's permission cache
    with django_assert_num_queries(2):
        assert len(Interrupt.objects.pending().reviewable_by(rita)) == 1
    assert conversation.pk
    assert ToolExecution.objects.count() == 0
