"""What is shown of a message, item by item, and how a message that broke off says so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from sagents_app.engine import (
    Halt,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    display_items,
    tool,
)
from sagents_app.engine.messages import StreamFailure

BROKEN = StreamFailure("overloaded", "try later")


@tool(display_text="Looking around")
async def look(what: str) -> str:
    """Look."""
    return what


TOOLS = {"look": look}


def shown(message: Message) -> list[tuple[str, str, dict[str, Any]]]:
    items = display_items.display_items(message, TOOLS)
    return [(item.type, item.message_type, dict(item.content)) for item in items]


def unfinished(*, status: Any = "length", details: Any = None, **content: Any) -> Message:
    return replace(Message.assistant(status=status, **content), stop_details=details)


@dataclass(frozen=True)
class Shown:
    id: str
    message: Message
    items: list[tuple[str, str, dict[str, Any]]]


CALL_ITEM = {
    "call_id": "c1",
    "name": "look",
    "arguments": {"what": "x", "deep": [1]},
    "display_text": "Looking around",
}
CALL = ToolCall("c1", "look", {"what": "x", "deep": [1]})
CASES = [
    Shown("a user's text", Message.user("hi"), [("text", "user", {"text": "hi"})]),
    Shown(
        "thoughts and texts in their order",
        Message.assistant([ThinkingPart("hm"), TextPart("a"), TextPart("b")]),
        [
            ("thinking", "assistant", {"text": "hm"}),
            ("text", "assistant", {"text": "a"}),
            ("text", "assistant", {"text": "b"}),
        ],
    ),
    Shown(
        "M-142 two tool calls, the second of no known tool",
        Message.assistant(tool_calls=[CALL, ToolCall("c2", "gone", '{"a":')]),
        [
            ("tool_call", "assistant", CALL_ITEM),
            (
                "tool_call",
                "assistant",
                {"call_id": "c2", "name": "gone", "arguments": {}, "display_text": "gone"},
            ),
        ],
    ),
    Shown(
        "M-143 tool results",
        Message.tool(
            ToolResult("c1", "look", (TextPart("a"), ImagePart(url="x"), TextPart("b"))),
            ToolResult("c2", "look", (TextPart("no"),), is_error=True),
            ToolResult("c3", "stop", (TextPart("wait"),), is_interrupt=True, interrupt=Halt("x")),
        ),
        [
            (
                "tool_result",
                "tool",
                {
                    "tool_call_id": "c1",
                    "name": "look",
                    "content": "a\nb",
                    "is_error": False,
                    "is_interrupt": False,
                },
            ),
            (
                "tool_result",
                "tool",
                {
                    "tool_call_id": "c2",
                    "name": "look",
                    "content": "no",
                    "is_error": True,
                    "is_interrupt": False,
                },
            ),
            (
                "tool_result",
                "tool",
                {
                    "tool_call_id": "c3",
                    "name": "stop",
                    "content": "wait",
                    "is_error": False,
                    "is_interrupt": True,
                },
            ),
        ],
    ),
    Shown(
        "M-144 text before calls",
        Message.assistant("I look.", tool_calls=[CALL]),
        [("text", "assistant", {"text": "I look."}), ("tool_call", "assistant", CALL_ITEM)],
    ),
    Shown("M-145 nothing", Message.assistant(), []),
    Shown(
        "M-145 nothing that can be shown",
        Message.assistant([TextPart(""), TextPart(" \n"), ThinkingPart("", redacted="x")]),
        [],
    ),
    Shown(
        "M-149 the reason stands on the last item: text",
        unfinished(content=[ThinkingPart("hm"), TextPart("a")]),
        [
            ("thinking", "assistant", {"text": "hm"}),
            ("text", "assistant", {"text": "a", "stop_reason": "length"}),
        ],
    ),
    Shown(
        "M-149 the reason stands on the last item: call",
        unfinished(content="a", tool_calls=[CALL], status="cancelled"),
        [
            ("text", "assistant", {"text": "a"}),
            ("tool_call", "assistant", {**CALL_ITEM, "stop_reason": "cancelled"}),
        ],
    ),
    Shown(
        "M-149 a finished message has no reason, whatever the provider said",
        unfinished(content="a", status="complete", details={"code": 1}),
        [("text", "assistant", {"text": "a"})],
    ),
    Shown(
        "M-150 the provider's account stands beside the reason",
        unfinished(content="a", details={"code": 529}),
        [
            (
                "text",
                "assistant",
                {"text": "a", "stop_reason": "length", "stop_details": {"code": 529}},
            )
        ],
    ),
    Shown("M-150 unfinished and empty", unfinished(details={"code": 529}), []),
]


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_message_is_shown_item_by_item(case: Shown):
    assert shown(case.message) == case.items


def test_a_call_is_called_by_its_name_where_no_tool_is_known():
    """M-142: what has no label of its own is shown by name."""
    (item,) = display_items.display_items(Message.assistant(tool_calls=[CALL]))
    assert item.content["display_text"] == "look"


@pytest.mark.parametrize(
    ("status", "failure", "reason"),
    [
        ("complete", None, None),
        ("complete", BROKEN, None),
        ("length", None, "length"),
        ("length", BROKEN, "length"),
        ("cancelled", None, "cancelled"),
        ("cancelled", BROKEN, "stream_error"),
        ("stream_error", None, "stream_error"),
        ("stream_error", BROKEN, "stream_error"),
        ("content_filtered", None, "content_filtered"),
    ],
)
def test_reason_tells_a_broken_stream_from_a_cancelled_one(
    status: Any, failure: StreamFailure | None, reason: str | None
):
    """M-146, M-147: what broke the stream is kept whatever the status, and read where it counts."""
    message = replace(Message.assistant("a", status=status), stream_failure=failure)
    assert display_items.stop_reason(message) == reason
    assert message.stream_failure == failure


@pytest.mark.parametrize(
    ("details", "kept"),
    [({"code": 529}, {"code": 529}), ({}, {}), (None, None), ("text", None), ([1], None)],
)
def test_only_a_mapping_is_the_providers_account(details: Any, kept: Any):
    """M-148: other shapes are none."""
    message = replace(Message.assistant("a", status="length"), stop_details=details)
    assert display_items.stop_details(message) == kept
