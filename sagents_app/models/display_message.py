"""The transcript: what people read. Append-only but for a tool's progress and a review's mark."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from sagents_app.models.conversation import Conversation


class DisplayMessage(models.Model):
    """One row of a transcript."""

    class Author(models.TextChoices):
        """Whose words they are."""

        USER = "user", _("user")
        ASSISTANT = "assistant", _("assistant")
        TOOL = "tool", _("tool")
        SYSTEM = "system", _("system")

    class Kind(models.TextChoices):
        """What the content holds; `services.display` says which keys."""

        TEXT = "text", _("text")
        THINKING = "thinking", _("thinking")
        TOOL_CALL = "tool_call", _("tool call")
        TOOL_RESULT = "tool_result", _("tool result")
        HALT = "halt", _("halt")
        NOTIFICATION = "notification", _("notification")
        ERROR = "error", _("error")
        IMAGE = "image", _("image")
        FILE_REFERENCE = "file_reference", _("file")
        STRUCTURED_DATA = "structured_data", _("data")
        TODO_SNAPSHOT = "todo_snapshot", _("plan")

    class Status(models.TextChoices):
        """Where a tool call stands; everything else is completed."""

        QUEUED = "queued", _("queued")
        WITHDRAWN = "withdrawn", _("withdrawn")
        PENDING = "pending", _("pending")
        EXECUTING = "executing", _("running")
        COMPLETED = "completed", _("done")
        FAILED = "failed", _("failed")
        INTERRUPTED = "interrupted", _("waiting")
        CANCELLED = "cancelled", _("cancelled")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="display_messages"
    )
    number = models.BigIntegerField()
    """Orders the transcript; unique in the conversation."""
    message_type = models.CharField(max_length=16, choices=Author.choices)
    content_type = models.CharField(max_length=16, choices=Kind.choices)
    content = models.JSONField(default=dict)
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.COMPLETED)
    tool_call_id = models.CharField(max_length=64, blank=True, default="")
    metadata = models.JSONField(default=dict)
    """`result`, `error`, `decision` and `display_text` of a tool call."""
    run_id = models.UUIDField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects: ClassVar[models.Manager[DisplayMessage]]

    class Meta:
        verbose_name = _("transcript row")
        verbose_name_plural = _("transcript rows")
        ordering = ("conversation", "number")
        constraints = (
            models.UniqueConstraint(
                fields=("conversation", "number"), name="display_message_number"
            ),
            models.UniqueConstraint(
                fields=("conversation", "tool_call_id"),
                condition=Q(content_type="tool_call"),
                name="display_message_one_row_a_call",
            ),
            models.UniqueConstraint(
                fields=("conversation", "tool_call_id"),
                condition=Q(content_type="halt"),
                name="display_message_one_row_a_halt",
            ),
            models.CheckConstraint(
                condition=Q(message_type__in=("user", "assistant", "tool", "system")),
                name="display_message_type_known",
            ),
            models.CheckConstraint(
                condition=Q(
                    content_type__in=(
                        *("text", "thinking", "tool_call", "tool_result", "halt", "notification"),
                        *("error", "image", "file_reference", "structured_data", "todo_snapshot"),
                    )
                ),
                name="display_message_content_type_known",
            ),
            models.CheckConstraint(
                condition=Q(
                    status__in=(
                        *("queued", "withdrawn", "pending", "executing"),
                        *("completed", "failed", "interrupted", "cancelled"),
                    )
                ),
                name="display_message_status_known",
            ),
        )

    def __str__(self) -> str:
        return f"{self.content_type} {self.number} of {self.conversation_id}"
