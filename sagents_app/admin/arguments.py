"""A call's arguments as a reviewer compares them: proposed, decided, executed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sagents_app import hidden_characters
from sagents_app.engine import canonical
from sagents_app.presenters import values
from sagents_app.presenters.values import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument as it was proposed, decided and executed; None where it is absent."""

    name: Shown
    description: str = ""
    """What the tool's schema says about it."""
    proposed: Shown | None = None
    decided: Shown | None = None
    executed: Shown | None = None
    is_changed: bool = False
    """Whether the reviewer's value differs from the model's."""


def side_by_side(
    proposed: str,
    *,
    decided: str | None = None,
    executed: str | None = None,
    schema: Mapping[str, Any] | None = None,
) -> list[Argument]:
    """Return the arguments, each column given as canonical JSON, in the proposed order.

    What a reviewer added follows. `schema` is the tool's, for its descriptions.
    """
    columns = [_parsed(proposed), _parsed(decided), _parsed(executed)]
    before, after, _ran = columns
    names = list(dict.fromkeys(name for column in columns for name in column or {}))
    properties = (schema or {}).get("properties", {})
    rows = []
    for name in names:
        cells = [
            values.show_value(column[name]) if column is not None and name in column else None
            for column in columns
        ]
        rows.append(
            Argument(
                name=values.show_text(name),
                description=str(properties.get(name, {}).get("description") or ""),
                proposed=cells[0],
                decided=cells[1],
                executed=cells[2],
                is_changed=after is not None and _differs(before or {}, after, name),
            )
        )
    return rows


def summary(start: str, *, longest: int = 110) -> str:
    """Return arguments in one line of a list, from the beginning of their canonical JSON."""
    try:
        parsed = canonical.parse(start)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict):
        return values.summary(parsed, longest=longest)
    line = hidden_characters.escape(start[:longest].replace("\n", " "))
    return line if len(line) < longest else f"{line[: longest - 1]}…"


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
