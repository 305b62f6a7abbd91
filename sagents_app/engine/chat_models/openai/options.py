"""What can be asked of a chat completion beside its history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Options of a call; None leaves the choice to the provider."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    """Tokens of a reply, reasoning included."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    """What the server calls that; None: `max_completion_tokens` at OpenAI, else `max_tokens`."""
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    tool_choice: Literal["auto", "none", "required"] | None = None
    parallel_tool_calls: bool | None = None
    strict_tools: bool = False
    """Demand arguments that fit the schema, of tools whose schema the provider can enforce."""
    response_format: Mapping[str, Any] | None = None
    stream_usage: bool = True
    """Ask for the usage of a streamed reply; a few servers refuse the question."""
    send_thinking: bool = False
    """Give the model its own reasoning of the running turn back, as `reasoning_content`."""
    later_system_role: Literal["system", "developer", "user"] = "system"
    """The role of a system message that is not the first; some templates allow one only."""
    call_id_length: int | None = None
    """Exact length of call ids, letters and digits only; Mistral demands 9."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request, as they are."""
