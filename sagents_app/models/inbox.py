"""The inbox: messages that were accepted and that the model has not seen yet."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from sagents_app.models.conversation import Conversation
from sagents_app.models.display_message import DisplayMessage


class InboxMessage(models.Model):
    """One message, durable from the moment that its sender is told so."""

    class Status(models.TextChoices):
        """Whether the model has it."""

        QUEUED = "queued", _("queued")
        DELIVERED = "delivered", _("delivered")
        WITHDRAWN = "withdrawn", _("withdrawn")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="inbox")
    display_message = models.OneToOneField(DisplayMessage, on_delete=models.CASCADE)
    """Its row of the transcript, whose number orders the inbox."""
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    client_id = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001  # unique where given
    text = models.TextField()
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.QUEUED)
    created_at = models.DateTimeField(auto_now_add=True)
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("queued message")
        verbose_name_plural = _("queued messages")
        ordering = ("conversation", "display_message__number")
        indexes = (models.Index(fields=("conversation", "status"), name="inbox_status"),)
        constraints = (
            models.UniqueConstraint(
                fields=("conversation", "client_id"),
                condition=Q(client_id__isnull=False),
                name="inbox_client_id",
            ),
            models.CheckConstraint(
                condition=Q(status__in=("queued", "delivered", "withdrawn")),
                name="inbox_status_known",
            ),
        )

    def __str__(self) -> str:
        return f"{self.status} message of {self.conversation_id}"
