"""Runs, the journal of their tool calls, and the sweep that looks after them."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sagents_app.models.conversation import Conversation

LIVE = ("queued", "running")


class RunQuerySet(models.QuerySet["Run"]):
    """What may be asked of runs."""

    def live(self) -> RunQuerySet:
        """Those that are driven, or wait for a worker."""
        return self.filter(status__in=LIVE)


class Run(models.Model):
    """One drive of a conversation, from a trigger to an outcome."""

    class Trigger(models.TextChoices):
        """What began it."""

        MESSAGE = "message", _("message")
        DECISION = "decision", _("decision")
        RESUME = "resume", _("resumed")
        RETRY = "retry", _("retried")

    class Status(models.TextChoices):
        """Where it stands; the last five are ends."""

        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        COMPLETED = "completed", _("completed")
        INTERRUPTED = "interrupted", _("waiting")
        PAUSED = "paused", _("paused")
        CANCELLED = "cancelled", _("cancelled")
        FAILED = "failed", _("failed")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="runs")
    trigger = models.CharField(max_length=16, choices=Trigger.choices)
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.QUEUED)
    acting_user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="sagents_runs",
    )
    """Whoever's words or decision began it."""
    attempt = models.PositiveSmallIntegerField(default=0)
    """How many workers have claimed it; one that handed it over does not count."""
    worker = models.CharField(max_length=200, blank=True, default="")
    cause = models.TextField(blank=True, default="")
    """Why it failed, paused or was cancelled, in words."""
    error_type = models.CharField(max_length=64, blank=True, default="")
    """The engine error's stable code."""
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="sagents_cancelled_runs",
    )
    wake_at = models.DateTimeField(null=True, blank=True)
    """When the sweep tries a paused run again; None: at once."""
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    model_calls = models.PositiveIntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, null=True, blank=True)
    """In the host's currency; None: nobody has told the price."""
    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True, blank=True, default=timezone.now)
    """When it was last given to the broker; None: the broker did not take it."""
    started_at = models.DateTimeField(null=True, blank=True)
    """When its beginning was stored: words delivered, or decisions accepted."""
    finished_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[RunQuerySet] = RunQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        ordering = ("-created_at",)
        indexes = (models.Index(fields=("status", "created_at"), name="run_status"),)
        constraints = (
            models.UniqueConstraint(
                fields=("conversation",),
                condition=Q(status__in=LIVE),
                name="run_one_live_a_conversation",
            ),
            models.CheckConstraint(
                condition=Q(
                    status__in=(
                        *("queued", "running", "completed", "interrupted"),
                        *("paused", "cancelled", "failed"),
                    )
                ),
                name="run_status_known",
            ),
            models.CheckConstraint(
                condition=Q(trigger__in=("message", "decision", "resume", "retry")),
                name="run_trigger_known",
            ),
        )

    def __str__(self) -> str:
        return f"run {str(self.pk)[:8]} ({self.status})"


class ToolExecution(models.Model):
    """The journal: written before a tool starts, finished the moment that it returns."""

    class Status(models.TextChoices):
        """What is known of the call."""

        STARTED = "started", _("started")
        FINISHED = "finished", _("finished")

    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="tool_executions"
    )
    run_id = models.UUIDField()
    call_id = models.CharField(max_length=64)
    tool_name = models.CharField(max_length=64)
    arguments = models.TextField()
    """Canonical JSON text of what the tool really gets."""
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.STARTED)
    result = models.JSONField(null=True, blank=True)
    """The engine's result, stored form."""
    attempts = models.PositiveSmallIntegerField(default=1)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("tool execution")
        verbose_name_plural = _("tool executions")
        ordering = ("pk",)
        constraints = (
            models.UniqueConstraint(
                fields=("conversation", "call_id"), name="tool_execution_one_a_call"
            ),
            models.CheckConstraint(
                condition=Q(status__in=("started", "finished")), name="tool_execution_status_known"
            ),
        )

    def __str__(self) -> str:
        return f"{self.tool_name} {self.call_id} ({self.status})"


class Sweep(models.Model):
    """The one row by which workers agree who sweeps."""

    name = models.CharField(max_length=32, primary_key=True)
    next_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} at {self.next_at:%H:%M:%S}"
