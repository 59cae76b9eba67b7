"""Read source files without losing a byte.

In: bytes, or a path.  Out: a `Source`, or the `Notebook` that one is.  Never guesses an encoding.
"""

from __future__ import annotations

import io
import stat
import tokenize
from pathlib import Path

from migrator.load.source import Source, SourceError, most_bytes, too_large


def decode_source(path: str, data: bytes) -> Source:
    """Decode by byte order mark or coding line (PEP 263); raise `SourceError` for binary or undecodable bytes."""
    if len(data) > most_bytes(path):
        raise SourceError(path, too_large(path))
    if path.endswith(".ipynb"):
        from migrator.notebooks.notebook import read_notebook

        return read_notebook(path, data)
    if b"\0" in data:
        raise SourceError(path, "is not a Python source file (it holds null bytes)")
    bom = data.startswith(b"\xef\xbb\xbf")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        encoding = "utf-8" if bom else encoding
        text = data[3 if bom else 0 :].decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise SourceError(path, f"cannot be decoded: {error}") from error
    source = Source(path, text, encoding, bom)
    if source.encode(text) != data:
        raise SourceError(
            path, f"cannot be written back without a change: {encoding} spells some characters in two ways"
        )
    return source


def read_source(path: Path, name: str | None = None) -> Source:
    """Read a file; raise `SourceError` with one clear line for whatever the disk or the decoder refuses."""
    shown = name or str(path)
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise SourceError(shown, "is a folder" if stat.S_ISDIR(mode) else "is not a regular file")
        data = path.read_bytes()
    except OSError as error:
        if path.is_symlink() and isinstance(error, FileNotFoundError):
            raise SourceError(shown, "is a broken symbolic link") from error
        raise SourceError(shown, f"cannot be read: {error.strerror or error}") from error
    return decode_source(shown, data)
