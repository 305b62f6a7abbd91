"""Steps that decide whether a turn goes on: pause, demanded tool, another round."""

from __future__ import annotations

from dataclasses import replace

from sagents_app.engine.errors import UntilToolNotCalled
from sagents_app.engine.outcomes import Completed, Failed, Outcome, Paused
from sagents_app.engine.state import AgentState, open_calls
from sagents_app.engine.steps.results import stop_for, waiting_for
from sagents_app.engine.turn import Turn, last_batch_results

ANSWERED_BY_PERSON = ("reject", "respond", "cancel")
NOT_THE_TOOLS_OWN = (*ANSWERED_BY_PERSON, "repeated")


async def check_pause(turn: Turn) -> Turn | Outcome:
    """Pause where the host asks for it, unless the last reply ends the turn anyway."""
    if turn.options.should_pause is None:
        return turn
    reason = turn.options.should_pause()
    if reason is False or reason is None or not needs_response(turn.state):
        return turn
    cause = None if reason is True else reason
    return Paused(replace(turn.state, pause_reason=cause), cause)


async def check_until_tool(turn: Turn) -> Turn | Outcome:
    """End the turn once a demanded tool has its own result.

    A person's word does not count, nor does the answer to a call of a reply that was cut off.
    """
    if not turn.options.until_tool:
        return turn
    batch = open_calls(turn.state.messages)
    if batch is None or batch[1].status != "complete":
        return turn
    for result in last_batch_results(turn.state.messages):
        wanted = result.name in turn.options.until_tool and result.decision not in NOT_THE_TOOLS_OWN
        if (
            wanted
            and not result.is_interrupt
            and not (turn.options.require_tool_success and result.is_error)
        ):
            return Completed(ended(turn.state), result)
    return turn


async def continue_or_done(turn: Turn) -> Turn | Outcome:
    """Go another round where the model has something to answer; otherwise complete the turn.

    A batch that waits for a person stops the turn here at the latest, whatever the mode.
    """
    if needs_response(turn.state):
        waiting = waiting_for(turn)
        return turn if waiting is None else stop_for(turn, waiting)
    names = turn.options.until_tool
    if names:
        error = UntilToolNotCalled(
            f"the model stopped without calling {' or '.join(names)}", names=names
        )
        return Failed(ended(turn.state), error)
    return Completed(ended(turn.state))


def needs_response(state: AgentState) -> bool:
    """Whether the history waits: for calls to run, or for results or words to be answered."""
    last = state.messages[-1]
    batch = open_calls(state.messages)
    if batch is not None:
        return batch[1].status == "complete"
    return last.role != "assistant"


def ended(state: AgentState) -> AgentState:
    """Return the state between two turns: nothing is counted, decided or waited for."""
    return AgentState(state.messages, state.todos, state.metadata)
