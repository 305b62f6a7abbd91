"""Decisions: what a person says to an interrupt, and the pure check that it fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sagents_app.engine import canonical
from sagents_app.engine.errors import InvalidResume
from sagents_app.engine.interrupts import (
    ApprovalRequest,
    BudgetRequest,
    Halt,
    Interrupt,
    Question,
    UnknownInterrupt,
    UnknownOutcome,
)


@dataclass(frozen=True, slots=True)
class Approve:
    """Run the call as it was shown; for an unknown outcome, run it again."""

    note: str = ""
    type: ClassVar[str] = "approve"


@dataclass(frozen=True, slots=True, init=False)
class Edit:
    """Run the call with these arguments instead; `{}` and nulls are edits like any other.

    Raises:
        InvalidResume: the arguments are not a JSON object.
    """

    arguments_json: str
    note: str
    type: ClassVar[str] = "edit"

    def __init__(
        self,
        arguments: Mapping[str, Any] | None = None,
        note: str = "",
        *,
        arguments_json: str | None = None,
    ) -> None:
        if arguments_json is None:
            if not isinstance(arguments, Mapping):
                raise InvalidResume(f"edited arguments are an object, got {arguments!r:.200}")
            try:
                arguments_json = canonical.dump(dict(arguments))
            except (TypeError, ValueError) as error:
                raise InvalidResume(f"edited arguments are not JSON: {error}") from error
        object.__setattr__(self, "arguments_json", arguments_json)
        object.__setattr__(self, "note", note)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments, parsed anew for each caller."""
        parsed: dict[str, Any] = canonical.parse(self.arguments_json)
        return parsed


@dataclass(frozen=True, slots=True)
class Reject:
    """Do not run the call; the note is told to the model."""

    note: str = ""
    type: ClassVar[str] = "reject"


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer in the tool's place; for an unknown outcome, it was done and this is its result."""

    text: str
    type: ClassVar[str] = "respond"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a question: values of the chosen options, text typed beside or instead."""

    selected: tuple[str, ...] = ()
    other_text: str | None = None
    type: ClassVar[str] = "answer"

    def __post_init__(self) -> None:
        if isinstance(self.selected, str) or not all(
            isinstance(value, str) for value in self.selected
        ):
            raise InvalidResume(f"selected values are a list of texts, got {self.selected!r:.200}")
        if self.other_text is not None and not isinstance(self.other_text, str):
            raise InvalidResume(f"other_text is a text or None, got {self.other_text!r:.200}")
        object.__setattr__(self, "selected", tuple(self.selected))


@dataclass(frozen=True, slots=True)
class Cancel:
    """The person does not want to answer."""

    type: ClassVar[str] = "cancel"


Decision = Approve | Edit | Reject | Respond | Answer | Cancel
DECISIONS: Mapping[str, type[Decision]] = {
    kind.type: kind for kind in (Approve, Edit, Reject, Respond, Answer, Cancel)
}


def check_reply(interrupt: Interrupt, reply: Decision, *, call_id: str | None = None) -> None:
    """Check one reply against what the stored interrupt allows; pure.

    `call_id` says which call of an `ApprovalRequest` is meant. Kinds of a host's own are the
    business of the middleware that raised them, so they pass.

    Raises:
        InvalidResume: naming what was expected and what came.
    """
    if not isinstance(reply, tuple(DECISIONS.values())):
        raise InvalidResume(f"a reply is one of {', '.join(DECISIONS)}, got {reply!r:.200}")
    match interrupt:
        case ApprovalRequest():
            _check_approval(interrupt, reply, call_id)
        case Question():
            _check_answer(interrupt, reply)
        case Halt():
            raise InvalidResume("a halt is terminal: it can be dismissed, not answered")
        case UnknownOutcome():
            _expect(
                reply,
                ("respond", "reject", "approve"),
                f"the outcome of {interrupt.call.tool_call_id!r}",
            )
        case BudgetRequest():
            _expect(reply, ("approve", "edit", "reject"), "the budget request")
            limit = reply.arguments.get("limit") if isinstance(reply, Edit) else interrupt.limit + 1
            if not isinstance(limit, int) or isinstance(limit, bool) or limit <= interrupt.used:
                raise InvalidResume(
                    f"a new limit is a number above the {interrupt.used} used, got {limit!r}"
                )
        case UnknownInterrupt():
            _expect(
                reply, ("cancel",), f"an interrupt of the unknown kind {interrupt.stored_type!r}"
            )
        case _:
            pass


def _expect(reply: Decision, allowed: Iterable[str], what: str) -> None:
    allowed = tuple(allowed)
    if reply.type not in allowed:
        raise InvalidResume(f"{what} allows {', '.join(allowed)}, got {reply.type}")


def _check_approval(interrupt: ApprovalRequest, reply: Decision, call_id: str | None) -> None:
    named = {request.tool_call_id: request for request in interrupt.action_requests}
    request = named.get(call_id or "")
    if request is None:
        raise InvalidResume(f"call {call_id!r} is not open; open are {', '.join(named) or 'none'}")
    allowed = interrupt.review_config(request.tool_name).allowed_decisions
    _expect(reply, allowed, f"call {call_id!r} of tool {request.tool_name!r}")


def _check_answer(question: Question, reply: Decision) -> None:
    if isinstance(reply, Cancel):
        if not question.allow_cancel:
            raise InvalidResume(f"the question {question.question!r} has to be answered")
        return
    if not isinstance(reply, Answer):
        raise InvalidResume(f"a question takes an answer or cancel, got {reply.type}")
    offered = [option.value for option in question.options]
    if unknown := [value for value in reply.selected if value not in offered]:
        raise InvalidResume(
            f"not among the options: {', '.join(map(repr, unknown))}; offered are {offered!r}"
        )
    if len(set(reply.selected)) != len(reply.selected):
        raise InvalidResume("an option was chosen twice")
    _check_amount(question, reply, has_text=bool(reply.other_text))


def _check_amount(question: Question, reply: Answer, *, has_text: bool) -> None:
    if question.response_type == "freeform":
        if not has_text or reply.selected:
            raise InvalidResume("this question takes a text")
        return
    if has_text and not question.allow_other:
        raise InvalidResume("this question takes one of its options, no other text")
    if question.response_type == "single_select":
        if len(reply.selected) > 1 or not (reply.selected or has_text):
            raise InvalidResume(
                f"this question takes exactly one option, got {len(reply.selected)}"
            )
    elif not (reply.selected or has_text):
        raise InvalidResume("this question takes at least one option")
