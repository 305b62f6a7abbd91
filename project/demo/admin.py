"""The shop's orders in the admin, to see what an approved call really did."""

from __future__ import annotations

from django.contrib import admin

from project.demo.models import Order


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    """Orders, editable like any shop's."""

    list_display = ("number", "item", "total", "status", "refunded", "disputed")
    list_filter = ("status",)
