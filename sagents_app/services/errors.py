"""What a service refuses, and why: one tree, whose leaves name the fact.

ServiceError
├── UnknownAgent         no installed app registers the name
├── NotAllowed           the user may not do this
├── MessageRejected      an empty or oversized message
├── ConversationBusy     somebody drives the conversation right now
├── NothingToDo          the conversation is not in a state for this
├── InvalidDecision      the decision does not fit the request
├── DecisionMismatch     what was decided is not what is open: another digest
└── AlreadyDecided       somebody was faster, or the request is closed
"""

from __future__ import annotations


class ServiceError(Exception):
    """Base of all refusals; `code` is stable, the text is for the person."""

    code = "refused"


class UnknownAgent(ServiceError):
    """No installed app registers the name."""

    code = "unknown_agent"


class NotAllowed(ServiceError):
    """The user may not do this."""

    code = "not_allowed"


class MessageRejected(ServiceError):
    """An empty or oversized message."""

    code = "message_rejected"


class ConversationBusy(ServiceError):
    """Somebody drives the conversation right now."""

    code = "conversation_busy"


class NothingToDo(ServiceError):
    """The conversation is not in a state for this; the text names it."""

    code = "nothing_to_do"


class InvalidDecision(ServiceError):
    """The decision does not fit the request; the text says what would."""

    code = "invalid_decision"


class DecisionMismatch(ServiceError):
    """What was decided is not what is open: it came with another digest."""

    code = "decision_mismatch"


class AlreadyDecided(ServiceError):
    """Somebody was faster, or the request is closed; the text says who and when."""

    code = "already_decided"


class LeaseLost(Exception):
    """Somebody else drives the conversation now; whoever gets this writes nothing more."""
