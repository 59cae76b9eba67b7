"""Bytes in, bytes out: encodings, newlines, marks, and what is refused with one clear line."""

import codecs
import os
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from migrator.load.read import decode_source, read_source
from migrator.load.source import Source, SourceError, parse_tree, rename_async_keywords
from migrator.write.files import encoded

PROGRAM = """\
import torch
from torch import nn

NAME = "{word}"  # {word}
model = nn.DataParallel(nn.Linear(4, 2))
for step in range(2):
    loss = model(torch.ones(4, 4)).sum()  # {word}
    loss.backward()
    torch.save(model.state_dict(), NAME)
"""


def converted(data: bytes, tmp_path: Path) -> bytes:
    path = tmp_path / "train.py"
    path.write_bytes(data)
    change = convert_program(path, Options()).changes[0]
    return encoded(change)


# ---------------------------------------------------------------- round trips
@pytest.mark.parametrize(
    ("encoding", "word"),
    [("utf-8", "größe ✓ 数据"), ("latin-1", "größe"), ("cp1252", "gr€ße"), ("gbk", "数据"), ("shift_jis", "データ")],
)
def test_a_coding_line_is_obeyed_and_untouched_bytes_stay(encoding, word, tmp_path):
    data = (f"# -*- coding: {encoding} -*-\n" + PROGRAM.format(word=word)).encode(encoding)
    after = converted(data, tmp_path)
    assert after != data
    assert after.count(word.encode(encoding)) == 3
    kept = [line for line in data.splitlines(keepends=True) if word.encode(encoding) in line]
    assert all(line in after for line in kept)
    assert "nn.DataParallel(" not in after.decode(encoding)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_newlines_stay_and_new_lines_have_the_same(newline, tmp_path):
    data = PROGRAM.format(word="x").replace("\n", newline).encode()
    after = converted(data, tmp_path).decode()
    assert after.count(newline) > data.decode().count(newline)
    rest = after.replace(newline, "")
    assert "\n" not in rest
    assert "\r" not in rest


def test_mixed_newlines_stay_on_their_lines(tmp_path):
    lines = PROGRAM.format(word="x").splitlines()
    data = "".join(line + ("\r\n" if n % 2 else "\n") for n, line in enumerate(lines)).encode()
    after = converted(data, tmp_path)
    assert b'NAME = "x"  # x\r\n' in after
    assert b"for step in range(2):\r\n" in after
    assert b"loss = model(torch.ones(4, 4)).sum()  # x\n" in after


def test_a_byte_order_mark_stays_the_first_thing(tmp_path):
    after = converted(codecs.BOM_UTF8 + PROGRAM.format(word="ü").encode(), tmp_path)
    assert after.startswith(codecs.BOM_UTF8)
    assert after.count(codecs.BOM_UTF8) == 1


@pytest.mark.parametrize("end", ["", "\n\n\n", "\n# end", "\n\f\n"])
def test_the_end_of_the_file_stays_as_it_is(end, tmp_path):
    text = PROGRAM.format(word="x").rstrip("\n").replace("    torch.save", "torch.save") + end
    after = converted(text.encode(), tmp_path).decode()
    assert after.endswith(end)
    assert after.endswith("\n") == text.endswith("\n")


@pytest.mark.parametrize("start", ["\f", "\f\f# page\n", "#!/usr/bin/env python\n\f\n", "\n\n", "'''Doc.'''\n\f\n"])
def test_the_start_of_the_file_stays_as_it_is(start, tmp_path):
    assert converted((start + PROGRAM.format(word="x")).encode(), tmp_path).startswith(start.encode())


def test_tabs_stay_and_new_blocks_have_tabs(tmp_path):
    text = PROGRAM.format(word="x").replace("    ", "\t")
    after = converted(text.encode(), tmp_path).decode()
    assert "\tloss.backward()\n" in after
    assert "\n    " not in after.replace('"""', "")
    assert "\tif " in after


def test_trailing_spaces_and_odd_spacing_stay(tmp_path):
    text = PROGRAM.format(word="x").replace("loss.backward()", "loss . backward( )   ").replace("NAME =", "NAME  =")
    after = converted(text.encode(), tmp_path).decode()
    assert "    loss . backward( )   \n" in after
    assert 'NAME  = "x"' in after


def test_separators_that_python_does_not_take_for_newlines(tmp_path):
    text = PROGRAM.format(word="a\x0c b\x1c c\x85 d\u2028 e")
    after = converted(text.encode(), tmp_path).decode()
    assert after.count("a\x0c b\x1c c\x85 d\u2028 e") == 3


# ---------------------------------------------------------------- async
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.cuda(async=True)", "x.cuda(asinc=True)"),
        ("x.cuda(async = True)", "x.cuda(asinc = True)"),
        ("x.cuda(0, async=True), y.cuda(async=a)", "x.cuda(0, asinc=True), y.cuda(asinc=a)"),
        ("x.cuda(\n    async=True)", "x.cuda(\n    asinc=True)"),
        ("'(async=True)'", "'(async=True)'"),
        ("# (async=True)\nf(async=1)", "# (async=True)\nf(asinc=1)"),
        ("x = '''\n(async=1)'''; f(async=1)", "x = '''\n(async=1)'''; f(asinc=1)"),
        ("async def f():\n    pass", "async def f():\n    pass"),
        ("'ü', f(async=1)", "'ü', f(asinc=1)"),
        ("a\r\nf(async=1)\r\n", "a\r\nf(asinc=1)\r\n"),
        ("f(async == 1)", "f(async == 1)"),
    ],
)
def test_async_arguments_get_a_name_of_the_same_length(before, after):
    assert rename_async_keywords(before) == after
    assert len(before) == len(after)


def test_async_in_what_cannot_be_tokenized_is_left_to_the_parser():
    assert rename_async_keywords("f(async=1\n'''") == "f(async=1\n'''"


def test_async_argument_becomes_non_blocking(tmp_path):
    text = PROGRAM.format(word="x").replace("torch.ones(4, 4)", "torch.ones(4, 4).cuda(async=True)")
    after = converted(text.encode(), tmp_path).decode()
    assert "cuda(non_blocking=True)" in after
    assert "async" not in after
    assert "asinc" not in after


# ---------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x = 1\0\n", "holds null bytes"),
        ("x = 1\n".encode("utf-16"), "holds null bytes"),
        (b"x = '\xff'\n", "cannot be decoded"),
        (b"# coding: klingon\nx = 1\n", "cannot be decoded: unknown encoding"),
        (codecs.BOM_UTF8 + b"# coding: latin-1\nx = 1\n", "cannot be decoded"),
        (b"#" * (5 << 20), "is larger than 1 MiB"),
    ],
    ids=["null", "utf-16", "bad bytes", "unknown", "mark and coding disagree", "large"],
)
def test_what_cannot_be_decoded(data, message):
    with pytest.raises(SourceError, match=message) as error:
        decode_source("a.py", data)
    assert str(error.value).startswith("a.py: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("x = 1\ny = (\n", 2, 5, "was never closed"),
        ("def f(:\n", 1, 7, "invalid syntax"),
        ("if x:\n\ty\n        z\n", 3, 0, "inconsistent use of tabs"),
        ("print 'x'\n", 1, 1, "Python 2"),
        ("try:\n    x\nexcept A, b:\n    y\n", 3, 8, "Python 2"),
    ],
)
def test_syntax_errors_name_their_place(text, line, column, message):
    with pytest.raises(SourceError, match=message) as error:
        parse_tree(Source("a.py", text))
    assert error.value.line == line
    assert column == 0 or error.value.column == column
    assert str(error.value).startswith(f"a.py:{line}:")


@pytest.mark.parametrize(
    "text",
    ["x = " + "(" * 500 + ")" * 500, "x = " + "-" * 50000 + "1", "x" + ".a" * 50000, "\n" * 100_001],
    ids=["brackets", "signs", "attributes", "lines"],
)
def test_monstrous_files_are_one_clear_error(text):
    with pytest.raises(SourceError) as error:
        parse_tree(Source("a.py", text))
    assert "\n" not in str(error.value)


def test_parsing_warns_of_nothing(recwarn):
    parse_tree(Source("a.py", "x = '\\d'\nx is 1\n"))
    assert not recwarn.list


def test_missing_file(tmp_path):
    with pytest.raises(SourceError, match="cannot be read: No such file"):
        read_source(tmp_path / "a.py")


def test_broken_link(tmp_path):
    (tmp_path / "a.py").symlink_to(tmp_path / "b.py")
    with pytest.raises(SourceError, match="is a broken symbolic link"):
        read_source(tmp_path / "a.py")


def test_link_to_itself(tmp_path):
    (tmp_path / "a.py").symlink_to(tmp_path / "a.py")
    with pytest.raises(SourceError, match="cannot be read"):
        read_source(tmp_path / "a.py")


def test_folder(tmp_path):
    with pytest.raises(SourceError, match="is a folder"):
        read_source(tmp_path)


def test_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.py")
    with pytest.raises(SourceError, match="is not a regular file"):
        read_source(tmp_path / "a.py")
