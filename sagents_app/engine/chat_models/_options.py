"""Options of a call, checked against the fields of the dataclass that holds them."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from sagents_app.engine.errors import Misconfigured

T = TypeVar("T")
BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def checked(kind: type[T], given: Mapping[str, Any], *, of: str) -> T:
    """Return the options as `kind`.

    Raises:
        Misconfigured: an unknown name, which lists the known ones, or a value of the wrong type.
    """
    hints = _hints(kind)
    for name, value in given.items():
        if name not in hints:
            raise Misconfigured(f"{of}: unknown option {name!r}; known are {', '.join(hints)}")
        if not _fits(value, hints[name]):
            raise Misconfigured(f"{of}: {name} is {_told(hints[name])}, got {value!r:.100}")
    return kind(**given)


def parsed(kind: type[Any], texts: Mapping[str, str], *, of: str) -> dict[str, Any]:
    """Return options that are given as texts as what they stand for; `checked` judges them.

    Texts are split at `|`, mappings are JSON.
    """
    hints = _hints(kind)
    return {name: _value(text, hints.get(name, str)) for name, text in texts.items()}


def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fits(value: Any, hint: Any) -> bool:
    return any(_fits_one(value, member) for member in _members(hint))


def _fits_one(value: Any, member: Any) -> bool:
    if member is type(None):
        return value is None
    if get_origin(member) is Literal:
        return value in get_args(member)
    if get_origin(member) is tuple:
        return isinstance(value, tuple) and all(isinstance(one, str) for one in value)
    if member is bool or isinstance(value, bool):
        return member is bool and isinstance(value, bool)
    if member is float:
        return isinstance(value, (int, float)) and math.isfinite(value)
    return isinstance(value, get_origin(member) or member)


def _told(hint: Any) -> str:
    words = []
    for member in _members(hint):
        if get_origin(member) is Literal:
            words.append("one of " + ", ".join(map(repr, get_args(member))))
        elif get_origin(member) is tuple:
            words.append("a tuple of texts")
        elif member is not type(None):
            names = {str: "a text", float: "a number", int: "a whole number", bool: "true or false"}
            words.append(names.get(member, "a mapping"))
    return " or ".join(words)


def _value(text: str, hint: Any) -> Any:
    for member in _members(hint):
        if get_origin(member) is tuple:
            return tuple(text.split("|"))
        if member is bool:
            return BOOLEANS.get(text.lower(), text)
        if member in (int, float):
            try:
                return member(text)
            except ValueError:
                return text
        if get_origin(member) is Mapping:
            try:
                return json.loads(text)
            except ValueError:
                return text
    return text
