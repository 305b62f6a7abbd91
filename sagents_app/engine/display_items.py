"""What a page shows of a message: one item a text, thought, call and result, in order.

Pure: no rows, no templates. An item's `content` is JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sagents_app.engine.messages import (
    Message,
    Role,
    Status,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)
from sagents_app.engine.tools import Tool

ItemType = Literal["text", "thinking", "tool_call", "tool_result"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayItem:
    """One thing to show.

    `content` holds, by type: text and thinking `text`; tool_call `call_id`, `name`, `arguments`,
    `display_text`; tool_result `tool_call_id`, `name`, `content`, `is_error`, `is_interrupt`. The
    last item of a message that did not end well also has `stop_reason` and, where the provider
    gave them, `stop_details`.
    """

    type: ItemType
    message_type: Role
    """The role of the message that the item is of."""
    content: Mapping[str, Any]


def display_items(
    message: Message, tools: Mapping[str, Tool] | None = None
) -> tuple[DisplayItem, ...]:
    """Return what is to be shown of `message`; `tools`, by name, say what calls are called."""
    items = tuple(_items(message, tools or {}))
    reason = stop_reason(message)
    if not items or reason is None:
        return items
    ended: dict[str, Any] = {"stop_reason": reason}
    details = stop_details(message)
    if details is not None:
        ended["stop_details"] = details
    return (*items[:-1], replace(items[-1], content={**items[-1].content, **ended}))


def stop_reason(message: Message) -> Status | None:
    """Return how a message that did not end well ended, None for one that did."""
    if message.status == "cancelled" and message.stream_failure is not None:
        return "stream_error"
    return None if message.status == "complete" else message.status


def stop_details(message: Message) -> dict[str, Any] | None:
    """Return the provider's own account of why it stopped, if it gave one as a mapping."""
    details: Any = message.stop_details
    return dict(details) if isinstance(details, Mapping) else None


def _items(message: Message, tools: Mapping[str, Tool]) -> Iterator[DisplayItem]:
    role = message.role
    for part in message.content:
        if isinstance(part, (TextPart, ThinkingPart)) and part.text.strip():
            kind: ItemType = "text" if isinstance(part, TextPart) else "thinking"
            yield DisplayItem(type=kind, message_type=role, content={"text": part.text})
    for call in message.tool_calls:
        yield DisplayItem(type="tool_call", message_type=role, content=_call(call, tools))
    for result in message.tool_results:
        yield DisplayItem(type="tool_result", message_type=role, content=_result(result))


def _call(call: ToolCall, tools: Mapping[str, Tool]) -> dict[str, Any]:
    tool = tools.get(call.name)
    return {
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.arguments,
        "display_text": tool.display_text if tool is not None else call.name,
    }


def _result(result: ToolResult) -> dict[str, Any]:
    return {
        "tool_call_id": result.tool_call_id,
        "name": result.name,
        "content": result.text,
        "is_error": result.is_error,
        "is_interrupt": result.is_interrupt,
    }
