"""The shop's orders: rows, so that what an agent did to them is there to be looked at."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Order(models.Model):
    """One order of the shop."""

    class Status(models.TextChoices):
        """Where an order stands."""

        SHIPPED = "shipped", _("shipped")
        DELIVERED = "delivered", _("delivered")
        REFUNDED = "refunded", _("refunded")
        DELETED = "deleted", _("deleted")

    number = models.CharField(max_length=16, unique=True)
    item = models.CharField(max_length=100)
    total = models.DecimalField(max_digits=8, decimal_places=2)
    """In euros."""
    status = models.CharField(max_length=16, choices=Status.choices)
    disputed = models.BooleanField(default=False)
    """Whether the bank is looking into the payment, so that nobody may touch it."""
    refunded = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    """In euros."""
    refund_key = models.CharField(max_length=200, blank=True)
    """The idempotency key under which the refund was made."""

    class Meta:
        ordering = ("number",)

    def __str__(self) -> str:
        return f"{self.number} {self.item}"
