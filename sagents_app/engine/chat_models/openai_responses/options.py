"""What can be asked of a response beside its history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesOptions:
    """Options of a call; None leaves the choice to the provider."""

    max_tokens: int | None = None
    """Tokens of a reply, reasoning included."""
    temperature: float | None = None
    top_p: float | None = None
    reasoning_effort: str | None = None
    reasoning_summary: Literal["auto", "concise", "detailed"] | None = None
    """Have summaries of the reasoning streamed."""
    encrypted_thinking: bool | None = None
    """Ask for the reasoning itself, encrypted, to give it back; None: of models that reason."""
    verbosity: Literal["low", "medium", "high"] | None = None
    service_tier: str | None = None
    tool_choice: Literal["auto", "none", "required"] | None = None
    parallel_tool_calls: bool | None = None
    strict_tools: bool = False
    """Demand arguments that fit the schema, of tools whose schema the provider can enforce."""
    response_format: Mapping[str, Any] | None = None
    """The protocol's `text.format`."""
    store: bool = False
    """Whether the provider keeps the response; nothing here relies on it."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request, as they are."""
