"""Steps that look at a batch's results: state changes, and interrupts that tools raised."""

from __future__ import annotations

from dataclasses import replace

from sagents_app.engine.errors import EngineError, StepFailed
from sagents_app.engine.events import TodosChanged
from sagents_app.engine.interrupts import Interrupt, MultipleInterrupts
from sagents_app.engine.outcomes import Interrupted, Outcome
from sagents_app.engine.turn import Turn, last_batch_results


async def propagate_state(turn: Turn) -> Turn | Outcome:
    """Apply the state changes of the last batch's results, in call order, each exactly once."""
    if not any(result.state_update for result in last_batch_results(turn.state.messages)):
        return turn
    tool_message = turn.state.messages[-1]
    before = turn.state.todos
    for result in tool_message.tool_results:
        if result.state_update:
            try:
                turn = turn.with_state(turn.state.merge(result.state_update))
            except (EngineError, TypeError) as error:
                raise StepFailed(
                    f"tool {result.name!r} returned an unusable state change: {error}"
                ) from error
    applied = tuple(replace(result, state_update=None) for result in tool_message.tool_results)
    turn = await turn.replace_message(
        len(turn.state.messages) - 1, replace(tool_message, tool_results=applied)
    )
    if turn.listening and turn.state.todos != before:
        await turn.emit(TodosChanged(turn.state.todos))
    return turn


async def check_tool_interrupts(turn: Turn) -> Turn | Outcome:
    """Stop for what the last batch's tools wait for, in call order."""
    waiting = [
        result.interrupt
        for result in last_batch_results(turn.state.messages)
        if result.is_interrupt
    ]
    waiting_for = tuple(interrupt for interrupt in waiting if interrupt is not None)
    if not waiting_for:
        return turn
    return stop_for(
        turn, waiting_for[0] if len(waiting_for) == 1 else MultipleInterrupts(waiting_for)
    )


def stop_for(turn: Turn, interrupt: Interrupt) -> Interrupted:
    """Return the outcome of a turn that waits for `interrupt`."""
    return Interrupted(replace(turn.state, interrupt=interrupt), interrupt)
