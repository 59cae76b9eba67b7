"""A converted file that is given alone brings the modules that lie beside it."""

from pathlib import Path

from migrator.verify import VerifyRequest
from migrator.verify.check import copy_after, find_places


def test_helpers_beside_a_converted_file_take_their_place_in_the_copy(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder in (before / "tools", after):
        folder.mkdir(parents=True)
    (before / "tools" / "train.py").write_text("print('before')\n")
    (before / "tools" / "log.py").write_text("old = 1\n")
    (after / "train.py").write_text("import helpers, log\n")
    (after / "helpers.py").write_text("rank = 0\n")
    (after / "log.py").write_text("new = 1\n")
    request = VerifyRequest(
        before=before / "tools" / "train.py", after=after / "train.py", cwd=before, root=before, devices=2
    )
    copy_after(request, find_places(request), tmp_path / "copy")
    tools = tmp_path / "copy" / "tools"
    assert (tools / "train.py").read_text() == "import helpers, log\n"
    assert (tools / "helpers.py").read_text() == "rank = 0\n"
    assert (tools / "log.py").read_text() == "new = 1\n"
    assert (before / "tools" / "log.py").read_text() == "old = 1\n"
