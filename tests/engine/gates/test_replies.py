"""What a reply may be, by what it answers: `check_reply` is pure and names what it expected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from sagents_app.engine import (
    Answer,
    ApprovalRequest,
    Approve,
    Cancel,
    Decision,
    Edit,
    Halt,
    Interrupt,
    InvalidResume,
    Reject,
    Respond,
    UnknownInterrupt,
    UnknownOutcome,
    check_reply,
)
from sagents_app.engine.interrupts import ActionRequest

REQUEST = ActionRequest("c1", "note")
APPROVAL = ApprovalRequest((REQUEST,))
HALT = Halt("stop")
UNKNOWN = UnknownInterrupt(stored_type="vote", data={})
OUTCOME = UnknownOutcome(REQUEST, known="It ran.")


@dataclass(frozen=True)
class Wrong:
    interrupt: Interrupt
    reply: Any
    told: str
    call_id: str | None = "c1"


WRONG = [
    Wrong(HALT, Approve(), "a halt is terminal: it can be dismissed, not answered"),
    Wrong(HALT, Cancel(), "a halt is terminal: it can be dismissed, not answered"),
    Wrong(UNKNOWN, Approve(), "an interrupt of the unknown kind 'vote' allows cancel, got approve"),
    Wrong(APPROVAL, Approve(), "call 'c2' is not open; open are c1", "c2"),
    Wrong(APPROVAL, Approve(), "call None is not open; open are c1", None),
    Wrong(APPROVAL, Answer(), "call 'c1' of tool 'note' allows approve, edit, reject, got answer"),
    Wrong(OUTCOME, Cancel(), "the outcome of 'c1' allows respond, reject, approve, got cancel"),
    Wrong(APPROVAL, "yes", "a reply is one of approve, edit, reject, respond, answer, cancel, got"),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: f"{case.interrupt.type} {case.reply!r}")
def test_a_reply_that_does_not_fit_is_refused_with_what_was_expected(case: Wrong) -> None:
    with pytest.raises(InvalidResume) as caught:
        check_reply(case.interrupt, case.reply, call_id=case.call_id)
    assert str(caught.value).startswith(case.told)


@pytest.mark.parametrize(
    ("interrupt", "reply"),
    [
        (UNKNOWN, Cancel()),
        (APPROVAL, Edit({})),
        (OUTCOME, Approve()),
        (OUTCOME, Reject("it was not sent")),
        (OUTCOME, Respond("It was sent.")),
    ],
    ids=lambda one: one.type,
)
def test_a_reply_that_fits_passes(interrupt: Interrupt, reply: Decision) -> None:
    check_reply(interrupt, reply, call_id="c1")


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes"], ids=["object", "set", "bytes"])
def test_edited_arguments_that_are_no_json_are_refused(value: Any) -> None:
    with pytest.raises(InvalidResume, match="edited arguments are not JSON"):
        Edit({"text": value})


def test_an_edit_is_copied_with_its_arguments_as_they_stand() -> None:
    """Integers verbatim: what was decided is not written anew."""
    edit = Edit({"b": 12345678901234567890, "a": None})
    assert replace(edit, note="with care") == Edit(
        {"a": None, "b": 12345678901234567890}, "with care"
    )
