"""Conversations and what people say in them: durable when the call returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import IntegrityError
from django.utils.translation import gettext as _

from sagents_app import conf
from sagents_app.engine import canonical
from sagents_app.models import Conversation, DisplayMessage, InboxMessage, Interrupt, Run
from sagents_app.models.conversation import tenant_of
from sagents_app.services import agents, display, interrupts, queue
from sagents_app.services import ledger as ledgers
from sagents_app.services.errors import MessageRejected, NotAllowed, NothingToDo
from sagents_app.services.ledger import Ledger

TITLE_LENGTH = 60


def create_conversation(*, agent: str, owner: Any, title: str = "") -> Conversation:
    """Create an idle conversation of `owner` with the agent of that name.

    Raises:
        UnknownAgent: no installed app registers it.
    """
    registration = agents.get(agent)
    return Conversation.objects.create(
        owner=owner,
        tenant=tenant_of(owner),
        agent_name=registration.name,
        agent_version=registration.version,
        title=title[:255],
    )


def post_message(
    *,
    conversation: Conversation,
    text: str,
    actor: Any,
    attachments: Sequence[Any] = (),
    client_id: str | None = None,
) -> InboxMessage:
    """Accept a message of the owner's: it is a row, and a run is on its way, when this returns.

    While a run is live or an approval is open the message waits, visible, in the inbox. It answers
    an open question that takes a text. A repeated `client_id` (1 to 64 characters) returns the
    first row.

    Raises:
        NotAllowed: the actor is not the owner.
        MessageRejected: an empty text, one beyond `SAGENTS_MAX_MESSAGE_CHARS`, or an attachment.
    """
    if conversation.owner_id != actor.pk:
        raise NotAllowed(_("Only its owner may write in a conversation."))
    text = _checked(text)
    if attachments:
        raise MessageRejected(_("Attachments are not taken."))
    if client_id is not None and not 1 <= len(client_id) <= 64:
        raise MessageRejected(_("A message's client id has 1 to 64 characters."))
    try:
        with ledgers.write(conversation.pk) as book:
            repeated = _repeated(conversation, client_id)
            return repeated or _accept(book, text, actor, client_id)
    except IntegrityError:
        if (repeated := _repeated(conversation, client_id)) is not None:
            return repeated
        raise


def withdraw_message(*, message: InboxMessage, actor: Any) -> None:
    """Take a queued message back, before the model has it.

    Raises:
        NotAllowed: the actor is not the owner.
        NothingToDo: the model has it already, or it was withdrawn.
    """
    if message.conversation.owner_id != actor.pk:
        raise NotAllowed(_("Only its owner may write in a conversation."))
    with ledgers.write(message.conversation_id) as book:
        queued = InboxMessage.objects.filter(pk=message.pk, status=InboxMessage.Status.QUEUED)
        if not queued.update(status=InboxMessage.Status.WITHDRAWN):
            raise NothingToDo(_("The agent has this message already."))
        row = message.display_message
        row.refresh_from_db()
        book.update_row(row, status=DisplayMessage.Status.WITHDRAWN)


def rename_conversation(*, conversation: Conversation, title: str, actor: Any) -> None:
    """Give the conversation another title.

    Raises:
        NotAllowed: the actor is not the owner.
        MessageRejected: the title is empty or longer than 255 characters.
    """
    if conversation.owner_id != actor.pk:
        raise NotAllowed(_("Only its owner may rename a conversation."))
    title = canonical.clean_text(title).strip()
    if not 1 <= len(title) <= 255:
        raise MessageRejected(_("A title has 1 to 255 characters."))
    with ledgers.write(conversation.pk) as book:
        book.conversation.title = title
        book.event("title_changed", {"title": title})


def delete_conversation(*, conversation: Conversation, actor: Any) -> None:
    """Delete a conversation and everything in it; a worker that drives it stops by itself.

    Raises:
        NotAllowed: neither the owner nor an operator.
    """
    may = conversation.owner_id == actor.pk or actor.has_perm("sagents_app.delete_conversation")
    if not may:
        raise NotAllowed(_("Only its owner may delete a conversation."))
    with ledgers.writing():
        Conversation.objects.filter(pk=conversation.pk).delete()


def _checked(text: str) -> str:
    text = canonical.clean_text(text)
    if not text.strip():
        raise MessageRejected(_("Write something first."))
    most = conf.current().max_message_chars
    if len(text) > most:
        problem = _("This message has %(length)s characters; at most %(most)s are taken.")
        raise MessageRejected(problem % {"length": len(text), "most": most})
    return text


def _repeated(conversation: Conversation, client_id: str | None) -> InboxMessage | None:
    if client_id is None:
        return None
    return InboxMessage.objects.filter(conversation=conversation, client_id=client_id).first()


def _accept(book: Ledger, text: str, actor: Any, client_id: str | None) -> InboxMessage:
    conversation = book.conversation
    if not conversation.title:
        conversation.title = text.strip().splitlines()[0][:TITLE_LENGTH]
        book.event("title_changed", {"title": conversation.title})
    held = _is_held(conversation)
    row = display.user_row(text)
    row.status = DisplayMessage.Status.QUEUED if held else DisplayMessage.Status.COMPLETED
    book.show(row)
    answered = not held and interrupts.answer_with_text(book, text, actor)
    message = InboxMessage.objects.create(
        conversation=conversation,
        display_message_id=row.pk,
        author=actor,
        client_id=client_id,
        text=text,
        status=InboxMessage.Status.DELIVERED if answered else InboxMessage.Status.QUEUED,
    )
    conversation.automatic_runs = 0
    if held:
        book.event("message_queued", {"message": str(row.pk), "inbox": str(message.pk)})
    elif not answered:
        paused = conversation.status == Conversation.Status.PAUSED
        trigger = Run.Trigger.RESUME if paused else Run.Trigger.MESSAGE
        interrupts.supersede_pending(book)
        queue.start_run(book, trigger=trigger, actor=actor)
    return message


def _is_held(conversation: Conversation) -> bool:
    """Whether a live run takes the message at its boundary, or an approval holds it."""
    if Run.objects.live().filter(conversation=conversation).exists():
        return True
    waiting = Interrupt.objects.filter(conversation=conversation).pending()
    halted = waiting.filter(kind=Interrupt.Kind.HALT).exists()
    return not halted and waiting.reviewed().exists()
