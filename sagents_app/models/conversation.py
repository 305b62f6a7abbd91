"""Conversations, and what their agents know: messages as append-only rows, the rest as one row."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from sagents_app import conf

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser


def tenant_of(user: Any) -> str:
    """Return the user's tenant as `SAGENTS_TENANT` says; without the setting there is one, ''."""
    function = conf.current().tenant
    return "" if function is None else str(function(user))


class ConversationQuerySet(models.QuerySet["Conversation"]):
    """What may be asked of conversations."""

    def of_tenant(self, user: AbstractBaseUser | AnonymousUser) -> ConversationQuerySet:
        """Those of the user's tenant."""
        return self.filter(tenant=tenant_of(user))

    def owned_by(self, user: AbstractBaseUser | AnonymousUser) -> ConversationQuerySet:
        """Those that the user owns."""
        if not user.is_authenticated or not user.is_active:
            return self.none()
        return self.of_tenant(user).filter(owner_id=user.pk)

    def visible_to(self, user: Any) -> ConversationQuerySet:
        """Those that the user may read: their own, those they may review, or all for operators."""
        if not user.is_authenticated or not user.is_active:
            return self.none()
        if user.has_perm("sagents_app.view_conversation"):
            return self.of_tenant(user)
        own = Q(owner_id=user.pk)
        if user.has_perm("sagents_app.decide_interrupt"):
            own |= Q(pk__in=self.model.reviewable_ids(user))
        return self.of_tenant(user).filter(own)

    def live(self) -> ConversationQuerySet:
        """Those that a worker drives, or that wait for one."""
        return self.filter(status=Conversation.Status.RUNNING)


class Conversation(models.Model):
    """One conversation of a person with an agent."""

    class Status(models.TextChoices):
        """Where a conversation stands; while a run is queued, it is running."""

        IDLE = "idle", _("idle")
        RUNNING = "running", _("running")
        INTERRUPTED = "interrupted", _("waiting")
        PAUSED = "paused", _("paused")
        CANCELLED = "cancelled", _("cancelled")
        ERROR = "error", _("error")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sagents_conversations"
    )
    tenant = models.CharField(max_length=200, blank=True, default="")
    """Set at creation; every QuerySet word filters by it."""
    agent_name = models.CharField(_("agent"), max_length=100)
    agent_version = models.CharField(max_length=100, default="1")
    title = models.CharField(_("title"), max_length=255, blank=True, default="")
    status = models.CharField(
        _("status"), max_length=16, choices=Status.choices, default=Status.IDLE
    )
    lease_token = models.UUIDField(null=True, blank=True, editable=False)
    """The fencing token of whoever may write agent state; None: nobody drives."""
    lease_until = models.DateTimeField(null=True, blank=True, editable=False)
    """In the database's time."""
    next_event_number = models.BigIntegerField(default=1, editable=False)
    next_display_number = models.BigIntegerField(default=1, editable=False)
    automatic_runs = models.PositiveIntegerField(default=0, editable=False)
    """Runs in a row that no person started."""
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("last change"), auto_now=True)

    objects: ClassVar[models.Manager[Conversation]] = ConversationQuerySet.as_manager()

    class Meta:
        verbose_name = _("conversation")
        verbose_name_plural = _("conversations")
        ordering = ("-updated_at", "-id")
        indexes = (
            models.Index(fields=("owner", "-updated_at"), name="conversation_owner"),
            models.Index(fields=("tenant", "status", "-updated_at"), name="conversation_status"),
            models.Index(
                fields=("lease_until",),
                condition=Q(lease_token__isnull=False),
                name="conversation_lease",
            ),
        )
        constraints = (
            models.CheckConstraint(
                condition=Q(
                    status__in=("idle", "running", "interrupted", "paused", "cancelled", "error")
                ),
                name="conversation_status_known",
            ),
        )
        permissions = (("operate_conversation", _("Can cancel, retry and repair conversations")),)

    def __str__(self) -> str:
        return self.title or f"{self.agent_name} {str(self.pk)[:8]}"

    def get_absolute_url(self) -> str:
        """Return the conversation's page."""
        return reverse("sagents:conversation", args=[self.pk])

    @staticmethod
    def reviewable_ids(user: Any) -> Any:
        """Return a query for the conversations in which the user may decide something."""
        from sagents_app.models.interrupt import Interrupt

        return Interrupt.objects.reviewable_by(user).values("conversation_id")


class SavedState(models.Model):
    """What an agent knows beside its messages, as the engine stores it."""

    conversation = models.OneToOneField(
        Conversation, primary_key=True, on_delete=models.CASCADE, related_name="saved_state"
    )
    data = models.JSONField(default=dict)
    version = models.PositiveIntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"state of {self.conversation_id}"


class AgentMessage(models.Model):
    """One message as the model sees it; only a result that came later replaces a row's data."""

    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="agent_messages"
    )
    position = models.PositiveIntegerField()
    """From 0, without gaps."""
    data = models.JSONField()

    class Meta:
        ordering = ("conversation", "position")
        constraints = (
            models.UniqueConstraint(
                fields=("conversation", "position"), name="agent_message_position"
            ),
        )

    def __str__(self) -> str:
        return f"message {self.position} of {self.conversation_id}"
