"""Values as a person reads them: their type told, long ones folded, nothing hidden. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from sagents_app import hidden_characters
from sagents_app.engine import canonical
from sagents_app.hidden_characters import Part

LONGEST_PREVIEW = 600
"""Characters of a value that are shown before it is unfolded."""
MOST_LINES = 12
LONGEST_JSON = 100_000
"""Characters of a result beyond which it is not read as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One value, or one text, ready for `includes/value.html`."""

    type_name: str | Promise = ""
    """In words: a text "10" and the number 10 look alike without it."""
    parts: tuple[Part, ...]
    preview: tuple[Part, ...] = ()
    """The beginning of what is folded; empty where nothing is."""
    length: int = 0
    """In characters."""
    is_text: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a call."""

    name: Shown
    value: Shown


def show_text(text: str, *, type_name: str | Promise = "", is_text: bool = True) -> Shown:
    """Return a text, folded where it is long."""
    preview: tuple[Part, ...] = ()
    if _is_long(text):
        preview = hidden_characters.reveal(_beginning(text))
    return Shown(
        type_name=type_name,
        parts=hidden_characters.reveal(text),
        preview=preview,
        length=len(text),
        is_text=is_text,
    )


def show_plain(text: str) -> Shown:
    """Return a text as it is, folded where it is long; nothing in it is marked."""
    preview: tuple[Part, ...] = ()
    if _is_long(text):
        preview = (Part(_beginning(text)),)
    return Shown(parts=(Part(text),), preview=preview, length=len(text), is_text=True)


def show_result(text: str) -> Shown:
    """Return what a tool brought: JSON with its lines apart, any other text as it is."""
    if text[:1] in ("{", "[") and len(text) <= LONGEST_JSON:
        try:
            text = json.dumps(canonical.parse(text), indent=2, ensure_ascii=False)
        except ValueError:
            return show_plain(text)
        return replace(show_plain(text), is_text=False)
    return show_plain(text)


def show_value(value: Any) -> Shown:
    """Return a JSON value: texts as they are, everything else as JSON."""
    if isinstance(value, str):
        return show_text(value, type_name=_("text"))
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return show_text(text, type_name=_type_name(value), is_text=False)


def show_arguments(arguments: Mapping[str, Any]) -> tuple[Argument, ...]:
    """Return a call's arguments in their order."""
    return tuple(
        Argument(name=show_text(name), value=show_value(value)) for name, value in arguments.items()
    )


def summary(arguments: Mapping[str, Any], *, longest: int = 110) -> str:
    """Return the arguments in one line, what cannot be seen written in escapes."""
    texts = [
        f"{name}: {(value if isinstance(value, str) else canonical.dump(value))[: longest + 1]}"
        for name, value in list(arguments.items())[:6]
    ]
    line = hidden_characters.escape(" · ".join(texts)[: longest + 1].replace("\n", " "))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _is_long(text: str) -> bool:
    return len(text) > LONGEST_PREVIEW or text.count("\n") >= MOST_LINES


def _beginning(text: str) -> str:
    return "\n".join(text[:LONGEST_PREVIEW].split("\n")[:MOST_LINES])


def _type_name(value: Any) -> str | Promise:
    match value:
        case bool():
            return _("yes or no")
        case int() | float():
            return _("number")
        case None:
            return _("nothing")
        case list():
            return _("list")
        case _:
            return _("object")
