"""Several files change as one: whatever operation the writer dies at, the next run finds all old or all new."""

import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from migrator.write import journal
from migrator.write.journal import NAME, WriteError, recover, write_all

from .conftest import PLAIN

OPERATIONS = ("open", "write", "fsync", "replace", "link", "unlink", "mkdir", "rmdir", "fchmod", "fchown", "ftruncate")
OLD = {"one.py": b"old one\n", "pkg/two.py": b"old two\n" * 3000}
NEW = {"one.py": b"new one\n" * 3000, "pkg/two.py": b"new two\n", "pkg/helpers.py": b"helpers\n", "more/x.py": b"x\n"}
MODES = {"one.py": 0o750, "pkg/two.py": 0o604}


def make(folder: Path) -> None:
    for name, data in OLD.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(MODES[name])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def is_old(folder: Path) -> bool:
    return contents(folder) == OLD and not (folder / "more").exists()


def is_new(folder: Path) -> bool:
    return contents(folder) == NEW


def write(folder: Path) -> None:
    write_all({folder / name: data for name, data in NEW.items()}, folder)


def count_down(left: int, act: Callable[[str, tuple], None]) -> dict[str, Callable]:
    """Replacements for the operations of `os`: the one with this number acts instead."""
    numbers = iter(range(10_000))

    def counted(name: str, original: Callable) -> Callable:
        original = original if name != "fsync" else lambda handle: None  # slow, and all the same to a kill

        def call(*words, **more):
            if next(numbers) == left:
                act(name, words)
            return original(*words, **more)

        return call

    return {name: counted(name, getattr(os, name)) for name in OPERATIONS}


def die_at(number: int, action: Callable[[], None]) -> bool:
    """Run the action in a child that is killed at the operation with this number; False when it was through before."""
    child = os.fork()
    if child == 0:

        def die(name: str, words: tuple) -> None:
            if name == "write":  # a write may have come half way
                os.pwrite(words[0], bytes(words[1])[: len(words[1]) // 2], os.lseek(words[0], 0, os.SEEK_CUR))
            os._exit(9)

        try:
            for name, call in count_down(number, die).items():
                setattr(os, name, call)
            action()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def killed_everywhere(folder: Path, action: Callable[[Path], None]) -> Iterator[Path]:
    """A fresh tree for every operation of the action, left as the kill left it."""
    for number in range(1000):
        tree = folder / str(number)
        tree.mkdir()
        make(tree)
        if not die_at(number, lambda tree=tree: action(tree)):
            assert number > 20
            return
        yield tree


def test_a_write_that_is_not_disturbed_leaves_the_new_files_and_nothing_else(tmp_path):
    make(tmp_path)
    write(tmp_path)
    assert is_new(tmp_path)
    assert stat.S_IMODE((tmp_path / "one.py").stat().st_mode) == 0o750
    assert stat.S_IMODE((tmp_path / "pkg/two.py").stat().st_mode) == 0o604


def test_after_a_kill_at_any_operation_the_next_run_finds_all_old_or_all_new(tmp_path, cli):
    seen = set()
    for tree in killed_everywhere(tmp_path, write):
        (tree / "plain.py").write_text(PLAIN)
        pending = (tree / NAME).exists()
        done = cli("scan", tree)
        (tree / "plain.py").unlink()
        assert done.code == 0, done.stderr
        assert len(done.stderr.splitlines()) == pending, done.stderr
        assert is_old(tree) or is_new(tree), sorted(contents(tree))
        if is_old(tree):
            assert all(stat.S_IMODE((tree / name).stat().st_mode) == mode for name, mode in MODES.items())
        seen.add((is_new(tree), pending))
    assert seen == {(False, False), (False, True), (True, True)}


def test_a_recovery_that_is_killed_at_any_operation_is_finished_by_the_next(tmp_path):
    tree = tmp_path / "one"
    for late in (12, 34, 38, 42, 47):  # before, between and after the replacing, and while cleaning up
        for number in range(100):
            tree.mkdir()
            make(tree)
            assert die_at(late, lambda: write(tree))
            dead = die_at(number, lambda: recover(tree / NAME))
            if (tree / NAME).exists():
                recover(tree / NAME)
            assert is_old(tree) or is_new(tree), (late, number)
            for path in sorted(tree.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            tree.rmdir()
            if not dead:
                break


def test_a_disk_that_is_full_at_any_operation_leaves_everything_old(tmp_path, monkeypatch):
    def full(name: str, words: tuple) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for number in range(1000):
        tree = tmp_path / str(number)
        tree.mkdir()
        make(tree)
        with monkeypatch.context() as patch:
            for name, call in count_down(number, full).items():
                patch.setattr(os, name, call)
            try:
                write(tree)
            except WriteError as error:
                told = error
            else:
                assert number > 20
                return
        assert "No space left" in str(told)
        if told.outcome == "nothing was written":
            assert is_old(tree), number
        else:
            assert told.outcome.startswith("everything was written"), number
            recover(tree / NAME)
            assert is_new(tree), number


def test_what_cannot_be_undone_now_is_undone_by_the_next_run(tmp_path, monkeypatch):
    make(tmp_path)
    replace, count = os.replace, iter(range(100))

    def only_first(source: str, target: str) -> None:
        if next(count):
            raise OSError(errno.EIO, "Input/output error", target)
        replace(source, target)

    with monkeypatch.context() as patch, pytest.raises(WriteError) as told:
        patch.setattr(os, "replace", only_first)
        write(tmp_path)
    assert told.value.outcome == "the next run of mgmigrate in this tree puts everything back"
    assert not is_old(tmp_path)
    assert "an interrupted --write was undone: 4 files are as before" in (recover(tmp_path / NAME) or "")
    assert is_old(tmp_path)


def interrupted(folder: Path) -> None:
    """All targets are replaced, and the journal does not say so."""
    make(folder)
    replace, count = os.replace, iter(range(len(NEW)))

    def last_dies(source: str, target: str) -> None:
        replace(source, target)
        if next(count) == len(NEW) - 1:
            os._exit(9)

    child = os.fork()
    if child == 0:
        try:
            os.replace, os.fsync = last_dies, lambda handle: None
            write(folder)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_what_the_user_changed_after_the_interruption_is_not_touched(tmp_path):
    interrupted(tmp_path)
    (tmp_path / "one.py").write_bytes(b"my own work\n")
    before = contents(tmp_path)
    with pytest.raises(
        WriteError, match=r"one\.py: was changed after a --write of it was interrupted; its old content"
    ):
        recover(tmp_path / NAME)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("field", ["target", "old", "new"])
@pytest.mark.parametrize("path", ["../outside.py", "/etc/outside.py", "link/outside.py"])
def test_a_journal_is_not_believed_about_files_outside_its_folder(tmp_path, field, path):
    tree, away = tmp_path / "tree", tmp_path / "away"
    tree.mkdir()
    away.mkdir()
    (tree / "link").symlink_to(away)
    (away / "outside.py").write_text("x")
    interrupted(tree)
    document = json.loads((tree / NAME).read_bytes().partition(b"\n")[0])
    document["files"][0][field] = path
    (tree / NAME).write_text(json.dumps(document) + "\n")
    before = contents(tree)
    with pytest.raises(WriteError, match="is not a journal of mgmigrate; remove it"):
        recover(tree / NAME)
    assert contents(tree) == before
    assert (away / "outside.py").read_text() == "x"


def test_a_process_that_still_writes_is_left_alone(tmp_path, cli):
    interrupted(tmp_path)
    before = contents(tmp_path)
    with open(tmp_path / NAME) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        done = cli("scan", ".")
    assert done.code == 4
    assert "another mgmigrate is writing there" in done.stderr
    assert contents(tmp_path) == before
    assert "was undone" in cli("scan", ".").stderr


@pytest.mark.parametrize(
    "words",
    [["convert", "pkg/two.py"], ["convert", "."], ["scan", "pkg"], ["verify", "one.py"], ["advise", "one.py"]],
    ids=" ".join,
)
def test_every_command_settles_the_journal_above_and_below_its_paths(cli, tmp_path, words):
    interrupted(tmp_path)
    cli(*words)
    assert is_old(tmp_path)


def test_links_stay_links_and_files_without_hard_links_are_copied(tmp_path, monkeypatch):
    def refused(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    make(tmp_path)
    (tmp_path / "link.py").symlink_to("one.py")
    monkeypatch.setattr(os, "link", refused)
    write_all({tmp_path / "link.py": b"new\n", tmp_path / "pkg/two.py": b"2\n"}, tmp_path)
    assert (tmp_path / "link.py").is_symlink()
    assert (tmp_path / "one.py").read_bytes() == b"new\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.py", "one.py", "pkg"]


def test_one_read_only_file_among_several_leaves_all_as_they_were(tmp_path):
    make(tmp_path)
    (tmp_path / "pkg/two.py").chmod(0o444)
    with pytest.raises(WriteError, match=r"two\.py: is read-only"):
        write(tmp_path)
    assert is_old(tmp_path)


def test_the_journal_is_on_the_disk_before_the_first_target_changes(tmp_path, monkeypatch):
    make(tmp_path)
    events: list[str] = []
    flush, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("flush"), flush(handle))[1])
    monkeypatch.setattr(os, "replace", lambda *words: (events.append("replace"), replace(*words))[1])
    write(tmp_path)
    first = events.index("replace")
    assert events[:first].count("flush") >= 2 + len(NEW) + 1
    assert events[first:].count("flush") >= 2
    assert journal.NAME not in {p.name for p in tmp_path.iterdir()}
