"""A model's markdown as HTML that can do no harm: no raw HTML, no images, no foreign schemes.

Of an image only its text is left, since its address carries data away the moment that it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import nh3
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

LONGEST = 50_000
"""Characters of a text beyond which it is shown as it is: its rendering would hold others up."""
TAGS = {
    *("p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol", "li", "a"),
    *("h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"a": {"href", "title"}, "pre": {"data-language"}, "ol": {"start"}}
SCHEMES = {"http", "https", "mailto"}
# The parser leaves out what is nested deeper than its limit, and nothing may be left out.
_TOO_DEEP = re.compile(r"^(?:[ \t]*(?:>|[-*+]|\d{1,9}[.)])){60}", re.MULTILINE)
_LANGUAGE = re.compile(r"[\w+#.-]{1,24}")


@lru_cache(maxsize=2048)
def render(text: str) -> SafeString:
    """Return markdown as sanitised HTML; too long or too deeply nested, it comes as plain text."""
    if len(text) > LONGEST or _TOO_DEEP.search(text):
        return format_html('<p class="plain">{}</p>', text)
    html = nh3.clean(
        _parser().render(text),
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )
    return mark_safe(html)  # noqa: S308  # nh3 has just cleaned it


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": 200})
    parser.enable(["table", "strikethrough"])
    parser.core.ruler.push("lower_headings", _lower_headings)
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("image", _image)
    return parser


def _lower_headings(state: StateCore) -> None:
    """Put the text's headings below those of the page that shows it."""
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 2)}"


def _image(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    return escapeHtml(tokens[index].content)


def _fence(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    words = tokens[index].info.split()
    language = words[0] if words and _LANGUAGE.fullmatch(words[0]) else ""
    code = escapeHtml(tokens[index].content)
    return f'<pre data-language="{escapeHtml(language)}"><code>{code}</code></pre>\n'
