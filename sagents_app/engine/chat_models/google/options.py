"""What can be asked of Gemini beside the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiOptions:
    """Options of a call; None leaves the choice to the provider."""

    max_tokens: int | None = None
    """Tokens of a reply, thinking included."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    thinking_budget: int | None = None
    """Tokens of thinking, 0 for none, -1 for the model's choice; of models before Gemini 3."""
    thinking_level: Literal["minimal", "low", "medium", "high"] | None = None
    """How much to think, from Gemini 3 on."""
    include_thoughts: bool | None = None
    """Whether summaries of the thoughts are streamed."""
    tool_choice: Literal["auto", "none", "required"] | None = None
    response_format: Mapping[str, Any] | None = None
    """A JSON Schema that the reply, as JSON, fits."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request, as they are."""
