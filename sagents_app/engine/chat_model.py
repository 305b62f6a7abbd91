"""The interface of a chat model. Implementations are in `chat_models/`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sagents_app.engine.deltas import Delta
from sagents_app.engine.messages import Message
from sagents_app.engine.tools import Tool


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call. The history is sendable: every tool call has its result right behind it."""

    system: str
    messages: Sequence[Message]
    tools: tuple[Tool, ...] = ()


@runtime_checkable
class ChatModel(Protocol):
    """Anything that answers a request with a stream of deltas."""

    @property
    def name(self) -> str:
        """What errors, usage and pages call the model, for instance `openai:gpt-5`."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply in batches of deltas, ending in a `FinishDelta` or a `ReplyDelta`.

        Closing the iterator closes the provider's stream. A retry inside announces itself as
        `AttemptFailed`.

        Raises:
            ModelError: the call failed and is not made again.
        """
        ...
