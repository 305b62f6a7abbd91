"""What can be asked of a message beside its history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesOptions:
    """Options of a call; None leaves the choice to the provider."""

    max_tokens: int = 8192
    """Tokens of a reply, thinking included; the protocol demands a limit."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    thinking: Literal["adaptive", "disabled"] | None = None
    thinking_budget: int | None = None
    """Tokens of thinking, from 1024 up and below `max_tokens`, for models that take a budget."""
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    tool_choice: Literal["auto", "none", "required"] | None = None
    parallel_tool_calls: bool | None = None
    strict_tools: bool = False
    """Demand arguments that fit the schema, of tools whose schema the provider can enforce."""
    cache: Literal["5m", "1h", "off"] = "5m"
    """How long the provider keeps what is sent, to be read at a lower price."""
    citations: bool = False
    """Have the model cite documents; what it cites is part of its text."""
    service_tier: Literal["auto", "standard_only"] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request, as they are."""
