"""An agent's state as rows: messages one by one, appended; what is beside them in one row."""

from __future__ import annotations

from collections.abc import Mapping

from sagents_app.engine import AgentState, Message, serialize
from sagents_app.models import AgentMessage, Conversation, SavedState
from sagents_app.services.ledger import Ledger


def load_state(conversation: Conversation) -> AgentState:
    """Return the agent's state from its rows.

    Raises:
        InvalidState: a row cannot be read by this version.
    """
    stored = AgentMessage.objects.filter(conversation=conversation).order_by("position")
    messages = [serialize.load_message(data) for data in stored.values_list("data", flat=True)]
    saved = SavedState.objects.filter(conversation=conversation).values_list("data", flat=True)
    return serialize.load_state(saved.first() or serialize.dump_state(AgentState()), messages)


def save_messages(book: Ledger, messages: Mapping[int, Message]) -> None:
    """Store messages by position: new ones, and those that another result has changed."""
    AgentMessage.objects.bulk_create(
        [
            AgentMessage(
                conversation=book.conversation,
                position=position,
                data=serialize.dump_message(message),
            )
            for position, message in messages.items()
        ],
        update_conflicts=True,
        unique_fields=("conversation", "position"),
        update_fields=("data",),
    )


def save_rest(book: Ledger, state: AgentState) -> None:
    """Store everything of the state but its messages."""
    data = serialize.dump_state(state, with_messages=False)
    SavedState.objects.update_or_create(
        conversation=book.conversation, defaults={"data": data, "version": data["version"]}
    )


def changed_messages(before: AgentState, after: AgentState) -> dict[int, Message]:
    """Return the messages of `after` that `before` has not, by position.

    Compares by identity, from the end back to the first that both share: a service changes the last
    batch or appends, never the history behind it.
    """
    changed: dict[int, Message] = {}
    for position in range(len(after.messages) - 1, -1, -1):
        message = after.messages[position]
        known = before.messages[position] if position < len(before.messages) else None
        if known is message and message.role != "tool":
            break
        if known is not message:
            changed[position] = message
    return dict(sorted(changed.items()))
