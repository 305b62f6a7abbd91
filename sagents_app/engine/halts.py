"""Telemetry of halts: one log record for each, when it happens and never when it is shown again."""

from __future__ import annotations

import logging

from sagents_app.engine.interrupts import Halt, Interrupt, leaves
from sagents_app.engine.state import AgentState
from sagents_app.engine.turn import last_batch_results

logger = logging.getLogger("sagents.halt")


def report(agent_name: str, before: AgentState, interrupt: Interrupt) -> None:
    """Log the halts of `interrupt` that the state did not hold `before` the drive.

    Each record has the extra fields `agent`, `source`, `source_task`, `call_id` and `halt_message`.
    """
    for halt in _halts(interrupt):
        if halt in _known(before):
            continue
        source = halt.source_tool or halt.source or ""
        logger.warning(
            "agent %r was halted by %s",
            agent_name,
            source or "a hook",
            extra={
                "agent": agent_name,
                "source": source,
                "source_task": halt.source_task,
                "call_id": halt.tool_call_id,
                "halt_message": halt.message,
            },
        )


def _known(before: AgentState) -> list[Halt]:
    stood = [result.interrupt for result in last_batch_results(before.messages)]
    return [halt for interrupt in stood if interrupt is not None for halt in _halts(interrupt)]


def _halts(interrupt: Interrupt) -> list[Halt]:
    return [leaf for leaf in leaves(interrupt) if isinstance(leaf, Halt)]
