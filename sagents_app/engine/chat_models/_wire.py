"""JSON of providers, read without trust in its form: pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sagents_app.engine.chat_models import _refusals
from sagents_app.engine.errors import ProtocolError


def parsed(data: str, *, secrets: Sequence[str] = ()) -> Any:
    """Return the value of an event's data.

    Raises:
        ProtocolError: it is no JSON; the text has its beginning.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        told = _refusals.masked(_refusals.shortened(data, 200), secrets)
        raise ProtocolError(f"expected a JSON event, got {told!r}") from None


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object, an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def string(value: Any) -> str:
    """Return a text, the empty one for anything else."""
    return value if isinstance(value, str) else ""


def count(usage: Mapping[str, Any], *names: str) -> int:
    """Return the first of the named counts that is one, 0 for none."""
    for name in names:
        value = usage.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e15:
            return int(value)
    return 0
