"""The event log: what happened in a conversation, numbered without holes when written."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from sagents_app.models.conversation import Conversation


class Event(models.Model):
    """One event. Deltas are pruned once the message that they became is saved."""

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="events")
    number = models.BigIntegerField()
    """From 1; unique in the conversation."""
    type = models.CharField(max_length=32)
    """`docs/events.md` says what each holds."""
    payload = models.JSONField(default=dict)
    run_id = models.UUIDField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        ordering = ("conversation", "number")
        constraints = (
            models.UniqueConstraint(fields=("conversation", "number"), name="event_number"),
        )

    def __str__(self) -> str:
        return f"{self.type} {self.number} of {self.conversation_id}"
