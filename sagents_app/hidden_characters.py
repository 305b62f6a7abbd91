"""Characters that a reader cannot see, or takes for others, made visible. Pure; no markup here.

What a model wrote is what a reviewer reads before deciding, so nothing in it may hide: controls,
direction marks, zero-width and blank characters, and letters of another script inside a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

MOST_MARKS = 400
"""Marks shown one by one; a text with more of them is shown in escapes altogether."""

# Blank or invisible, though Unicode calls them letters, marks or symbols.
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
_PLAIN = "\n\t "
_SUSPECT = re.compile(r"[^\x20-\x7e\n\t]")
_WORD = re.compile(r"[^\W\d_]+")
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "FULLWIDTH", "MATHEMATICAL")


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of plain text, or one marked character; `code` is empty for plain text."""

    text: str
    code: str = ""
    """`U+202E`."""
    name: str = ""
    """The character's Unicode name."""
    count: int = 1
    """How often the character stands there in a row."""


def is_hidden(character: str) -> bool:
    """Whether a reader cannot see the character, or only as a gap that is not a plain space."""
    if character in _PLAIN:
        return False
    if "\ufe00" <= character <= "\ufe0d" or "\U000e0100" <= character <= "\U000e01ef":
        return True
    category = unicodedata.category(character)
    return category[0] in "CZ" or character in _BLANK


def is_clean(text: str) -> bool:
    """Whether nothing in the text needs a mark."""
    return not _SUSPECT.search(text) or not any(
        is_hidden(found.group()) for found in _SUSPECT.finditer(text)
    )


def escape(text: str) -> str:
    r"""Return the text with each hidden character as JSON writes it: `\u202e`."""
    return _SUSPECT.sub(lambda found: _escaped(found.group()), text)


def reveal(text: str) -> tuple[Part, ...]:
    """Return the text in parts, in order; joined, the parts' texts and characters are the text.

    A text with more than `MOST_MARKS` marks comes as one part, written in escapes.
    """
    if not _SUSPECT.search(text):
        return (Part(text),)
    look_alikes = _look_alikes(text)
    parts: list[Part] = []
    for part in _parts(text, look_alikes):
        parts.append(part)
        if len(parts) > 2 * MOST_MARKS:
            return (Part(escape(text)),)
    return tuple(parts)


def _parts(text: str, look_alikes: frozenset[int]) -> Iterator[Part]:
    start = end = 0
    for found in _SUSPECT.finditer(text):
        at, character = found.start(), found.group()
        if at < end:
            continue
        hidden = is_hidden(character)
        if not hidden and at not in look_alikes:
            continue
        if at > start:
            yield Part(text[start:at])
        end = at + 1
        while hidden and end < len(text) and text[end] == character:
            end += 1
        shown = "" if hidden else character
        yield Part(shown, f"U+{ord(character):04X}", _name(character), end - at)
        start = end
    if start < len(text):
        yield Part(text[start:])


def _look_alikes(text: str) -> frozenset[int]:
    """Return where letters stand in a word that belong to another script than its first."""
    strange: list[int] = []
    for word in _WORD.finditer(text):
        letters = word.group()
        if letters.isascii():
            continue
        scripts = [_script(letter) for letter in letters]
        known = {script for script in scripts if script}
        if len(known) < 2:
            continue
        usual = "LATIN" if "LATIN" in known else next(filter(None, scripts))
        strange.extend(
            word.start() + index
            for index, script in enumerate(scripts)
            if script and script != usual
        )
    return frozenset(strange)


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    name = unicodedata.name(letter, "")
    return next((script for script in _SCRIPTS if name.startswith(script)), "")


def _name(character: str) -> str:
    names = {"\r": "CARRIAGE RETURN", "\x00": "NULL", "\x1b": "ESCAPE", "\x08": "BACKSPACE"}
    return names.get(character) or unicodedata.name(character, "") or "CONTROL CHARACTER"


def _escaped(character: str) -> str:
    if not is_hidden(character):
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
