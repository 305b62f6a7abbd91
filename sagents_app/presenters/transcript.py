"""Transcript rows as `messages/<kind>.html` shows them; a result stands in its call's row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.template.loader import render_to_string
from django.utils.dateparse import parse_datetime
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from sagents_app.models import Conversation, DisplayMessage
from sagents_app.presenters import markdown, values
from sagents_app.presenters.values import Argument, Shown
from sagents_app.services import live

Kind, Author = DisplayMessage.Kind, DisplayMessage.Author
Payload = Mapping[str, Any]
"""A row as `live.row_payload` gives it."""
OF_TOOLS = (Kind.TOOL_CALL, Kind.TOOL_RESULT, Kind.HALT)
"""Kinds that belong to a call: what is new in one changes how the call's row looks."""
KINDS = {"thinking", "tool_call", "tool_result", "halt", "notification", "error"}
SPOKEN = {"assistant_text", "halt", "notification", "error"}
LONGEST_ANNOUNCEMENT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What a person said to a call."""

    status: str
    who: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row; which fields are filled depends on its kind."""

    id: str
    conversation_id: UUID
    number: int
    kind: str
    """The name of its template in `messages/`."""
    version: str
    """Changes whenever the row looks different."""
    status: str
    """A `DisplayMessage.Status`, and `halted` for a call that ended the workflow."""
    created_at: datetime | None
    is_owner: bool
    """Whether the viewer owns the conversation."""
    text: Shown | None = None
    html: SafeString | str = ""
    """Sanitised markdown."""
    stop_reason: str = ""
    """How an unfinished message stopped; empty for a finished one."""
    announcement: str = ""
    """What a screen reader is told when the row appears."""
    label: str = ""
    tool_name: str = ""
    arguments: tuple[Argument, ...] = ()
    summary: str = ""
    """A call's arguments in one line."""
    result: Shown | None = None
    is_error: bool = False
    decided: Decided | None = None

    @property
    def template(self) -> str:
        """The partial that shows it."""
        return f"sagents_app/messages/{self.kind}.html"


def present_rows(
    conversation: Conversation, payloads: Iterable[Payload], *, is_owner: bool
) -> list[Row]:
    """Return rows in their order, with results inside their calls."""
    given = list(payloads)
    calls, results, halts = (
        {row["tool_call_id"]: row for row in given if row["content_type"] == kind}
        for kind in OF_TOOLS
    )
    shown = []
    for row in given:
        call_id, kind = row["tool_call_id"], row["content_type"]
        if kind == Kind.TOOL_RESULT and call_id in calls:
            continue
        result = results.get(call_id) if kind == Kind.TOOL_CALL else None
        halted = kind == Kind.TOOL_CALL and call_id in halts
        shown.append(_present(conversation, row, result, is_owner=is_owner, halted=halted))
    return shown


def changed_rows(
    conversation: Conversation, events: Iterable[Mapping[str, Any]], *, is_owner: bool
) -> list[Row]:
    """Return the rows that the events are about as they are now, each once; at most one query."""
    told = [event["message"] for event in events if "message_type" in (event.get("message") or {})]
    if not told:
        return []
    calls = {row["tool_call_id"] for row in told if row["content_type"] in OF_TOOLS}
    rows = DisplayMessage.objects.filter(
        Q(pk__in={row["id"] for row in told})
        | Q(tool_call_id__in=calls - {""}, content_type__in=OF_TOOLS),
        conversation=conversation,
    ).order_by("number")
    return present_rows(conversation, map(live.row_payload, rows), is_owner=is_owner)


def render_row(row: Row) -> str:
    """Return a row's HTML."""
    return render_to_string("sagents_app/messages/row.html", {"row": row})


def _present(
    conversation: Conversation,
    payload: Payload,
    result: Payload | None,
    *,
    is_owner: bool,
    halted: bool,
) -> Row:
    kind = _kind_of(payload)
    content, metadata = payload["content"], payload["metadata"]
    text = str(content.get("text") or content.get("content") or "")
    fields: dict[str, Any] = {"stop_reason": content.get("stop_reason", "")}
    match kind:
        case "assistant_text" | "thinking" | "halt":
            fields["html"] = markdown.render(text)
        case "tool_call":
            fields |= _call_fields(content, metadata, result)
        case "unknown":
            fields["text"] = values.show_value(dict(content))
        case _:
            fields["text"] = values.show_plain(text)
    if kind == "tool_result":
        fields |= {"tool_name": content.get("name", ""), "is_error": content.get("is_error", False)}
    if kind in SPOKEN:
        fields["announcement"] = Truncator(text).chars(LONGEST_ANNOUNCEMENT)
    return Row(
        id=payload["id"],
        conversation_id=conversation.pk,
        number=payload["number"],
        kind=kind,
        version=_version(payload, result, halted=halted),
        status="halted" if halted else payload["status"],
        created_at=parse_datetime(payload["created_at"]),
        is_owner=is_owner,
        **fields,
    )


def _kind_of(payload: Payload) -> str:
    kind, author = payload["content_type"], payload["message_type"]
    if kind == Kind.TEXT:
        return {Author.USER: "user_text", Author.SYSTEM: "notification"}.get(
            author, "assistant_text"
        )
    return kind if kind in KINDS else "unknown"


def _call_fields(content: Payload, metadata: Payload, result: Payload | None) -> dict[str, Any]:
    arguments = content.get("arguments") or {}
    told = result["content"].get("content") if result else metadata.get("result")
    decided = None
    if metadata.get("decision") not in (None, "dismissed"):
        decided = Decided(
            status=metadata["decision"],
            who=metadata.get("decided_by") or "",
            note=metadata.get("note") or "",
        )
    return {
        "label": content.get("display_text") or content.get("name", ""),
        "tool_name": content.get("name", ""),
        "arguments": values.show_arguments(arguments),
        "summary": values.summary(arguments),
        "result": values.show_result(str(told)) if told not in (None, "") else None,
        "is_error": bool(result and result["content"].get("is_error")),
        "decided": decided,
    }


def _version(payload: Payload, result: Payload | None, *, halted: bool) -> str:
    seen = [payload["status"], payload["metadata"], result["id"] if result else "", halted]
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()[:12]
