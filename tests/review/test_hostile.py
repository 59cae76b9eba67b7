"""Source text is untrusted: nothing in it becomes markup or script, and nothing in it stays unseen."""

from pathlib import Path

import pytest

from migrator.review.painting import line_html, paint, phrase, prose, shown
from tests.convert.conftest import PROGRAM

from .conftest import convert, page_of
from .reading import Element, read

TAGS = set(
    [
        "document",
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "a",
        "nav",
        "p",
        "ul",
        "ol",
        "li",
        "span",
        "b",
        "main",
        "div",
        "button",
        "kbd",
        "header",
        "h1",
        "h2",
        "h3",
        "section",
        "aside",
        "article",
        "code",
        "pre",
        "dl",
        "dt",
        "dd",
        "figure",
        "figcaption",
        "mark",
        "ins",
        "del",
        "details",
        "summary",
        "i",
        "footer",
        "dialog",
        "form",
        "script",
    ]
)
EVIL = [
    "</script><script>window.pwned = 1</script>",
    "</style><img src=x onerror=pwned()>",
    "\"' onmouseover=pwned() x='",
    "<!-- <script> -->",
    "{{ 7 * 7 }} {% raw %}",
    "]]> &lt;b&gt; &#60;b&#62;",
    "line\u2028separator\u2029here",
    "\u202etxt.exe\u202c \u2066isolated\u2069",
    "zero\u200bwidth \ufeff\u00ad",
    "bell\x07 escape\x1b[31m delete\x7f",
]


def check(page: str) -> Element:
    """Only our elements, no handlers, one script, one style; what cannot be seen is nowhere."""
    document = read(page)
    elements = document.all()
    assert {element.tag for element in elements} <= TAGS
    assert len(document.all("script")) == len(document.all("style")) == 1
    for element in elements:
        assert not [name for name in element.attributes if name.startswith("on") or name in ("src", "style")]
        assert element.attributes.get("href", "#").startswith("#")
    body = document.all("body")[0]
    texts = [e.text for e in body.children if isinstance(e, Element) and e.tag != "script"]
    for unseen in "\u2028\u2029\u202e\u202c\u2066\u2069\u200b\ufeff\xad\x07\x1b\x7f":
        assert not any(unseen in text for text in texts), hex(ord(unseen))
    return document


@pytest.mark.parametrize("evil", EVIL, ids=range(len(EVIL)))
def test_comments_and_strings_stay_text(folder, evil):
    text = PROGRAM.replace('"model.pt"', repr(evil)[:-1].replace("\\u202e", "\u202e") + "'")
    text = text.replace("    optimizer =", f"    # {evil.replace(chr(0x1B), '')}\n    optimizer =")
    document = check(page_of(convert(text)))
    seen = document.all("body")[0].text
    plain = evil.split("\u2028")[0].split("\u202e")[-1].split("\u200b")[0].split("\x07")[0]
    assert plain.split("\u202c")[0] in seen


@pytest.mark.parametrize(
    "name",
    [
        "a<b>c.py",
        'it\'s "quoted" & <script>alert(1)<!--.py',
        "$(touch pwned);`id`.py",
        "-rf.py",
        "new\nline.py",
        "\u202eyp.live.py",
        "\u2028.py",
        "{{ 7 * 7 }}.py",
    ],
    ids=range(8),
)
def test_file_names_stay_text_and_are_quoted_for_the_shell(folder, name):
    conversion = convert(PROGRAM, name)
    document = check(page_of(conversion))
    (program,) = document.all("article")
    assert program.attributes["data-entry"] == name
    import shlex

    words = shlex.split(program.attributes["data-command"])
    assert words[:3] == ["mgmigrate", "convert", f"./{name}" if name.startswith("-") else name]
    assert document.all("title")[0].text.endswith("migration review")


def test_a_file_name_that_is_no_text_does_not_stop_the_page(folder):
    name = b"caf\xe9.py".decode("utf-8", "surrogateescape")
    conversion = convert(PROGRAM, name)
    document = check(page_of(conversion))
    assert "cafU+DCE9.py" in document.all("h1")[0].text


def test_names_of_the_program_in_messages_and_in_the_map_stay_text(folder):
    text = PROGRAM.replace("for epoch in", "for epoch in ['<b>'] and").replace(
        "lr=0.1", "lr=0.1 if '<i onclick=x>' else 1"
    )
    document = check(page_of(convert(text)))
    assert "'<i onclick=x>'" in document.all("dl", class_="map")[0].text


def test_what_a_reader_could_not_see_is_shown_by_its_number():
    assert shown("a\u202eb") == 'a<span class="u">U+202E</span>b'
    assert shown("a\u2028b") == 'a<span class="u">U+2028</span>b'
    assert shown("tab\there") == "tab\there"
    assert shown("שלום <é>") == "שלום &lt;é&gt;"


@pytest.mark.parametrize(
    "text", ["x = 1\n", 'def f():\n\treturn """a\n<b>\n"""  # c\r\n', "𝔘 = '\u202e'\n", "(\n", "\x0c\n'''"]
)
def test_painting_loses_no_character(text):
    lines = paint(text)
    assert "\n".join("".join(part for _, part in line) for line in lines) == text


def test_marks_cut_tokens_where_they_begin_and_end():
    assert line_html([("k", "for"), ("", " x<y")], [(1, 5)]) == (
        "<span class=k>f</span><mark><span class=k>or</span> x</mark>&lt;y"
    )


def test_a_backtick_alone_is_no_code():
    assert phrase("it`s <b>") == "it`s &lt;b&gt;"
    assert prose("a `b<` c") == "A <code>b&lt;</code> c"


def test_the_folder_of_the_program_is_not_asked_for_templates(folder):
    Path("page.html").write_text("{{ 1/0 }}")
    check(page_of(convert(PROGRAM)))
