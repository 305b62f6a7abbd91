"""Canonical JSON text, digests and clean text: values that can be compared and stored.

Canonical text is UTF-8 JSON with sorted keys and no spaces; integers are verbatim, however long.
NaN and the infinities are not JSON and are refused; a lone surrogate cannot be stored as UTF-8 and
becomes U+FFFD.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
NOTHING = "{}"
CIRCULAR = "(circular)"
TOO_DEEP = "(nested too deeply)"
DEEPEST = 64  # levels; databases and parsers take a few hundred


def clean_text(text: str) -> str:
    """Return `text` with NUL and lone surrogates, which databases refuse, replaced by U+FFFD."""
    if text.isascii():
        return text.replace("\x00", REPLACEMENT) if "\x00" in text else text
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\x00", REPLACEMENT)


def dump(value: Any) -> str:
    """Return the canonical text of a JSON value.

    Raises:
        ValueError: NaN, an infinity, an integer past Python's limit of 4,300 digits, or two keys
            that differ only in what cannot be stored.
        TypeError: a value that JSON does not have.
    """
    text = _ENCODER.encode(value)
    clean = clean_text(text)
    if clean != text:
        parse(clean)  # refuses two keys that have become one
    return clean


def parse(text: str) -> Any:
    """Return the value of a JSON text, refusing NaN, infinities and doubled keys that hide a value.

    Raises:
        ValueError: the text is not JSON.
    """
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def digest(call_id: str, tool_name: str, arguments_json: str) -> str:
    """Return the SHA-256 (hex) of what was shown: call id, tool name, canonical arguments."""
    shown = "\x00".join((call_id, tool_name, arguments_json))
    return hashlib.sha256(shown.encode()).hexdigest()


def to_json(value: Any) -> Any:
    """Return `value` as JSON, with `str()` in the place of whatever in it is none.

    Functions become None, text is cleaned, and what refers to itself, or lies too deep to be
    stored, is replaced by a mark.
    """
    try:
        text = dump(value)
        if "\\u0000" not in text:
            return parse(text)
    except (TypeError, ValueError, RecursionError):
        pass  # something in it has to be replaced
    return _cleaned(value, ())


def to_text(value: Any) -> str:
    """Return `str(value)` as clean text; where Python refuses, its hexadecimal digits or type."""
    try:
        return clean_text(str(value))
    except Exception:  # noqa: BLE001  # another's __str__ may raise anything
        return hex(value) if isinstance(value, int) else f"<{type(value).__name__}>"


def _cleaned(value: Any, within: tuple[int, ...]) -> Any:
    if not isinstance(value, (Mapping, list, tuple, set, frozenset)):
        return _cleaned_leaf(value)
    if id(value) in within or len(within) >= DEEPEST:
        return CIRCULAR if id(value) in within else TOO_DEEP
    inside = (*within, id(value))
    if isinstance(value, Mapping):
        return {to_text(_cleaned_leaf(key)): _cleaned(one, inside) for key, one in value.items()}
    return [_cleaned(one, inside) for one in value]


def _cleaned_leaf(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(str.__str__(value))
    try:
        return parse(dump(value))
    except (TypeError, ValueError):
        return None if callable(value) else to_text(value)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is beyond the range of a float")
    return number


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        doubled = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {doubled!r:.100} is doubled")
    return found


_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)
_DECODER = json.JSONDecoder(
    parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_without_doubles
)
