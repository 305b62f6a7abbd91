"""From the engine's messages to transcript rows, and from results to a tool row's progress."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sagents_app.engine import Halt, Message, TextPart, ThinkingPart, ToolCall, ToolResult
from sagents_app.engine.errors import TurnError
from sagents_app.engine.tools import humanized
from sagents_app.models import DisplayMessage

Author, Kind, Status = DisplayMessage.Author, DisplayMessage.Kind, DisplayMessage.Status
CANCELLED = "The agent was stopped."
SORRY = "Sorry, something went wrong: {words}"
OWN_WORDS = ("turn_error", "unknown_agent", "until_tool_not_called", "exceeded_")
"""Codes, or their beginnings, of errors whose texts are of our making and fit for anybody."""
WORDS = {
    "rate_limited": "the model is asked too often right now. Try again in a moment.",
    "overloaded": "the model has too much to do right now. Try again in a moment.",
    "timeout": "the model did not answer in time. Try again.",
    "connection_failed": "the model cannot be reached.",
    "stream_error": "the connection to the model broke. Try again.",
    "context_too_long": "this conversation has become too long for the model.",
    "content_filtered": "the model's provider refuses this content.",
    "models_exhausted": "none of the models could answer.",
}
UNTOLD = "the agent could not go on. The people who run this site can see why."


def rows_of(message: Message, labels: dict[str, str]) -> Iterator[DisplayMessage]:
    """Yield the rows of an assistant message: thinking, text and calls, in that order.

    Only the last row carries how an unfinished message stopped. `labels` are by tool name.
    """
    rows = [
        *(
            _row(Author.ASSISTANT, Kind.THINKING, text=part.text)
            for part in message.content
            if isinstance(part, ThinkingPart) and part.text
        ),
        *(
            _row(Author.ASSISTANT, Kind.TEXT, text=part.text)
            for part in message.content
            if isinstance(part, TextPart) and part.text.strip()
        ),
        *(_call_row(call, labels) for call in message.tool_calls),
    ]
    if rows and message.status != "complete":
        rows[-1].content["stop_reason"] = message.status
        if message.stop_details is not None:
            rows[-1].content["stop_details"] = dict(message.stop_details)
    yield from rows


def _row(author: str, kind: str, **content: Any) -> DisplayMessage:
    return DisplayMessage(message_type=author, content_type=kind, content=content)


def _call_row(call: ToolCall, labels: dict[str, str]) -> DisplayMessage:
    row = _row(
        Author.ASSISTANT,
        Kind.TOOL_CALL,
        call_id=call.call_id,
        name=call.name,
        arguments=call.arguments,
        display_text=labels.get(call.name) or humanized(call.name),
    )
    row.tool_call_id = call.call_id
    row.status = Status.PENDING
    return row


def result_row(result: ToolResult) -> DisplayMessage:
    """Return the row of what a call brought; a placeholder has none until it is settled."""
    row = _row(
        Author.TOOL,
        Kind.TOOL_RESULT,
        tool_call_id=result.tool_call_id,
        name=result.name,
        content=result.text,
        is_error=result.is_error,
    )
    row.tool_call_id = result.tool_call_id
    return row


def user_row(text: str) -> DisplayMessage:
    """Return the row of a person's message."""
    return _row(Author.USER, Kind.TEXT, text=text)


def halt_row(halt: Halt) -> DisplayMessage:
    """Return the row of a halt's message, in the assistant's place."""
    source = halt.source_tool or halt.source or ""
    row = _row(Author.ASSISTANT, Kind.HALT, text=halt.message, source=source)
    row.tool_call_id = halt.tool_call_id or ""
    return row


def cancel_row() -> DisplayMessage:
    """Return the row that says that a person stopped the agent."""
    return _row(Author.SYSTEM, Kind.NOTIFICATION, text=CANCELLED, stop_reason="cancelled")


def notification_row(text: str) -> DisplayMessage:
    """Return the row of something that the product says, in nobody's name."""
    return _row(Author.SYSTEM, Kind.NOTIFICATION, text=text)


def error_row(error: TurnError) -> DisplayMessage:
    """Return the row that says what went wrong."""
    text = SORRY.format(words=words_for(error))
    return _row(Author.SYSTEM, Kind.ERROR, text=text, error_type=error.type)


def words_for(error: TurnError) -> str:
    """Return what anybody may read of an error; a provider's or a host's own words are no part."""
    if error.type.startswith(OWN_WORDS):
        return str(error)
    return WORDS.get(error.type, UNTOLD)


def partial_row(text: str) -> DisplayMessage:
    """Return the row of a reply whose worker died while it was streaming."""
    return _row(Author.ASSISTANT, Kind.TEXT, text=text, stop_reason="stream_error")


def status_of(result: ToolResult) -> str:
    """Return where a tool row stands once its call has this result."""
    if result.is_interrupt:
        return Status.INTERRUPTED
    if result.decision in ("reject", "cancel"):
        return Status.CANCELLED
    return Status.FAILED if result.is_error else Status.COMPLETED


def to_text(row: DisplayMessage) -> str:
    """Return a row as plain text, for search and export."""
    content = row.content
    match row.content_type:
        case Kind.TOOL_CALL:
            return f"{content.get('name', '')} {json.dumps(content.get('arguments', {}))}"
        case Kind.TOOL_RESULT:
            return str(content.get("content", ""))
        case _:
            return str(content.get("text", ""))
