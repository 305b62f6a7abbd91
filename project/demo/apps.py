"""The demonstration as a Django app."""

from __future__ import annotations

from django.apps import AppConfig


class DemoConfig(AppConfig):
    """Orders of a small shop, and the agent that looks after them."""

    name = "project.demo"
    label = "demo"
    verbose_name = "Demo shop"
    default_auto_field = "django.db.models.BigAutoField"
