"""Who may open which page of the admin; what they see in it is the rows' QuerySets' business."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin import helpers
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from sagents_app import hidden_characters
from sagents_app.services import agents

OPERATE = "sagents_app.operate_conversation"


def may_review(user: Any) -> bool:
    """Whether some rule of today lets the user decide anything."""
    rules = (rule for one in agents.registered().values() for rule in one.review)
    named = {agents.DECIDE, *(rule.permission for rule in rules)}
    return bool(user.is_active and (user.is_superuser or named & user.get_all_permissions()))


class ReadOnlyAdmin(admin.ModelAdmin):
    """Rows that services alone write: nothing is added, edited or deleted by hand."""

    checkbox_template = "admin/sagents_app/includes/checkbox.html"

    @admin.display(description="")
    def action_checkbox(self, obj: Any) -> SafeString:
        """Return the box that selects a row, whose name a person or a model wrote."""
        name = hidden_characters.escape(str(obj))
        context = {"row": obj, "name": name, "field": helpers.ACTION_CHECKBOX_NAME}
        return render_to_string(self.checkbox_template, context)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds one."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody edits one."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Keep what happened."""
        return False
