"""A converted file that is given alone brings the modules that lie beside it."""

from pathlib import Path

import pytest

from migrator.verify import VerifyRequest
from migrator.verify.places import after_entry, copy_after, find_places


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


def test_a_folder_of_changed_files_is_laid_over_the_project(tmp_path: Path) -> None:
    """What `convert tools/train.py --output converted` writes, checked from the folder above."""
    root = tmp_path / "project"
    (root / "tools" / "parts").mkdir(parents=True)
    for name in ("tools/train.py", "tools/log.py", "tools/parts/model.py", "other.py"):
        (root / name).write_text("old = 1\n")
    for folder, name in ((root / "converted", "train.py"), (tmp_path / "outside", "tools/train.py")):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("new = 1\n")
        (folder / name).with_name("ddp_helpers.py").write_text("rank = 0\n")
    for number, after in enumerate((root / "converted", root / "converted" / "train.py", tmp_path / "outside")):
        request = VerifyRequest(before=root / "tools" / "train.py", after=after, cwd=root, devices=2)
        places, target = find_places(request), tmp_path / f"copy{number}"
        copy_after(request, places, target)
        assert after_entry(request, places) == Path("tools/train.py")
        assert (target / "tools" / "train.py").read_text() == "new = 1\n"
        assert (target / "tools" / "ddp_helpers.py").is_file()
        assert (target / "tools" / "log.py").read_text() == (target / "tools/parts/model.py").read_text() == "old = 1\n"
        assert (root / "tools" / "train.py").read_text() == "old = 1\n"


def test_a_whole_copy_stands_for_itself(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder in (before, after):
        folder.mkdir()
        (folder / "train.py").write_text("print(1)\n")
    (before / "notes.txt").write_text("old\n")
    copy_after(
        VerifyRequest(before / "train.py", after, cwd=before),
        find_places(VerifyRequest(before / "train.py", cwd=before)),
        tmp_path / "copy",
    )
    assert [p.name for p in (tmp_path / "copy").iterdir()] == ["train.py"]


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    for name in ("before/train.py", "after/other.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("print(1)\n")
    request = VerifyRequest(tmp_path / "before" / "train.py", tmp_path / "after", cwd=tmp_path / "before")
    with pytest.raises(ValueError, match="none of the program's files"):
        copy_after(request, find_places(request), tmp_path / "copy")


def test_a_converted_file_of_another_name_runs_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for name in ("old/train.py", "old/train_ddp.py"):
        (tmp_path / name).write_text("print(1)\n")
    request = VerifyRequest(tmp_path / "old" / "train.py", tmp_path / "old" / "train_ddp.py", cwd=tmp_path)
    assert after_entry(request, find_places(request)) == Path("old/train_ddp.py")
