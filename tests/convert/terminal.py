"""The command line on a pseudo-terminal, as a person meets it."""

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60


class OnTerminal:
    """`mgmigrate` on a pseudo-terminal; every wait has a limit."""

    def __init__(self, folder: Path, *words: str, **variables: str):
        self.master, slave = pty.openpty()
        plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "LESS")}
        environment = {**plain, "PYTHONPATH": str(ROOT), "TERM": "xterm", "PAGER": "cat", **variables}
        command = [sys.executable, "-m", "migrator", "convert", *words]
        self.child = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Control-C gets there
        )
        os.close(slave)
        self.seen = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait(SECONDS)
        os.close(self.master)

    def until(self, text: str | None) -> str:
        """What is printed up to a text, or up to the end."""
        start, limit = len(self.seen), time.monotonic() + SECONDS
        while text is None or text not in self.seen[start:]:
            ready, _, _ = select.select([self.master], [], [], max(0, limit - time.monotonic()))
            assert ready, f"nothing more came; there was:\n{self.seen}"
            try:
                data = os.read(self.master, 65536)
            except OSError:  # Linux: the other side is closed
                data = b""
            if not data:
                assert text is None, f"{text!r} never came; there was:\n{self.seen}"
                break
            self.seen += data.decode()
        return self.seen[start:]

    def send(self, text: str) -> None:
        os.write(self.master, text.encode())

    def end(self) -> int:
        self.until(None)
        return self.child.wait(SECONDS)
