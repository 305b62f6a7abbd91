"""What a reader cannot see, or takes for something else, gets a mark."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sagents_app import hidden_characters
from sagents_app.hidden_characters import Part, reveal


@dataclass(frozen=True)
class Case:
    text: str
    parts: tuple[Part, ...]


CASES = [
    Case("plain\ttext\nwith lines", (Part("plain\ttext\nwith lines"),)),
    Case("Grüße, 価格 5 €", (Part("Grüße, 価格 5 €"),)),
    Case(
        "pay \u202eevil\u202c",
        (
            Part("pay "),
            Part("", "U+202E", "RIGHT-TO-LEFT OVERRIDE"),
            Part("evil"),
            Part("", "U+202C", "POP DIRECTIONAL FORMATTING"),
        ),
    ),
    Case("a\u200b\u200b\u200bb", (Part("a"), Part("", "U+200B", "ZERO WIDTH SPACE", 3), Part("b"))),
    Case("\x1b[2J", (Part("", "U+001B", "ESCAPE"), Part("[2J"))),
    Case("one\rtwo", (Part("one"), Part("", "U+000D", "CARRIAGE RETURN"), Part("two"))),
    Case("10\u00a0000", (Part("10"), Part("", "U+00A0", "NO-BREAK SPACE"), Part("000"))),
    Case("\u3164", (Part("", "U+3164", "HANGUL FILLER"),)),
    Case(
        "p\u0430ypal",
        (Part("p"), Part("\u0430", "U+0430", "CYRILLIC SMALL LETTER A"), Part("ypal")),
    ),
    Case("\u043f\u0440\u0438\u0432\u0435\u0442", (Part("\u043f\u0440\u0438\u0432\u0435\u0442"),)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: ascii(case.text))
def test_a_text_is_shown_with_its_marks(case: Case) -> None:
    assert reveal(case.text) == case.parts


def test_no_character_is_lost() -> None:
    text = "a\u200b\u200bb\u202ec\u00ad \u0430bc\U000e0041"
    rebuilt = "".join(
        part.text or chr(int(part.code[2:], 16)) * part.count for part in reveal(text)
    )
    assert rebuilt == text


def test_a_text_full_of_marks_is_written_in_escapes() -> None:
    (part,) = reveal("a\u200b" * 10_000)
    assert part.text == "a\\u200b" * 10_000


def test_escapes_are_those_of_json() -> None:
    assert hidden_characters.escape("x\u202e\U000e0041 ü") == "x\\u202e\\udb40\\udc41 ü"
