"""Programs that misbehave get a verdict with a reason, and nothing of a run is left: no process, no file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from migrator.verify import ForkServer, Status, Verdict, VerifyRequest, record_before, to_text, verify

from .programs import edited, pair

BEFORE, AFTER = pair("mlp")
LOOP = "        optimizer.step()\n"
EQUAL, DIFFERENT, NOT_VERIFIABLE = Status.EQUAL, Status.DIFFERENT, Status.NOT_VERIFIABLE


def marked(mark: str) -> list[int]:
    """Programs that were started with the mark in their environment, whoever their parent is now."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def below(pid: int) -> list[int]:
    """Processes that descend from `pid`; what was orphaned below the fork server belongs to it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents.setdefault(int(parent), []).append(int(entry.name))
    found, level = [], [pid]
    while level:
        level = [child for parent in level for child in parents.get(parent, [])]
        found += level
    return found


def left(mark: str, server: ForkServer, seconds: float = 5.0) -> list[int]:
    """What is still there of a run after a moment."""
    limit = time.monotonic() + seconds
    while True:
        found = marked(mark) + (below(server.pid) if server.pid else [])
        if not found or time.monotonic() > limit:
            return found
        time.sleep(0.05)


@dataclass(frozen=True)
class Fault:
    name: str
    status: Status
    says: str
    before: str = BEFORE
    after: str = AFTER
    timeout: float = 60.0
    within: float = 60.0  # seconds of wall time, on a busy machine


def in_loop(text: str, code: str) -> str:
    return edited(text, (LOOP, LOOP + textwrap.indent(textwrap.dedent(code).strip() + "\n", "        ")))


def at_start(text: str, code: str) -> str:
    return textwrap.dedent(code).strip() + "\n" + text


FAULTS = (
    Fault("the original raises", NOT_VERIFIABLE, "ZeroDivisionError", in_loop(BEFORE, "1 / 0")),
    Fault("the original does not parse", NOT_VERIFIABLE, "SyntaxError", "def f(:\n" + BEFORE),
    Fault("a package is missing", NOT_VERIFIABLE, "no_such_package", at_start(BEFORE, "import no_such_package")),
    Fault("the original ends with a status", NOT_VERIFIABLE, "exit status 3", at_start(BEFORE, "raise SystemExit(3)")),
    Fault(
        "an argument of the original is wrong",
        NOT_VERIFIABLE,
        "exit status 2: train.py: error: the following arguments are required: --data",
        at_start(
            BEFORE,
            "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--data', required=True)\nparser.parse_args()",
        ),
    ),
    Fault(
        "the original hangs", NOT_VERIFIABLE, "time-out", at_start(BEFORE, "import time\ntime.sleep(1000)"), timeout=3.0
    ),
    Fault(
        "it hangs and ignores signals",
        NOT_VERIFIABLE,
        "time-out",
        at_start(
            BEFORE,
            """
        import signal, time
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(1)
        """,
        ),
        timeout=3.0,
    ),
    Fault(
        "the original asks for input",
        NOT_VERIFIABLE,
        "asks for input: 'overwrite?",
        at_start(BEFORE, "input('overwrite? ')"),
    ),
    Fault(
        "the original reads its terminal",
        NOT_VERIFIABLE,
        "asks for input",
        at_start(BEFORE, "import sys\nsys.stdin.readline()"),
    ),
    Fault(
        "the original takes no step",
        NOT_VERIFIABLE,
        "no optimizer step",
        BEFORE.replace("        optimizer.step()\n", ""),
    ),
    Fault(
        "it updates parameters by hand",
        NOT_VERIFIABLE,
        "no optimizer step",
        edited(
            BEFORE,
            ("        optimizer.step()\n", "        for p in net.parameters():\n            p.data -= 0.1 * p.grad\n"),
        ),
    ),
    Fault(
        "it trains in a child process",
        NOT_VERIFIABLE,
        "no optimizer step",
        at_start(textwrap.indent(BEFORE.replace('"""', "#"), "    "), "import os\nif os.fork():\n    os.wait()\nelse:"),
    ),
    Fault(
        "it does not use DataParallel", NOT_VERIFIABLE, "no DataParallel model", BEFORE.replace("nn.DataParallel(", "(")
    ),
    Fault(
        "its device_ids are fewer",
        NOT_VERIFIABLE,
        "--devices 1",
        edited(BEFORE, ("nn.DataParallel(nn.Seq", "nn.DataParallel(device_ids=[0], module=nn.Seq")),
    ),
    Fault(
        "DataParallel runs inside DataParallel",
        NOT_VERIFIABLE,
        "inside a replica of another one",
        edited(
            BEFORE,
            ("nn.DataParallel(nn.Seq", "nn.DataParallel(nn.DataParallel(nn.Seq"),
            (", 3)).cuda())", ", 3)).cuda()))"),
        ),
    ),
    Fault(
        "DataParallel of one device stands around DataParallel",
        EQUAL,
        "EQUAL",
        edited(
            BEFORE,
            ("nn.DataParallel(nn.Seq", "nn.DataParallel(device_ids=[0], module=nn.DataParallel(nn.Seq"),
            (", 3)).cuda())", ", 3)).cuda()))"),
        ),
    ),
    Fault(
        "a second wrapper around the first is never called",
        EQUAL,
        "EQUAL",
        edited(BEFORE, ("optimizer = ", "other = nn.DataParallel(net)\noptimizer = ")),
    ),
    Fault(
        "its batches are too small", NOT_VERIFIABLE, "larger batches", edited(BEFORE, ("batch_size=64", "batch_size=1"))
    ),
    Fault(
        "its loss is not finite",
        NOT_VERIFIABLE,
        "not finite",
        edited(BEFORE, (", y.cuda())", ", y.cuda()) * float('nan')")),
    ),
    Fault("its gradients are zero", NOT_VERIFIABLE, "zero", edited(BEFORE, (", y.cuda())", ", y.cuda()) * 0.0"))),
    Fault("it leaves without a word", NOT_VERIFIABLE, "without a word", in_loop(BEFORE, "import os\nos._exit(0)")),
    Fault("it crashes", NOT_VERIFIABLE, "signal SIGSEGV", in_loop(BEFORE, "import ctypes\nctypes.string_at(0)")),
    Fault(
        "it writes outside its folder",
        NOT_VERIFIABLE,
        "lets a program write into its working folder only",
        in_loop(BEFORE, "import pathlib\npathlib.Path.home().joinpath('mgmigrate_test_file').write_text('x')"),
    ),
    Fault(
        "it catches everything",
        EQUAL,
        "EQUAL",
        edited(
            BEFORE,
            ("for _ in range(3):\n", "for _ in range(3):\n  try:\n"),
            (LOOP, LOOP + "  except BaseException:\n    pass\n"),
        ),
    ),
    Fault(
        "it prints without end",
        EQUAL,
        "EQUAL",
        in_loop(BEFORE, "for i in range(500):\n    print('line', i, 'x' * 2000)"),
    ),
    Fault(
        "it leaves processes behind",
        EQUAL,
        "EQUAL",
        at_start(
            BEFORE,
            "import subprocess\nsubprocess.Popen(['sleep', '1000'])\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)",
        ),
    ),
    Fault(
        "it makes a daemon",
        EQUAL,
        "EQUAL",
        at_start(
            BEFORE,
            """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(0)
        """,
        ),
    ),
    Fault(
        "its loader has workers that sleep",
        EQUAL,
        "EQUAL",
        edited(BEFORE, ("shuffle=True)", "shuffle=True, num_workers=2, persistent_workers=True)")),
    ),
    Fault(
        "one rank raises",
        DIFFERENT,
        "rank 1 stops with ZeroDivisionError",
        after=in_loop(AFTER, "if rank == 1:\n    1 / 0"),
    ),
    Fault(
        "one rank hangs", DIFFERENT, "rank", after=in_loop(AFTER, "import time\nif rank == 1:\n    time.sleep(1000)")
    ),
    Fault(
        "one rank leaves",
        DIFFERENT,
        "steps",
        after=in_loop(AFTER, "if rank == 1 and epoch == 1:\n    raise SystemExit(0)"),
    ),
    Fault(
        "one rank is killed",
        DIFFERENT,
        "rank 1",
        after=in_loop(AFTER, "import signal\nif rank == 1:\n    os.kill(os.getpid(), signal.SIGKILL)"),
    ),
    Fault(
        "all ranks hang",
        NOT_VERIFIABLE,
        "time-out",
        after=at_start(AFTER, "import time\ntime.sleep(1000)"),
        timeout=4.0,
    ),
    Fault("the conversion does not parse", DIFFERENT, "SyntaxError", after="def f(:\n" + AFTER),
    Fault(
        "the conversion stops early",
        DIFFERENT,
        "optimizer steps",
        after=in_loop(AFTER, "if epoch == 1:\n    raise SystemExit(0)"),
    ),
    Fault("the conversion asks for input", DIFFERENT, "asks for input", after=at_start(AFTER, "input()")),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def request(folder: Path, before: str, after: str, mark: str, **options: float) -> VerifyRequest:
    (folder / "train.py").write_text(before)
    (folder / "train_ddp.py").write_text(after)
    return VerifyRequest(
        folder / "train.py",
        folder / "train_ddp.py",
        devices=2,
        cwd=folder,
        patience=3.0,
        environment={"VERIFY_TEST_MARK": mark},
        **{"timeout": 60.0, **options},  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_a_misbehaving_program(server: ForkServer, project: Path, fault: Fault) -> None:
    mark = uuid.uuid4().hex
    wanted = request(project, fault.before, fault.after, mark, timeout=fault.timeout)
    server.start()
    begun = time.monotonic()
    verdict = verify(wanted, server)
    text = to_text(verdict)
    assert (verdict.status, fault.says in text) == (fault.status, True), text
    assert left(mark, server) == []
    assert time.monotonic() - begun < fault.within
    assert sorted(p.name for p in project.iterdir()) == ["train.py", "train_ddp.py"]
    assert not (Path.home() / "mgmigrate_test_file").exists()


def test_the_traceback_is_the_programs_own(server: ForkServer, project: Path) -> None:
    verdict = verify(request(project, in_loop(BEFORE, "1 / 0"), AFTER, uuid.uuid4().hex), server)
    assert "train.py" in verdict.traceback and "1 / 0" in verdict.traceback
    assert "runpy" not in verdict.traceback


def test_files_go_into_the_copy_and_links_are_not_written_through(server: ForkServer, project: Path) -> None:
    large = project / "weights.pt"
    large.write_bytes(b"x" * (2 << 20))  # large enough to be linked instead of copied
    (project / "log.txt").write_text("old\n")
    code = "torch.save(net.state_dict(), 'weights.pt')\nopen('log.txt', 'a').write('new 1\\n')\nopen('made.txt', 'w').write('1')"
    rank0 = f"if rank == 0:\n{textwrap.indent(code, '    ')}"
    verdict = verify(request(project, in_loop(BEFORE, code), in_loop(AFTER, rank0), uuid.uuid4().hex), server)
    assert verdict.status is EQUAL, to_text(verdict)
    assert large.read_bytes() == b"x" * (2 << 20)
    assert (project / "log.txt").read_text() == "old\n"
    assert not (project / "made.txt").exists()


def test_files_that_every_rank_writes_are_found(server: ForkServer, project: Path) -> None:
    code = "torch.save({'model': net.state_dict()}, 'model.pt')"
    wanted = request(project, in_loop(BEFORE, code), in_loop(AFTER, code), uuid.uuid4().hex)
    verdict = verify(wanted, server)
    assert (verdict.status, verdict.cause) == (DIFFERENT, "files"), to_text(verdict)
    assert "ranks 0, 1" in verdict.findings[0].text


def test_checkpoints_with_other_keys_are_found(server: ForkServer, project: Path) -> None:
    before = in_loop(BEFORE, "torch.save({'model': net.state_dict(), 'optimizer': optimizer.state_dict()}, 'model.pt')")
    after = in_loop(AFTER, "if rank == 0:\n    torch.save({'model': net.state_dict()}, 'model.pt')")
    verdict = verify(request(project, before, after, uuid.uuid4().hex), server)
    assert (verdict.status, verdict.cause) == (DIFFERENT, "files"), to_text(verdict)
    assert "optimizer" in verdict.findings[0].text


@pytest.fixture
def other_server() -> Iterator[ForkServer]:
    with ForkServer() as server:
        yield server


def test_a_server_that_dies_takes_its_runs_along(other_server: ForkServer, project: Path) -> None:
    mark = uuid.uuid4().hex
    other_server.start()
    pid = other_server.pid
    assert pid is not None
    kill = f"import os, signal, time\nos.kill({pid}, signal.SIGKILL)\ntime.sleep(1000)"
    verdict = verify(request(project, at_start(BEFORE, kill), AFTER, mark), other_server)
    assert verdict.status is NOT_VERIFIABLE and "fork server" in verdict.reason, to_text(verdict)
    assert left(mark, other_server) == []
    assert below(pid) == []


SCRIPT = """
import sys
from pathlib import Path
from migrator.verify import VerifyRequest, verify
folder = Path(sys.argv[1])
verify(VerifyRequest(folder / "train.py", folder / "train_ddp.py", cwd=folder, devices=2, timeout=60.0,
                     environment={"VERIFY_TEST_MARK": sys.argv[2]}))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM], ids=lambda n: n.name)
def test_ending_the_check_ends_its_runs(project: Path, number: signal.Signals, tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    hang = "import subprocess, time\nsubprocess.Popen(['sleep', '1000'])\ntime.sleep(1000)"
    request(project, at_start(BEFORE, hang), AFTER, mark)
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(project), mark],
        env=environment,
        cwd=Path(__file__).parents[2],
        stderr=subprocess.DEVNULL,
    )
    limit = time.monotonic() + 60
    while len(started := below(process.pid)) < 3 and time.monotonic() < limit:
        time.sleep(0.1)
    assert len(started) >= 3  # the fork server, the original, its child
    process.send_signal(number)
    process.wait(30)
    limit = time.monotonic() + 15
    while any(Path(f"/proc/{pid}").exists() for pid in started) and time.monotonic() < limit:
        time.sleep(0.05)
    assert [pid for pid in started if Path(f"/proc/{pid}").exists()] == []
    limit = time.monotonic() + 15
    while list(scratch.iterdir()) and time.monotonic() < limit:
        time.sleep(0.05)
    assert list(scratch.iterdir()) == []


def test_progress_is_reported(check: Callable[..., Verdict]) -> None:
    seen: list[tuple[str, int, int]] = []
    verdict = check(BEFORE, AFTER, progress=lambda *event: seen.append(event))
    assert verdict.status is EQUAL
    assert {side for side, _, _ in seen} == {"before", "after"}
    assert seen[-1][1] <= verdict.steps


def test_a_program_may_have_modules_of_our_names(server: ForkServer, project: Path) -> None:
    for name in ("migrator", "record", "compare", "codemods"):
        (project / name).mkdir()
        (project / name / "__init__.py").write_text("MINE = True\n")
    use = "import migrator, record, compare, codemods\nassert migrator.MINE and record.MINE and compare.MINE and codemods.MINE\n"
    recording = record_before(request(project, use + BEFORE, AFTER, uuid.uuid4().hex), server)
    assert recording.verdict is None, recording.log


def test_it_runs_a_module_of_a_package(server: ForkServer, project: Path) -> None:
    for side, text in (("one", BEFORE), ("two", AFTER)):
        package = project / side / "pack"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "sizes.py").write_text("WIDTH = 10\n")
        (package / "train.py").write_text(
            edited(
                text,
                ("import torch\n", "import torch\nfrom .sizes import WIDTH\n"),
                ("nn.Linear(10, 32)", "nn.Linear(WIDTH, 32)"),
            )
        )
    verdict = verify(
        VerifyRequest(
            project / "one", project / "two", module="pack.train", devices=2, cwd=project / "one", timeout=60.0
        ),
        server,
    )
    assert verdict.status is EQUAL, to_text(verdict)


def test_it_gives_arguments_and_a_working_folder(server: ForkServer, project: Path) -> None:
    use = "import os, sys\nassert sys.argv[1:] == ['--name', 'a b'] and os.path.exists('data.txt'), sys.argv\n"
    (project / "inner").mkdir()
    (project / "inner" / "data.txt").write_text("1")
    wanted = request(project, use + BEFORE, AFTER, uuid.uuid4().hex)
    recording = record_before(
        VerifyRequest(
            wanted.before, arguments=("--name", "a b"), cwd=project / "inner", root=project, devices=2, timeout=60.0
        ),
        server,
    )
    assert recording.verdict is None, recording.log
