"""The app's settings: every `SAGENTS_*` name, its type, its default and what values it refuses.

Only this module reads them, and it reads Django's settings; of the environment only the variables
in which providers' own tools keep keys and addresses, such as `OPENAI_API_KEY`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from sagents_app.engine import ChatModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The values in force."""

    model: str = ""
    """`provider:name` of the agents' model, then of its fallbacks, with commas; may be empty."""
    model_base_url: str = ""
    """Where that provider's protocol is served; empty for the provider's own address."""
    model_api_key: str = field(default="", repr=False)
    """The key sent to it; may stay empty for a server of one's own."""
    tenant: Callable[[Any], str] | None = None
    """Gives a user's tenant, kept on each conversation of theirs; None: there is one tenant."""
    lease_seconds: float = 30.0
    """How long a worker owns a conversation without a heartbeat."""
    heartbeat_seconds: float = 10.0
    """Time between two heartbeats; at most half of the lease."""
    sweep_seconds: float = 15.0
    """Time between two sweeps for what no worker drives."""
    cancel_grace_seconds: float = 10.0
    """How long a cancel waits for the worker that holds the lease."""
    publish_timeout_seconds: float = 1.0
    """How long a request may try to reach the broker or the channel layer."""
    max_attempts: int = 3
    """Workers that may die over one run before it ends in an error."""
    tool_threads: int = 16
    """Threads of a worker process in which synchronous tools run."""
    max_message_chars: int = 100_000
    """The longest message that a person may post."""


def current() -> Configuration:
    """Return the configuration in force; the same object until a setting changes.

    Raises:
        ImproperlyConfigured: a value is of the wrong kind; the message names its setting.

    """
    return _load()


@cache
def _load() -> Configuration:
    loaded = Configuration(
        model=_model("SAGENTS_MODEL"),
        model_base_url=_url("SAGENTS_MODEL_BASE_URL"),
        model_api_key=_text("SAGENTS_MODEL_API_KEY"),
        tenant=_function("SAGENTS_TENANT"),
        lease_seconds=_seconds("SAGENTS_LEASE_SECONDS", 30.0),
        heartbeat_seconds=_seconds("SAGENTS_HEARTBEAT_SECONDS", 10.0),
        sweep_seconds=_seconds("SAGENTS_SWEEP_SECONDS", 15.0),
        cancel_grace_seconds=_seconds("SAGENTS_CANCEL_GRACE_SECONDS", 10.0),
        publish_timeout_seconds=_seconds("SAGENTS_PUBLISH_TIMEOUT_SECONDS", 1.0),
        max_attempts=_count("SAGENTS_MAX_ATTEMPTS", 3),
        tool_threads=_count("SAGENTS_TOOL_THREADS", 16),
        max_message_chars=_count("SAGENTS_MAX_MESSAGE_CHARS", 100_000),
    )
    if loaded.heartbeat_seconds * 2 > loaded.lease_seconds:
        raise ImproperlyConfigured(
            "SAGENTS_HEARTBEAT_SECONDS must be at most half of SAGENTS_LEASE_SECONDS "
            f"({loaded.lease_seconds:g}), so that one lost heartbeat loses no lease; "
            f"got {loaded.heartbeat_seconds:g}"
        )
    return loaded


def _forget(*, setting: str, **_: object) -> None:
    if setting.startswith("SAGENTS_"):
        _load.cache_clear()


setting_changed.connect(_forget, dispatch_uid="sagents_app.conf")


def _text(name: str) -> str:
    value = getattr(settings, name, None) or ""
    if not isinstance(value, str):
        raise ImproperlyConfigured(f"{name} must be a text, got {value!r}")
    return value


def _model(name: str) -> str:
    value = _text(name)
    provider, colon, model = value.partition(":")
    if value and not (provider and colon and model):
        raise ImproperlyConfigured(
            f"{name} must be 'provider:name', such as 'openai:gpt-5', got {value!r}"
        )
    return value


def _url(name: str) -> str:
    value = _text(name)
    if value and not value.startswith(("http://", "https://")):
        raise ImproperlyConfigured(f"{name} must start with http:// or https://, got {value!r}")
    return value.rstrip("/")


def _function(name: str) -> Callable[[Any], str] | None:
    path = getattr(settings, name, None) or None
    if path is None:
        return None
    if not isinstance(path, str):
        raise ImproperlyConfigured(f"{name} must be the dotted path of a function, got {path!r}")
    try:
        function = import_string(path)
    except ImportError as error:
        raise ImproperlyConfigured(
            f"{name} names {path!r}, which fails to import: {error}"
        ) from error
    if not callable(function):
        raise ImproperlyConfigured(f"{name} names {path!r}, which is no function")
    return function  # type: ignore[no-any-return]  # what it returns is checked where it is called


def _seconds(name: str, default: float) -> float:
    value = getattr(settings, name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 86_400:
        raise ImproperlyConfigured(f"{name} must be seconds between 0 and 86400, got {value!r}")
    return float(value)


def _count(name: str, default: int) -> int:
    value = getattr(settings, name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ImproperlyConfigured(f"{name} must be a whole number from 1 up, got {value!r}")
    return value


def models() -> list[ChatModel]:
    """Return the model that `SAGENTS_MODEL` names and its fallbacks; none where it is empty.

    Raises:
        Misconfigured: the value, or a variable that its provider needs, is wrong or missing.

    """
    configured = current()
    if not configured.model:
        return []
    from sagents_app.engine.chat_models import by_name

    own = {
        by_name.ANY_BASE_URL: configured.model_base_url,
        by_name.ANY_KEY: configured.model_api_key,
    }
    return by_name.models_from_names(configured.model, {**os.environ, **own})
