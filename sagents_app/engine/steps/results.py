"""Steps that look at a batch's results: state changes, and interrupts that tools raised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sagents_app.engine.errors import Misconfigured, StepFailed
from sagents_app.engine.events import TodosChanged
from sagents_app.engine.interrupts import Interrupt, MultipleInterrupts, undecided
from sagents_app.engine.messages import Expansion, Message, ToolResult
from sagents_app.engine.outcomes import Interrupted, Outcome
from sagents_app.engine.state import AgentState, last_batch_index
from sagents_app.engine.tools import material
from sagents_app.engine.turn import Turn, last_batch_results

TOOLS_MAY_CHANGE = frozenset({"todos", "metadata", "sub_agents"})


async def propagate_state(turn: Turn) -> Turn:
    """Apply the state changes of the last batch's results, in call order, each exactly once.

    Messages among them are material for the model's next call, like an expansion. Also looks
    behind user messages that came meanwhile.

    Raises:
        StepFailed: a change that cannot be applied; it is not tried again.
    """
    index = last_batch_index(turn.state.messages)
    if index is None:
        return turn
    tool_message = turn.state.messages[index]
    if not [result for result in tool_message.tool_results if result.state_update]:
        return turn
    state, failure, applied = turn.state, None, []
    for result in tool_message.tool_results:
        messages: tuple[Message, ...] = ()
        try:
            messages = _messages(result)
            state = state.merge(_changes(result))
        except Exception as error:  # noqa: BLE001  # raised below, once the change is marked
            failure = StepFailed(f"tool {result.name!r} made an unusable state change: {error}")
        applied.append(_applied(result, messages))
    before = turn.state.todos
    marked = replace(tool_message, tool_results=tuple(applied))
    turn = await turn.with_state(state).replace_message(index, marked)
    if turn.listening and turn.state.todos != before:
        await turn.emit(TodosChanged(turn.state.todos))
    if failure is not None:
        raise failure
    return turn


def _changes(result: ToolResult) -> dict[str, Any]:
    changes = dict(result.state_update or {})
    changes.pop("messages", None)
    if forbidden := [str(name) for name in changes if name not in TOOLS_MAY_CHANGE]:
        known = ", ".join(sorted({*TOOLS_MAY_CHANGE, "messages"}))
        raise Misconfigured(f"a tool cannot change {', '.join(forbidden)}, only {known}")
    for inner in dict(changes.get("sub_agents", {})).values():
        if inner is not None and not isinstance(inner, AgentState):
            raise Misconfigured(f"a sub-agent's state is an AgentState, got {inner!r:.200}")
    return changes


def _messages(result: ToolResult) -> tuple[Message, ...]:
    given = (result.state_update or {}).get("messages", ())
    return () if given == () or given == [] else material(given)


def _applied(result: ToolResult, messages: tuple[Message, ...]) -> ToolResult:
    """Return the result with its changes marked as applied, and their messages as an expansion."""
    if messages and result.expansion is not None:
        messages = (*result.expansion.messages, *messages)
    kept = None if result.expansion is None else result.expansion.result_content
    expansion = Expansion(messages, kept) if messages else result.expansion
    return replace(result, state_update=None, expansion=expansion)


async def check_tool_interrupts(turn: Turn) -> Turn | Outcome:
    """Stop for what the last batch's tools wait for, in call order."""
    waiting = waiting_for(turn)
    return turn if waiting is None else stop_for(turn, waiting)


def waiting_for(turn: Turn) -> Interrupt | None:
    """Return what the last batch waits for; several interrupts are one, in call order."""
    waiting = [
        result.interrupt
        for result in last_batch_results(turn.state.messages)
        if result.is_interrupt and result.interrupt is not None
    ]
    if not waiting:
        return None
    return waiting[0] if len(waiting) == 1 else MultipleInterrupts(tuple(waiting))


def stop_for(turn: Turn, interrupt: Interrupt) -> Interrupted:
    """Return the outcome of a turn that waits for `interrupt`, less what is decided of it.

    Some decisions about a sub-agent's calls may be in before the rest; they are kept for it.
    """
    if turn.state.decisions:
        interrupt = undecided(interrupt, turn.state.decisions) or interrupt
    return Interrupted(replace(turn.state, interrupt=interrupt), interrupt)
