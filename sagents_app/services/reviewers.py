"""Who may settle what: checked against the rule stored with a request and the user as of now."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.utils.translation import gettext as _

from sagents_app.models import Conversation, Interrupt
from sagents_app.models.conversation import tenant_of
from sagents_app.services.errors import NotAllowed


def check_may_decide(row: Interrupt, conversation: Conversation, actor: Any) -> None:
    """Check that the user may decide a request that is for reviewers.

    Raises:
        NotAllowed: says why.
    """
    actor = _as_of_now(actor, conversation)
    if row.kind not in Interrupt.REVIEWED:
        raise NotAllowed(_("This is for the conversation's owner."))
    if actor.pk == conversation.owner_id:
        if not row.owner_may_decide:
            raise NotAllowed(_("You asked for this yourself, so somebody else has to decide."))
        return
    if not actor.has_perm(row.permission):
        raise NotAllowed(_("You may not decide this request."))
    if row.group and not actor.is_superuser and not actor.groups.filter(name=row.group).exists():
        raise NotAllowed(_("You may not decide this request."))


def check_may_answer(row: Interrupt, conversation: Conversation, actor: Any) -> None:
    """Check that the user may answer a question, which is the owner's alone.

    Raises:
        NotAllowed: says why.
    """
    actor = _as_of_now(actor, conversation)
    if row.kind != Interrupt.Kind.QUESTION or conversation.owner_id != actor.pk:
        raise NotAllowed(_("Only the conversation's owner answers its questions."))


def check_may_dismiss(conversation: Conversation, actor: Any) -> None:
    """Check that the user may acknowledge a halt.

    Raises:
        NotAllowed: says why.
    """
    actor = _as_of_now(actor, conversation)
    if conversation.owner_id != actor.pk and not actor.has_perm("sagents_app.operate_conversation"):
        raise NotAllowed(_("Only the conversation's owner dismisses a halt."))


def _as_of_now(actor: Any, conversation: Conversation) -> Any:
    """Return the user as the database has it, not as it was when it logged in."""
    known = get_user_model()._default_manager.filter(pk=actor.pk, is_active=True).first()
    if known is None or tenant_of(known) != conversation.tenant:
        raise NotAllowed(_("You may not decide this request."))
    return known
