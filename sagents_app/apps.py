"""The app: rows, services and pages for agents that people oversee."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class SagentsConfig(AppConfig):
    """Finds every installed app's `agents.py`, as Django finds `admin.py`."""

    name = "sagents_app"
    verbose_name = _("Agents")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the agents and the system checks."""
        from sagents_app import checks  # noqa: F401  # registers by being imported

        autodiscover_modules("agents")
