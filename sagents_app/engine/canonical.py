"""Canonical JSON text, digests and clean text: values that can be compared and stored.

Canonical text is UTF-8 JSON with sorted keys and no spaces; integers are verbatim, however long.
NaN and the infinities are not JSON and are refused; a lone surrogate cannot be stored as UTF-8 and
becomes U+FFFD.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
NOTHING = "{}"


def clean_text(text: str) -> str:
    """Return `text` with NUL and lone surrogates, which databases refuse, replaced by U+FFFD."""
    if text.isascii():
        return text.replace("\x00", REPLACEMENT) if "\x00" in text else text
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text.replace("\x00", REPLACEMENT)


def dump(value: Any) -> str:
    """Return the canonical text of a JSON value.

    Raises:
        ValueError: NaN, an infinity or an integer past Python's limit of 4,300 digits.
        TypeError: a value that JSON does not have.
    """
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text if text.isascii() else clean_text(text)


def parse(text: str) -> Any:
    """Return the value of a JSON text, refusing NaN, infinities and doubled keys that hide a value.

    Raises:
        ValueError: the text is not JSON.
    """
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def digest(call_id: str, tool_name: str, arguments_json: str) -> str:
    """Return the SHA-256 (hex) of what was shown: call id, tool name, canonical arguments."""
    shown = "\x00".join((call_id, tool_name, arguments_json))
    return hashlib.sha256(shown.encode()).hexdigest()


def to_json(value: Any) -> Any:
    """Return `value` where JSON can hold it, else its `str()`."""
    try:
        return parse(dump(value))
    except (TypeError, ValueError, RecursionError):
        return clean_text(str(value))


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is beyond the range of a float")
    return number
