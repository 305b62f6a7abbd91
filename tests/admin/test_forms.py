"""What a reviewer types becomes exactly the decision that was meant."""

from __future__ import annotations

from typing import Any

import pytest

from sagents_app import engine
from sagents_app.engine import canonical
from sagents_app.forms import DecisionForm

ARGUMENTS = {
    "amount": 10,
    "code": "10",
    "dry_run": False,
    "ids": [1, 2],
    "memo": None,
    "price": 1.5,
    "text": "one\ntwo",
}
ALL = ("approve", "edit", "reject", "respond")


@engine.tool
def pay(
    amount: int,
    code: str,
    dry_run: bool,
    ids: list[int],
    price: float,
    text: str,
    memo: str | None = None,
    currency: str = "EUR",
) -> str:
    """Pay.

    Args:
        amount: Whole euros.
    """
    return "paid"


def make_form(data: dict[str, Any] | None = None, **options: Any) -> DecisionForm:
    options = {"digest": "d" * 64, "allowed": ALL, "tool": pay} | options
    options.setdefault("proposed", canonical.dump(ARGUMENTS))
    return DecisionForm(data, **options)


def posted(form: DecisionForm, decision: str, **changes: str) -> dict[str, str]:
    """Return what a browser sends of the form: every field, with a browser's line ends."""
    data = {"digest": "d" * 64, "note": "", "decision": decision, "answer": ""}
    names = {argument.name: name for name, argument in form.arguments.items()}
    for name in (*form.arguments, "arguments"):
        if name in form.fields:
            data[name] = str(form[name].value()).replace("\n", "\r\n")
    return data | {names.get(name, name): value for name, value in changes.items()}


def decide(decision: str, **changes: str) -> engine.Decision:
    form = make_form(posted(make_form(), decision, **changes))
    assert form.is_valid(), form.errors
    return form.decision()


def problems(decision: str, **changes: str) -> dict[str, list[str]]:
    form = make_form(posted(make_form(), decision, **changes))
    names = {name: argument.name for name, argument in form.arguments.items()}
    return {names.get(name, name): list(errors) for name, errors in form.errors.items()}


def test_an_approval_carries_its_note() -> None:
    assert decide("approve", note="fine") == engine.Approve(note="fine")


def test_only_the_changed_argument_differs() -> None:
    decision = decide("edit", text="three")
    assert isinstance(decision, engine.Edit)
    assert decision.arguments_json == canonical.dump(ARGUMENTS | {"text": "three"})


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("amount", "12", 12),
        ("code", "12", "12"),
        ("dry_run", "true", True),
        ("ids", "[]", []),
        ("memo", '"x"', "x"),
        ("price", "2", 2),
        ("text", "", ""),
        ("text", " a\r\nb ", " a\nb "),
    ],
)
def test_a_changed_field_keeps_its_type(name: str, typed: str, value: Any) -> None:
    decision = decide("edit", **{name: typed})
    assert isinstance(decision, engine.Edit)
    edited = decision.arguments[name]
    assert (edited, type(edited)) == (value, type(value))


def test_null_is_an_edit() -> None:
    proposed = canonical.dump({"memo": "please"})
    form = make_form(proposed=proposed, tool=None)
    data = posted(form, "edit", arguments='{"memo": null}')
    form = make_form(data, proposed=proposed, tool=None)
    assert form.is_valid()
    assert form.decision() == engine.Edit({"memo": None})


def test_no_arguments_at_all_is_an_edit() -> None:
    form = make_form(posted(make_form(), "edit", arguments="{}"), tool=None)
    assert form.is_valid()
    assert form.decision() == engine.Edit({})


def test_a_value_that_does_not_fit_is_told_beside_its_field() -> None:
    assert list(problems("edit", amount="1.5")) == ["amount"]
    assert list(problems("edit", ids='["a"]')) == ["ids"]
    assert list(problems("edit", amount="ten")) == ["amount"]


def test_broken_json_is_told_and_kept() -> None:
    form = make_form(posted(make_form(), "edit", arguments="{broken"))
    assert list(form.errors) == ["arguments"]
    assert form["arguments"].value() == "{broken"


def test_an_argument_the_tool_does_not_take_is_told() -> None:
    arguments = canonical.dump(ARGUMENTS | {"extra": 1})
    assert list(problems("edit", arguments=arguments)) == ["arguments"]


def test_arguments_are_not_edited_in_two_places() -> None:
    assert list(problems("edit", arguments="{}", amount="11")) == ["arguments"]


def test_approve_after_a_change_is_asked_about() -> None:
    assert list(problems("approve", amount="11")) == ["__all__"]


def test_an_edit_without_a_change_is_asked_about() -> None:
    assert list(problems("edit")) == ["__all__"]
    reordered = canonical.dump(ARGUMENTS)
    assert list(problems("edit", arguments=reordered)) == ["__all__"]


def test_what_was_typed_into_the_arguments_does_not_hold_up_a_rejection() -> None:
    assert decide("reject", arguments="{broken", amount="x", note="no") == engine.Reject(note="no")


def test_an_answer_in_the_tools_place_needs_words() -> None:
    assert list(problems("respond")) == ["answer"]
    assert decide("respond", answer="done by hand") == engine.Respond("done by hand")


def test_a_decision_that_is_not_allowed_is_refused() -> None:
    form = make_form(posted(make_form(), "respond"), allowed=("approve", "reject"))
    assert list(form.errors) == ["decision"]
    assert not form.arguments


def test_hidden_characters_are_edited_as_escapes_and_come_back_the_same() -> None:
    proposed = canonical.dump({"to": "a\u202eb", "cc": "x"})
    form = make_form(proposed=proposed, tool=None)
    assert form["argument_1"].value() == '"a\\u202eb"'
    data = posted(form, "edit", cc="y")
    form = make_form(data, proposed=proposed, tool=None)
    assert form.is_valid(), form.errors
    assert form.decision() == engine.Edit({"to": "a\u202eb", "cc": "y"})


def test_a_value_of_a_megabyte_stays_out_of_the_form() -> None:
    proposed = canonical.dump({"body": "x" * 1_000_000, "to": "a"})
    form = make_form(proposed=proposed, tool=None)
    assert [argument.name for argument in form.arguments.values()] == ["to"]
    assert "arguments" not in form.fields
    assert form.unoffered == 1
    form = make_form(posted(form, "edit", to="b"), proposed=proposed, tool=None)
    assert form.is_valid(), form.errors
    decision = form.decision()
    assert isinstance(decision, engine.Edit)
    assert decision.arguments == {"body": "x" * 1_000_000, "to": "b"}


def test_one_of_a_few_is_chosen_from_a_list() -> None:
    form = make_form(proposed=canonical.dump({"dry_run": False}))
    assert form.fields["argument_0"].choices == [("true", "true"), ("false", "false")]
