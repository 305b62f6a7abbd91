"""Typed reading of environment variables. What each one is for: docs/settings.md."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

_YES = {"1", "true", "yes", "on"}
_NO = {"", "0", "false", "no", "off"}


def text(name: str, default: str = "") -> str:
    """Return the variable without surrounding space; an empty one counts as unset."""
    return os.environ.get(name, "").strip() or default


def flag(name: str, *, default: bool = False) -> bool:
    """Return whether the variable says yes; a word that says neither yes nor no is refused."""
    value = text(name).lower()
    if not value:
        return default
    if value not in _YES | _NO:
        raise ImproperlyConfigured(f"{name} must be 1 or 0, got {value!r}")
    return value in _YES


def number(name: str, default: int) -> int:
    """Return the variable as a whole number from 0 up."""
    value = text(name)
    if not value:
        return default
    if not value.isdecimal():
        raise ImproperlyConfigured(f"{name} must be a whole number from 0 up, got {value!r}")
    return int(value)


def seconds(name: str, default: float) -> float:
    """Return the variable as a number of seconds."""
    value = text(name)
    try:
        return float(value) if value else default
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a number of seconds, got {value!r}") from None


def items(name: str) -> list[str]:
    """Return the parts of a comma-separated variable, without empty ones."""
    return [part.strip() for part in text(name).split(",") if part.strip()]


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """Where mail goes, as Django's EMAIL_* settings want it."""

    backend: str = "django.core.mail.backends.smtp.EmailBackend"
    host: str = "localhost"
    port: int = 25
    user: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    ssl: bool = False


CONSOLE_MAIL = MailServer(backend="django.core.mail.backends.console.EmailBackend")


def mail_server(name: str, *, default: MailServer) -> MailServer:
    """Return the server of `smtp://user:password@host:port` (`?tls=1`, `?ssl=1`) or `console://`."""
    value = text(name)
    if not value:
        return default
    url = urlsplit(value)
    if url.scheme == "console":
        return CONSOLE_MAIL
    options = dict(parse_qsl(url.query))
    if url.scheme != "smtp" or not url.hostname or options.keys() - {"tls", "ssl"}:
        raise ImproperlyConfigured(
            f"{name} must be console:// or smtp://user:password@host:port, with ?tls=1 or ?ssl=1"
        )
    return MailServer(
        host=url.hostname,
        port=url.port or 25,
        user=unquote(url.username or ""),
        password=unquote(url.password or ""),
        tls=options.get("tls") == "1",
        ssl=options.get("ssl") == "1",
    )
