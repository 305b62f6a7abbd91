"""Logins for a demonstration: a customer, a reviewer and an operator, with random passwords."""

from __future__ import annotations

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
            *("view_run", "view_order", "change_order"),
        ),
    ),
}


class Command(BaseCommand):
    """Make the logins once, and print them each time; only with DEBUG on."""

    help = __doc__ or ""

    def handle(self, *args: Any, **options: Any) -> None:
        """Make what is missing and print all of it; whoever else made a user keeps it as it is."""
        if not settings.DEBUG:
            raise CommandError("Demo logins are for DEBUG alone; make users of your own here.")
        kept = Path(getattr(settings, "BASE_DIR", ".")) / "var" / "demo-logins.txt"
        passwords = _read(kept)
        for name, (what, permissions) in LOGINS.items():
            password = _login(name, passwords.get(name), permissions)
            if password is not None:
                passwords[name] = password
            shown = password or "(yours)"
            self.stdout.write(f"  {name:9} {shown:16} {what}")
        _write(kept, passwords)


def _read(kept: Path) -> dict[str, str]:
    """Return the kept passwords by name; a line is a name, a space and a password."""
    if not kept.exists():
        return {}
    lines = kept.read_text().splitlines()
    return {name: password for name, _, password in (line.partition(" ") for line in lines)}


def _write(kept: Path, passwords: dict[str, str]) -> None:
    kept.parent.mkdir(exist_ok=True)
    kept.touch(mode=0o600)
    kept.write_text("".join(f"{name} {password}\n" for name, password in passwords.items()))


def _login(name: str, kept: str | None, permissions: tuple[str, ...]) -> str | None:
    """Return a login's password, as kept or a new one; None: another's user of that name."""
    users = get_user_model()._default_manager
    named: dict[str, Any] = {get_user_model().USERNAME_FIELD: name}
    user = users.filter(**named).first()
    if user is not None:
        return kept if kept is not None and user.check_password(kept) else None
    password = secrets.token_urlsafe(9)
    user = users.model(**named, is_staff=bool(permissions))
    user.set_password(password)
    user.save()
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return password
