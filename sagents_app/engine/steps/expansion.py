"""The step that turns a tool's material into messages."""

from __future__ import annotations

from dataclasses import replace

from sagents_app.engine.messages import ToolResult
from sagents_app.engine.outcomes import Outcome
from sagents_app.engine.state import last_batch_index
from sagents_app.engine.turn import Turn


async def expand_tool_results(turn: Turn) -> Turn | Outcome:
    """Insert the messages that the last batch's results carry, behind all of them, in order.

    Comes first in a round: right before the model call that the tools were promised, and behind
    every step that may end the turn, so that nothing is expanded into a turn that ended. Messages
    that came meanwhile stay last.
    """
    messages = turn.state.messages
    index = last_batch_index(messages)
    if index is None:
        return turn
    tool_message = messages[index]
    material = [
        result
        for result in tool_message.tool_results
        if result.expansion and not result.is_interrupt
    ]
    if not material:
        return turn
    waiting = tuple(messages[index + 1 :])
    inserted = tuple(
        message for result in material if result.expansion for message in result.expansion.messages
    )
    trimmed = replace(
        tool_message, tool_results=tuple(_trimmed(result) for result in tool_message.tool_results)
    )
    turn = await turn.replace_message(index, trimmed)
    for offset, message in enumerate((*inserted, *waiting)):
        at = index + 1 + offset
        turn = await (
            turn.replace_message(at, message) if at < len(messages) else turn.add_message(message)
        )
    return turn


def _trimmed(result: ToolResult) -> ToolResult:
    if result.expansion is None or result.is_interrupt:
        return result
    kept = result.expansion.result_content
    return replace(result, expansion=None, content=result.content if kept is None else kept)
