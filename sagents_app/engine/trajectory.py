"""The trajectory of a conversation: which tools were called, in which order, and what came of it.

For tests and evaluations of agents:

    assert trajectory.names(outcome) == ("search", "refund")
    assert trajectory.read(outcome)[-1].arguments == {"order_id": "A1"}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sagents_app.engine.messages import Message, ToolCall, ToolResult
from sagents_app.engine.outcomes import Outcome
from sagents_app.engine.state import AgentState


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One tool call and what became of it."""

    call: ToolCall
    result: ToolResult | None
    """None: the call has no result yet."""
    turn: int
    """Which turn it belongs to, from 0: how many messages of a user's came in rows before it."""
    round: int
    """Which of its turn's replies made it, from 0; calls of one round were made together."""

    @property
    def name(self) -> str:
        """The tool's name, as the model sent it."""
        return self.call.name

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that the model sent, parsed; a reviewer's edit does not change them."""
        return self.call.arguments

    @property
    def text(self) -> str | None:
        """What the model reads as the result, None where there is none yet."""
        return None if self.result is None else self.result.text

    @property
    def is_error(self) -> bool:
        """Whether the result is an error."""
        return self.result is not None and self.result.is_error

    @property
    def is_waiting(self) -> bool:
        """Whether the call has no result of its own yet: it is open, or waits for a person."""
        return self.result is None or self.result.is_interrupt

    @property
    def decision(self) -> str | None:
        """How a person settled the call (approve, edit, …), None where nobody was asked."""
        return None if self.result is None else self.result.decision


def read(source: Outcome | AgentState | Sequence[Message]) -> tuple[Visit, ...]:
    """Return every tool call of an outcome, a state or a history, in the order they were made."""
    messages = _messages(source)
    results = {
        result.tool_call_id: result for message in messages for result in message.tool_results
    }
    visits: list[Visit] = []
    turn, round_, last_role = -1, -1, ""
    for message in messages:
        if message.role == "user" and last_role != "user":
            turn, round_ = turn + 1, -1
        elif message.role == "assistant":
            round_ += 1
            visits.extend(
                Visit(call=call, result=results.get(call.call_id), turn=max(turn, 0), round=round_)
                for call in message.tool_calls
            )
        last_role = message.role
    return tuple(visits)


def names(source: Outcome | AgentState | Sequence[Message]) -> tuple[str, ...]:
    """Return the names of the tools that were called, in order."""
    return tuple(visit.name for visit in read(source))


def _messages(source: Outcome | AgentState | Sequence[Message]) -> Sequence[Message]:
    if isinstance(source, AgentState):
        return source.messages
    return source if isinstance(source, Sequence) else source.state.messages
