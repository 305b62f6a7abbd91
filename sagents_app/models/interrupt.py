"""Interrupts: one row for each thing that a person decides, and every try to decide it."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils.translation import gettext_lazy as _

from sagents_app.models.conversation import Conversation, tenant_of

DECIDE = "sagents_app.decide_interrupt"


class InterruptQuerySet(models.QuerySet["Interrupt"]):
    """What may be asked of interrupts."""

    def pending(self) -> InterruptQuerySet:
        """Those that wait."""
        return self.filter(status=Interrupt.Status.PENDING)

    def reviewed(self) -> InterruptQuerySet:
        """Those that a reviewer's rule is about, not the owner alone."""
        return self.filter(kind__in=Interrupt.REVIEWED)

    def reviewable_by(self, user: Any) -> InterruptQuerySet:
        """Those that the user may read and, by the rule stored with each, decide."""
        if not user.is_authenticated or not user.is_active:
            return self.none()
        rows = self.reviewed().filter(conversation__tenant=tenant_of(user))
        if user.is_superuser:
            return rows.filter(Q(owner_may_decide=True) | ~Q(conversation__owner_id=user.pk))
        named = Q(permission__in=user.get_all_permissions())
        grouped = Q(group="") | Q(group__in=list(user.groups.values_list("name", flat=True)))
        allowed = named & grouped & ~Q(conversation__owner_id=user.pk)
        return rows.filter(allowed | Q(owner_may_decide=True, conversation__owner_id=user.pk))

    def with_siblings_open(self) -> InterruptQuerySet:
        """Annotate `siblings_open`: whether others of the batch wait too."""
        others = Interrupt.objects.filter(
            batch=OuterRef("batch"), status=Interrupt.Status.PENDING
        ).exclude(pk=OuterRef("pk"))
        return self.annotate(siblings_open=Exists(others))


class Interrupt(models.Model):
    """One thing that waits for a person: an approval, a question, a halt, an unknown outcome."""

    class Kind(models.TextChoices):
        """What is asked; the engine's `type`, and `unknown` where today's code knows none."""

        APPROVAL = "approval", _("approval")
        QUESTION = "ask_user_question", _("question")
        HALT = "halt", _("halt")
        UNKNOWN_OUTCOME = "unknown_outcome", _("unknown outcome")
        BUDGET = "budget", _("budget")
        UNKNOWN = "unknown", _("unknown")

    class Status(models.TextChoices):
        """What became of it."""

        PENDING = "pending", _("waiting")
        APPROVED = "approved", _("approved")
        EDITED = "edited", _("approved with changes")
        REJECTED = "rejected", _("rejected")
        ANSWERED = "answered", _("answered")
        DISMISSED = "dismissed", _("dismissed")
        SUPERSEDED = "superseded", _("superseded")
        CANCELLED = "cancelled", _("cancelled")
        EXPIRED = "expired", _("expired")

    REVIEWED = ("approval", "unknown_outcome", "budget", "unknown")
    """Kinds that a review rule is about; questions and halts are the owner's."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="interrupts"
    )
    run_id = models.UUIDField()
    """The run that stopped for it."""
    batch = models.UUIDField()
    """Shared by everything that has to be decided before the run goes on."""
    position = models.PositiveSmallIntegerField(default=0)
    """Order inside the batch."""
    kind = models.CharField(_("kind"), max_length=32, choices=Kind.choices)
    tool_call_id = models.CharField(max_length=64)
    """The name that the engine's replies use: a call id, or the kind where no call raised it."""
    tool_name = models.CharField(_("tool"), max_length=64, blank=True, default="")
    display_text = models.CharField(max_length=255, blank=True, default="")
    arguments = models.TextField(default="{}")
    """Canonical JSON text as it was shown; the digest is taken over it."""
    digest = models.CharField(max_length=64)
    allowed_decisions = models.JSONField(default=list)
    path = models.JSONField(default=list)
    """Names of the agents from the outermost in."""
    payload = models.JSONField(default=dict)
    """The engine's interrupt, stored form."""
    review_rule = models.JSONField(default=dict)
    """The rule in force when it was opened."""
    permission = models.CharField(max_length=150, default=DECIDE)
    group = models.CharField(max_length=150, blank=True, default="")
    owner_may_decide = models.BooleanField(default=False)
    status = models.CharField(
        _("status"), max_length=16, choices=Status.choices, default=Status.PENDING
    )
    decision = models.JSONField(null=True, blank=True)
    """The engine's decision, stored form."""
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="sagents_decided_interrupts",
    )
    decided_at = models.DateTimeField(_("decided"), null=True, blank=True)
    note = models.TextField(blank=True, default="")
    executed_arguments = models.TextField(blank=True, default="")
    """Canonical JSON text of what really ran; empty until it did."""
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(_("asked"), auto_now_add=True)

    objects: ClassVar[InterruptQuerySet] = InterruptQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name = _("review request")
        verbose_name_plural = _("review requests")
        ordering = ("created_at", "position")
        indexes = (
            models.Index(fields=("status", "created_at"), name="interrupt_queue"),
            models.Index(fields=("conversation", "status"), name="interrupt_conversation"),
            models.Index(fields=("batch",), name="interrupt_batch"),
        )
        constraints = (
            models.UniqueConstraint(
                fields=("conversation", "tool_call_id"),
                condition=Q(status="pending"),
                name="interrupt_one_pending_a_call",
            ),
            models.CheckConstraint(
                condition=Q(
                    status__in=(
                        *("pending", "approved", "edited", "rejected", "answered"),
                        *("dismissed", "superseded", "cancelled", "expired"),
                    )
                ),
                name="interrupt_status_known",
            ),
            models.CheckConstraint(
                condition=Q(
                    kind__in=(
                        *("approval", "ask_user_question", "halt"),
                        *("unknown_outcome", "budget", "unknown"),
                    )
                ),
                name="interrupt_kind_known",
            ),
        )
        permissions = (("decide_interrupt", _("Can decide review requests")),)

    def __str__(self) -> str:
        return f"{self.display_text or self.tool_name or self.get_kind_display()}"

    @property
    def is_pending(self) -> bool:
        """Whether it still waits."""
        return self.status == self.Status.PENDING


class InterruptDecision(models.Model):
    """One try to decide, accepted or refused. Rows are never changed."""

    class Outcome(models.TextChoices):
        """What became of the try."""

        ACCEPTED = "accepted", _("accepted")
        REFUSED = "refused", _("refused")

    interrupt = models.ForeignKey(Interrupt, on_delete=models.CASCADE, related_name="decisions")
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="sagents_interrupt_decisions",
    )
    outcome = models.CharField(max_length=16, choices=Outcome.choices)
    cause = models.CharField(max_length=32, default="decided")
    """decided, or why it was refused: an error's code."""
    decision = models.JSONField(default=dict)
    """The engine's decision, stored form."""
    digest = models.CharField(max_length=64, blank=True, default="")
    """The digest that came with the try."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("created_at", "pk")
        verbose_name = _("decision")
        verbose_name_plural = _("decisions")
        constraints = (
            models.CheckConstraint(
                condition=Q(outcome__in=("accepted", "refused")),
                name="interrupt_decision_outcome_known",
            ),
        )

    def __str__(self) -> str:
        return f"{self.outcome} {self.decision.get('type', '')} on {self.interrupt_id}"
