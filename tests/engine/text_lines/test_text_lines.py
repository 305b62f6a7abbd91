"""Text by lines: numbered views, exact replacements, search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagents_app.engine import ToolError, text_lines
from sagents_app.engine.text_lines import Line, Match, View

FIVE = "one\ntwo\nthree\nfour\nfive"


@dataclass(frozen=True)
class Case:
    id: str
    text: str | None
    options: dict[str, Any]
    view: View


CASES = [
    Case(
        "the whole text",
        "a\nb",
        {},
        View(text="     1\ta\n     2\tb", start=1, end=2, total=2),
    ),
    Case(
        "a part from the middle",
        FIVE,
        {"start_line": 2, "limit": 2},
        View(
            text="Showing lines 2 to 3 of 5:\n     2\ttwo\n     3\tthree", start=2, end=3, total=5
        ),
    ),
    Case(
        "the rest",
        FIVE,
        {"start_line": 5},
        View(text="Showing lines 5 to 5 of 5:\n     5\tfive", start=5, end=5, total=5),
    ),
    Case(
        "a limit beyond the end",
        "a\nb",
        {"limit": 100},
        View(text="     1\ta\n     2\tb", start=1, end=2, total=2),
    ),
    Case(
        "a start beyond the end",
        "a\nb",
        {"start_line": 100},
        View(text="Showing lines 100 to 99 of 2", start=100, end=99, total=2),
    ),
    Case(
        "a start below 1",
        "a\nb",
        {"start_line": 0},
        View(text="     1\ta\n     2\tb", start=1, end=2, total=2),
    ),
    Case(
        "a start far below 1",
        "a\nb",
        {"start_line": -5, "limit": 1},
        View(text="Showing lines 1 to 1 of 2:\n     1\ta", start=1, end=1, total=2),
    ),
    Case("no text", None, {}, View(text="     1\t", start=1, end=1, total=1)),
    Case("an empty text", "", {}, View(text="     1\t", start=1, end=1, total=1)),
    Case(
        "a line end at the end",
        "a\n",
        {},
        View(text="     1\ta\n     2\t", start=1, end=2, total=2),
    ),
    Case(
        "no lines at all",
        "a\nb",
        {"limit": 0},
        View(text="Showing lines 1 to 0 of 2", start=1, end=0, total=2),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_view_is_numbered_and_says_where_it_is_only_a_part(case: Case) -> None:
    """X-002, X-006."""
    assert text_lines.render(case.text, **case.options) == case.view


def test_numbers_are_six_wide_and_grow_beyond() -> None:
    """X-002."""
    view = text_lines.render("\n" * 1_000_000, start_line=999_999, limit=2)
    assert view.text.split("\n")[1:] == ["999999\t", "1000000\t"]


@pytest.mark.parametrize(
    ("replace_all", "text", "count"),
    [(False, "x two", 1), (True, "x two", 1)],
    ids=["one", "all"],
)
def test_the_only_occurrence_is_replaced(*, replace_all: bool, text: str, count: int) -> None:
    """X-004."""
    done = text_lines.replace_text("one two", "one", "x", replace_all=replace_all)
    assert (done.text, done.count) == (text, count)


def test_all_occurrences_are_replaced_where_it_is_asked_for() -> None:
    """X-004: without overlaps; over line ends; by nothing."""
    done = text_lines.replace_text("a\na\na", "a", "b", replace_all=True)
    assert (done.text, done.count) == ("b\nb\nb", 3)
    assert text_lines.replace_text("aaa", "aa", "b", replace_all=True).text == "ba"
    assert text_lines.replace_text("a\nb\nc", "a\nb\n", "").text == "c"


@pytest.mark.parametrize(
    ("old", "problem"),
    [
        ("z", "The text to replace was not found. It has to match exactly."),
        ("A", "The text to replace was not found. It has to match exactly."),
        (
            "a",
            "The text to replace was found 3 times. Give more of its surroundings, so that it is "
            "unique, or replace all.",
        ),
        ("", "The text to replace is empty."),
    ],
    ids=["none", "another case", "many", "empty"],
)
def test_a_replacement_that_is_not_certain_is_refused(old: str, problem: str) -> None:
    """X-004."""
    with pytest.raises(ToolError) as refused:
        text_lines.replace_text("a\na\na", old, "b")
    assert str(refused.value) == problem


@pytest.mark.parametrize("old", ["z", ""], ids=["none", "empty"])
def test_to_replace_all_of_nothing_is_refused_too(old: str) -> None:
    with pytest.raises(ToolError):
        text_lines.replace_text("a", old, "b", replace_all=True)


def test_occurrences_are_counted_without_overlaps() -> None:
    assert text_lines.count_occurrences("aaaa", "aa") == 2
    assert text_lines.count_occurrences("aaaa", "") == 0


def numbers(text: str, pattern: str, **options: Any) -> list[int]:
    found = text_lines.find(text, pattern, **options)
    return [match.line.number for match in found.matches]


def test_a_match_stands_between_its_neighbours() -> None:
    """X-005: two lines of context before and behind, fewer at the ends."""
    found = text_lines.find(FIVE, "three")
    assert found.matches == (
        Match(
            line=Line(3, "three"),
            before=(Line(1, "one"), Line(2, "two")),
            after=(Line(4, "four"), Line(5, "five")),
        ),
    )
    assert not found.truncated
    (first,) = text_lines.find(FIVE, "one").matches
    assert (first.before, first.after) == ((), (Line(2, "two"), Line(3, "three")))
    (last,) = text_lines.find(FIVE, "five", context_lines=1).matches
    assert (last.before, last.after) == ((Line(4, "four"),), ())
    (bare,) = text_lines.find(FIVE, "two", context_lines=0).matches
    assert (bare.before, bare.after) == ((), ())


def test_a_pattern_is_plain_unless_it_is_said_to_be_regular() -> None:
    """X-005."""
    assert numbers("a.c\nabc", "a.c") == [1]
    assert numbers("a.c\nabc", "a.c", regex=True) == [1, 2]
    assert numbers("(\n[", "(") == [1]
    assert numbers(FIVE, "^f", regex=True) == [4, 5]


def test_case_counts_unless_it_is_said_not_to() -> None:
    """X-005."""
    assert numbers("Abc\nabc", "abc") == [2]
    assert numbers("Abc\nabc", "ABC", case_sensitive=False) == [1, 2]
    assert numbers("Abc\nabc", "A.C", regex=True, case_sensitive=False) == [1, 2]


def test_no_match_is_an_empty_row() -> None:
    """X-005."""
    assert text_lines.find(FIVE, "six").matches == ()


def test_matches_are_limited_and_it_is_told_that_there_are_more() -> None:
    """X-005: twenty at most unless said otherwise; exactly as many as allowed are not cut."""
    text = "\n".join(["x"] * 21)
    assert numbers(text, "x") == list(range(1, 21))
    assert text_lines.find(text, "x").truncated
    assert not text_lines.find(text, "x", max_matches=21).truncated
    assert numbers(text, "x", max_matches=2) == [1, 2]


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "a{99999999999}", "(?P<a>.)(?P<a>.)"])
def test_what_is_no_regular_expression_is_refused(pattern: str) -> None:
    """X-005."""
    with pytest.raises(ToolError, match="The pattern is no regular expression: "):
        text_lines.find(FIVE, pattern, regex=True)


def test_an_empty_pattern_is_refused() -> None:
    with pytest.raises(ToolError, match="The pattern is empty"):
        text_lines.find(FIVE, "")


@given(st.text("ab\n\t ", max_size=30), st.integers(-3, 12), st.none() | st.integers(0, 12))
def test_a_view_holds_exactly_the_lines_that_it_says(
    text: str, start: int, limit: int | None
) -> None:
    view = text_lines.render(text, start_line=start, limit=limit)
    lines = text_lines.split(text)
    assert view.total == len(lines)
    assert view.start == max(start, 1)
    shown = lines[view.start - 1 : view.end]
    assert view.end - view.start + 1 == len(shown)
    numbered = [f"{view.start + at:>6}\t{line}" for at, line in enumerate(shown)]
    header = [] if len(shown) == len(lines) else view.text.split("\n")[:1]
    assert view.text.split("\n") == [*header, *numbered]
