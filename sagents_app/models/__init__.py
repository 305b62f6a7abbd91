"""The rows. Reads are words of their QuerySets; writes are the services' alone."""

from sagents_app.models.conversation import AgentMessage, Conversation, SavedState
from sagents_app.models.display_message import DisplayMessage
from sagents_app.models.event import Event
from sagents_app.models.inbox import InboxMessage
from sagents_app.models.interrupt import Interrupt, InterruptDecision
from sagents_app.models.run import Run, Sweep, ToolExecution

__all__ = [
    "AgentMessage",
    "Conversation",
    "DisplayMessage",
    "Event",
    "InboxMessage",
    "Interrupt",
    "InterruptDecision",
    "Run",
    "SavedState",
    "Sweep",
    "ToolExecution",
]
