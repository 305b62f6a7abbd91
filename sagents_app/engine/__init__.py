"""The engine: a Django-free library for agents that people oversee.

An agent is configuration, a state is data, an outcome says how a turn ended.
"""

from sagents_app.engine import extraction, modes, session, steps, trajectory
from sagents_app.engine.agent import Agent
from sagents_app.engine.chat_model import ChatModel, ModelRequest
from sagents_app.engine.chat_models.scripted import FunctionModel, ScriptedModel
from sagents_app.engine.decisions import (
    Answer,
    Approve,
    Cancel,
    Decision,
    Edit,
    Reject,
    Respond,
    check_reply,
)
from sagents_app.engine.errors import (
    BudgetExceeded,
    EngineError,
    InvalidArguments,
    InvalidExpansion,
    InvalidResume,
    InvalidState,
    Misconfigured,
    ModelError,
    NoAnswer,
    ToolError,
    TurnError,
)
from sagents_app.engine.extraction import extract
from sagents_app.engine.history import History
from sagents_app.engine.interrupts import (
    ActionRequest,
    ApprovalRequest,
    BudgetRequest,
    Halt,
    Interrupt,
    MultipleInterrupts,
    Question,
    QuestionOption,
    ReviewConfig,
    SubAgentInterrupt,
    UnknownInterrupt,
    UnknownOutcome,
)
from sagents_app.engine.messages import (
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)
from sagents_app.engine.middleware import Middleware
from sagents_app.engine.outcomes import Cancelled, Completed, Failed, Interrupted, Outcome, Paused
from sagents_app.engine.state import AgentState, interrupt_restorable
from sagents_app.engine.todos import Todo
from sagents_app.engine.tools import Tool, ToolContext, ToolOutput, expand, tool
from sagents_app.engine.turn import Journal, Turn
from sagents_app.engine.usage import TokenUsage

__all__ = [
    "ActionRequest",
    "Agent",
    "AgentState",
    "Answer",
    "ApprovalRequest",
    "Approve",
    "BudgetExceeded",
    "BudgetRequest",
    "Cancel",
    "Cancelled",
    "ChatModel",
    "Completed",
    "Decision",
    "Edit",
    "EngineError",
    "Failed",
    "FilePart",
    "FunctionModel",
    "Halt",
    "History",
    "ImagePart",
    "Interrupt",
    "Interrupted",
    "InvalidArguments",
    "InvalidExpansion",
    "InvalidResume",
    "InvalidState",
    "Journal",
    "Message",
    "Middleware",
    "Misconfigured",
    "ModelError",
    "ModelRequest",
    "MultipleInterrupts",
    "NoAnswer",
    "Outcome",
    "Paused",
    "Question",
    "QuestionOption",
    "Reject",
    "Respond",
    "ReviewConfig",
    "ScriptedModel",
    "SubAgentInterrupt",
    "TextPart",
    "ThinkingPart",
    "Todo",
    "TokenUsage",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolOutput",
    "ToolResult",
    "Turn",
    "TurnError",
    "UnknownInterrupt",
    "UnknownOutcome",
    "check_reply",
    "expand",
    "extract",
    "extraction",
    "interrupt_restorable",
    "modes",
    "session",
    "steps",
    "tool",
    "trajectory",
]
