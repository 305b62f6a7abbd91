"""Haltable: tools that may end the workflow, and halts that survive a restart.

A halt is terminal. Nothing resumes it: the user's next message starts a new turn, in which the
halted call is an error result that keeps the reason. A tool halts by returning `Halt(message)`,
with or without this middleware; the middleware is what claims the halt after a cold start.
"""

from __future__ import annotations

from sagents_app.engine.interrupts import Halt, Interrupt, MultipleInterrupts, has_halt
from sagents_app.engine.middleware import Middleware


class Haltable(Middleware):
    """Claims halts, and every batch with a halt in it, since the halt ends the whole batch."""

    def restorable_interrupt(self, interrupt: Interrupt) -> bool:
        """Claim a halt, or a batch that holds one."""
        return isinstance(interrupt, Halt) or (
            isinstance(interrupt, MultipleInterrupts) and has_halt(interrupt)
        )
