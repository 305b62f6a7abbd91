"""Values as a reviewer reads them: their type told, long ones folded, nothing hidden. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from sagents_app import hidden_characters
from sagents_app.engine import canonical
from sagents_app.hidden_characters import Part

LONGEST_PREVIEW = 600
"""Characters of a value that are shown before it is unfolded."""
MOST_LINES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One value, or one text, ready for a template."""

    type_name: str | Promise = ""
    """In words: a text "10" and the number 10 look alike without it."""
    parts: tuple[Part, ...]
    preview: tuple[Part, ...] = ()
    """The beginning of what is folded; empty where nothing is."""
    length: int = 0
    """In characters."""
    is_text: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownArgument:
    """One argument as it was proposed, decided and executed; None where it is absent."""

    name: Shown
    description: str = ""
    proposed: Shown | None = None
    decided: Shown | None = None
    executed: Shown | None = None
    is_changed: bool = False
    """Whether the reviewer's value differs from the model's."""


def show_text(text: str, *, type_name: str | Promise = "", is_text: bool = True) -> Shown:
    """Return a text, folded where it is long."""
    preview: tuple[Part, ...] = ()
    if len(text) > LONGEST_PREVIEW or text.count("\n") >= MOST_LINES:
        lines = text[:LONGEST_PREVIEW].split("\n")[:MOST_LINES]
        preview = hidden_characters.reveal("\n".join(lines))
    return Shown(
        type_name=type_name,
        parts=hidden_characters.reveal(text),
        preview=preview,
        length=len(text),
        is_text=is_text,
    )


def show_value(value: Any) -> Shown:
    """Return a JSON value: texts as they are, everything else as JSON."""
    if isinstance(value, str):
        return show_text(value, type_name=_("text"))
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return show_text(text, type_name=_type_name(value), is_text=False)


def show_arguments(
    proposed: str,
    *,
    decided: str | None = None,
    executed: str | None = None,
    schema: Mapping[str, Any] | None = None,
) -> list[ShownArgument]:
    """Return the arguments side by side, each given as canonical JSON, in the proposed order.

    What a reviewer added follows. `schema` is the tool's, for its descriptions.
    """
    columns = [_parsed(proposed), _parsed(decided), _parsed(executed)]
    before, after, _ran = columns
    names = list(dict.fromkeys(name for column in columns for name in column or {}))
    properties = (schema or {}).get("properties", {})
    rows = []
    for name in names:
        cells = [
            show_value(column[name]) if column is not None and name in column else None
            for column in columns
        ]
        rows.append(
            ShownArgument(
                name=show_text(name),
                description=str(properties.get(name, {}).get("description") or ""),
                proposed=cells[0],
                decided=cells[1],
                executed=cells[2],
                is_changed=after is not None and _differs(before or {}, after, name),
            )
        )
    return rows


def summary(arguments_json: str, *, longest: int = 110) -> str:
    """Return the arguments in one line for a list; text that was cut off is taken as it is."""
    try:
        arguments = canonical.parse(arguments_json)
    except ValueError:
        arguments = None
    if isinstance(arguments, dict):
        texts = [
            f"{name}: {(value if isinstance(value, str) else canonical.dump(value))[: longest + 1]}"
            for name, value in list(arguments.items())[:6]
        ]
        arguments_json = " · ".join(texts)
    line = hidden_characters.escape(arguments_json[: longest + 1].replace("\n", " "))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _parsed(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        parsed = canonical.parse(text)
    except ValueError:
        return {"": text}
    return parsed if isinstance(parsed, dict) else {"": parsed}


def _differs(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> bool:
    if (name in before) != (name in after):
        return True
    return canonical.dump(before.get(name)) != canonical.dump(after.get(name))


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
