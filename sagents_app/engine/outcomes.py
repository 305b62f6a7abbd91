"""Outcomes: the five ways in which a turn can end. Each carries the state to go on from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sagents_app.engine.errors import TurnError
from sagents_app.engine.interrupts import Interrupt
from sagents_app.engine.messages import ToolResult
from sagents_app.engine.state import AgentState


@dataclass(frozen=True, slots=True)
class Completed:
    """The model is done. `tool_result` is the demanded tool's, where the caller demanded one."""

    state: AgentState
    tool_result: ToolResult | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A person has to settle `interrupt`, which is on the state too."""

    state: AgentState
    interrupt: Interrupt


@dataclass(frozen=True, slots=True)
class Paused:
    """The host, or a step, asked to stop here; `reason` (JSON, or None) is on the state too."""

    state: AgentState
    reason: Any = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The turn was cancelled; what had finished stands, the rest is answered with the cause."""

    state: AgentState


@dataclass(frozen=True, slots=True)
class Failed:
    """The turn failed; everything that had finished is in the state."""

    state: AgentState
    error: TurnError


Outcome = Completed | Interrupted | Paused | Cancelled | Failed
OUTCOMES = (Completed, Interrupted, Paused, Cancelled, Failed)
