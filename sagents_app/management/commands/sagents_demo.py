"""Logins for a demonstration: a customer, a reviewer and an operator, with random passwords."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management import BaseCommand, CommandError

LOGINS: dict[str, tuple[str, tuple[str, ...]]] = {
    "customer": ("chats with the agent", ()),
    "reviewer": (
        "approves requests in the admin",
        ("decide_interrupt", "view_interrupt", "change_interrupt", "view_conversation"),
    ),
    "operator": (
        "sees every conversation",
        (
            *("view_conversation", "operate_conversation", "delete_conversation"),
            *("view_interrupt", "view_run", "view_order", "change_order"),
        ),
    ),
}


class Command(BaseCommand):
    """Make the logins once, and print them each time; only with DEBUG on."""

    help = __doc__ or ""

    def handle(self, *args: Any, **options: Any) -> None:
        """Make what is missing and print all of it."""
        if not settings.DEBUG:
            raise CommandError("Demo logins are for DEBUG alone; make users of your own here.")
        kept = Path(settings.BASE_DIR) / "var" / "demo-logins.json"
        passwords = json.loads(kept.read_text()) if kept.exists() else {}
        for name, (what, permissions) in LOGINS.items():
            passwords[name] = _login(name, passwords.get(name), permissions)
            self.stdout.write(f"  {name:9} {passwords[name]:16} {what}")
        kept.parent.mkdir(exist_ok=True)
        kept.touch(mode=0o600)
        kept.write_text(json.dumps(passwords))


def _login(name: str, password: str | None, permissions: tuple[str, ...]) -> str:
    """Return the password of a user who is there, as kept or a new one."""
    users = get_user_model()._default_manager
    named: dict[str, Any] = {get_user_model().USERNAME_FIELD: name}
    user, is_new = users.get_or_create(**named)
    if is_new or password is None or not user.check_password(password):
        password = secrets.token_urlsafe(9)
        user.set_password(password)
    user.is_staff = bool(permissions)
    user.save()
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return password
