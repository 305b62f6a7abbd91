"""Events: what happens while a turn runs, told in order. A closed set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sagents_app.engine.deltas import Delta
from sagents_app.engine.errors import ModelError
from sagents_app.engine.messages import Message, ToolCall, ToolResult
from sagents_app.engine.todos import Todo
from sagents_app.engine.usage import TokenUsage


@dataclass(frozen=True, slots=True)
class MessageAdded:
    """A message was appended to the history."""

    message: Message


@dataclass(frozen=True, slots=True)
class MessageReplaced:
    """The message at `index` (from 0) is another one now."""

    index: int
    message: Message


@dataclass(frozen=True, slots=True)
class Deltas:
    """Deltas of the reply that is streaming, in order."""

    items: tuple[Delta, ...]


@dataclass(frozen=True, slots=True)
class ToolCallSeen:
    """A tool's name appeared in the stream; `call_id` is the provider's and may be missing."""

    name: str
    index: int
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool begins to run, with the arguments that it really gets."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A call has its result: the tool's own, an error, a placeholder or a person's word."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class UsageReported:
    """The tokens of one finished model call."""

    usage: TokenUsage
    model: str


@dataclass(frozen=True, slots=True)
class CallFailed:
    """One model call failed; a retry, a fallback or the turn's end follows."""

    model: str
    error: ModelError


@dataclass(frozen=True, slots=True)
class ReplyRestarted:
    """The reply starts over: the deltas shown so far are void."""


@dataclass(frozen=True, slots=True)
class TodosChanged:
    """The plan is another one now."""

    todos: tuple[Todo, ...]


@dataclass(frozen=True, slots=True)
class Custom:
    """An event of a middleware's or a tool's own; `data` is JSON."""

    name: str
    data: Any = field(default=None)


Event = (
    MessageAdded
    | MessageReplaced
    | Deltas
    | ToolCallSeen
    | ToolStarted
    | ToolFinished
    | UsageReported
    | CallFailed
    | ReplyRestarted
    | TodosChanged
    | Custom
)
