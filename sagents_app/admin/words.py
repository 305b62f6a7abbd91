"""What the review pages say: kinds, decisions, outcomes and refusals in words. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils import formats, timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from sagents_app import hidden_characters
from sagents_app.models import Conversation, DisplayMessage, Interrupt

Words = str | Promise


@dataclass(frozen=True, slots=True, kw_only=True)
class Buttons:
    """What each decision's button says."""

    approve: Words
    reject: Words
    respond: Words


USUAL = Buttons(
    approve=gettext_lazy("Approve"),
    reject=gettext_lazy("Reject"),
    respond=gettext_lazy("Answer in the tool's place"),
)
BUTTONS = {
    "unknown_outcome": Buttons(
        approve=gettext_lazy("Run it again"),
        reject=gettext_lazy("It was not done"),
        respond=gettext_lazy("It was done, with this result"),
    ),
    "budget": Buttons(
        approve=gettext_lazy("Let it go on"),
        reject=gettext_lazy("Stop here"),
        respond=USUAL.respond,
    ),
}
DECISIONS: dict[str, Words] = {
    "approve": gettext_lazy("Approve"),
    "edit": gettext_lazy("Approve with changes"),
    "reject": gettext_lazy("Reject"),
    "respond": gettext_lazy("Answer in the tool's place"),
    "answer": gettext_lazy("Answer"),
    "cancel": gettext_lazy("Cancel"),
}
REFUSALS: dict[str, Words] = {
    "not_allowed": gettext_lazy("refused: may not decide it"),
    "already_decided": gettext_lazy("refused: it was decided already"),
    "decision_mismatch": gettext_lazy("refused: something else was shown"),
    "invalid_decision": gettext_lazy("refused: does not fit the request"),
}


def buttons(kind: str) -> Buttons:
    """Return what the buttons say for requests of a kind."""
    return BUTTONS.get(kind, USUAL)


def agent_path(interrupt: Interrupt) -> str:
    """Return the names of the agents from the outermost to the one that asks."""
    return " → ".join(map(str, interrupt.path)) or interrupt.conversation.agent_name


def decision(type_name: str) -> str:
    """Return a decision in words."""
    return str(DECISIONS.get(type_name, type_name or _("Something unreadable")))


def refusal(cause: str) -> str:
    """Return why a try was refused."""
    return str(REFUSALS.get(cause, _("refused: %(cause)s") % {"cause": cause}))


def sentence(interrupt: Interrupt) -> str:
    """Return the request in a sentence."""
    told = {
        "agent": interrupt.conversation.agent_name,
        "action": hidden_characters.escape(str(interrupt)),
    }
    match interrupt.kind:
        case Interrupt.Kind.APPROVAL:
            return _("%(agent)s wants to run: %(action)s") % told
        case Interrupt.Kind.UNKNOWN_OUTCOME:
            return _("Was it done? %(action)s") % told
        case Interrupt.Kind.BUDGET:
            return _("%(agent)s has used up its budget") % told
        case _:
            return _("%(agent)s waits for something that this version does not know") % told


def outcome(interrupt: Interrupt) -> str:
    """Return what became of a request, who decided it and when."""
    if interrupt.is_pending:
        return _("It still waits, and is not yours to decide.")
    status = interrupt.get_status_display().capitalize()
    told = {"status": status, "when": "", "who": ""}
    if interrupt.decided_at is None:
        return _("%(status)s.") % told
    told["when"] = formats.date_format(timezone.localtime(interrupt.decided_at), "DATETIME_FORMAT")
    if interrupt.decided_by is None:
        return _("%(status)s at %(when)s") % told
    told["who"] = interrupt.decided_by.get_username()
    return _("%(status)s by %(who)s at %(when)s") % told


def author(row: DisplayMessage, conversation: Conversation) -> str:
    """Return whose words a transcript row holds."""
    match row.message_type:
        case DisplayMessage.Author.USER:
            return conversation.owner.get_username()
        case DisplayMessage.Author.ASSISTANT:
            if row.content_type == DisplayMessage.Kind.TOOL_CALL:
                return _("%(agent)s calls a tool") % {"agent": conversation.agent_name}
            if row.content_type == DisplayMessage.Kind.HALT:
                return _("%(agent)s stops here") % {"agent": conversation.agent_name}
            return _("%(agent)s (agent)") % {"agent": conversation.agent_name}
        case DisplayMessage.Author.TOOL:
            return _("tool %(name)s") % {"name": row.content.get("name", "")}
        case _:
            return _("this site")
