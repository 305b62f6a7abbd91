"""Text by lines, as a model reads and edits it: numbered views, exact replacements, search."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sagents_app.engine.errors import ToolError


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Numbered lines `start` to `end` (from 1, both included) of `total`; none: end < start."""

    text: str
    start: int
    end: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """A text after `count` replacements."""

    text: str
    count: int


@dataclass(frozen=True, slots=True)
class Line:
    """One line and its number, from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A line that matches, between its neighbours in their order."""

    line: Line
    before: tuple[Line, ...] = ()
    after: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Matches in the order of the text; `truncated`: there are more."""

    matches: tuple[Match, ...]
    truncated: bool


def split(text: str | None) -> list[str]:
    """Return the lines without their ends; no text is one empty line."""
    return (text or "").split("\n")


def render(text: str | None, *, start_line: int = 1, limit: int | None = None) -> View:
    """Return `limit` lines (None: all) from `start_line` on, each behind its number and a tab.

    A view that is not the whole text begins with a line that says so. A start below 1 is 1.
    """
    lines = split(text)
    start, total = max(start_line, 1), len(lines)
    stop = total if limit is None else min(total, start - 1 + max(limit, 0))
    shown = [f"{number:>6}\t{lines[number - 1]}" for number in range(start, stop + 1)]
    end = start + len(shown) - 1
    if len(shown) < total:
        shown.insert(0, f"Showing lines {start} to {end} of {total}{':' if shown else ''}")
    return View(text="\n".join(shown), start=start, end=end, total=total)


def count_occurrences(text: str, wanted: str) -> int:
    """Return how often `wanted` stands in `text`, without overlaps; never for the empty text."""
    return text.count(wanted) if wanted else 0


def replace_text(text: str, old: str, new: str, *, replace_all: bool = False) -> Replaced:
    """Return `text` with its one occurrence of `old`, or all of them, replaced.

    Raises:
        ToolError: `old` is empty, is not there, or is there more than once without `replace_all`.
    """
    count = count_occurrences(text, old)
    if not old:
        raise ToolError("The text to replace is empty.")
    if count == 0:
        raise ToolError("The text to replace was not found. It has to match exactly.")
    if count > 1 and not replace_all:
        raise ToolError(
            f"The text to replace was found {count} times. Give more of its surroundings, so that "
            "it is unique, or replace all."
        )
    return Replaced(text=text.replace(old, new), count=count)


def find(
    text: str,
    pattern: str,
    *,
    regex: bool = False,
    case_sensitive: bool = True,
    context_lines: int = 2,
    max_matches: int = 20,
) -> Found:
    """Return the lines that hold `pattern`, a plain text or a regular expression.

    Each comes with up to `context_lines` lines before and behind it.

    Raises:
        ToolError: the pattern is empty, or no regular expression.
    """
    wanted = _compiled(pattern, regex=regex, case_sensitive=case_sensitive)
    lines = split(text)
    matches: list[Match] = []
    for at, line in enumerate(lines):
        if wanted.search(line) is None:
            continue
        if len(matches) == max_matches:
            return Found(matches=tuple(matches), truncated=True)
        before = _numbered(lines, max(at - context_lines, 0), at)
        after = _numbered(lines, at + 1, at + 1 + context_lines)
        matches.append(Match(line=Line(at + 1, line), before=before, after=after))
    return Found(matches=tuple(matches), truncated=False)


def _numbered(lines: list[str], start: int, stop: int) -> tuple[Line, ...]:
    return tuple(Line(at + 1, lines[at]) for at in range(start, min(stop, len(lines))))


def _compiled(pattern: str, *, regex: bool, case_sensitive: bool) -> re.Pattern[str]:
    if not pattern:
        raise ToolError("The pattern is empty.")
    try:
        return re.compile(
            pattern if regex else re.escape(pattern), 0 if case_sensitive else re.IGNORECASE
        )
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolError(f"The pattern is no regular expression: {error}") from error
