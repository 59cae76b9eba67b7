"""Runs of small programs under the hooks, forked from one interpreter that has imported torch."""

import json
import os
import runpy
import sys
import textwrap
import time

import pytest

from benchmarks.launch import RUN

MLP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(SAMPLES, 16), torch.randint(4, (SAMPLES,)))
loader = DataLoader(data, batch_size=8, shuffle=True, drop_last=True)
model = nn.DataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        for x, y in loader:
            model(x)
print("done")
"""


@pytest.fixture
def forked(tmp_path):
    """Run a program with the hooks in forks: forked(text, ranks=1, **settings) gives the ranks' documents."""
    import torch
    import torch._dynamo
    import torch.distributed
    import torch.profiler
    import torch.utils.data  # noqa: F401  (once, before the forks)

    def run(text, ranks=1, files=None, **changed):
        project, folder = tmp_path / "project", tmp_path / "out"
        project.mkdir(exist_ok=True)
        folder.mkdir(exist_ok=True)
        for name, content in {"train.py": text, **(files or {})}.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(textwrap.dedent(content))
        settings = {
            "folder": str(folder),
            "variant": "ddp",
            "entry": str(project / "train.py"),
            "arguments": ["--flag"],
            "device": "cpu",
            "warmup": 2,
            "steps": 3,
            "windows": 2,
            "profile_steps": 0,
            "workers": None,
            "module": None,
            "path": None,
            "rows": None,
            "pretend_cuda": False,
            "fake_data": 0,
            "prelude": "",
            "launcher": os.getpid(),
            "started": time.time(),
            **changed,
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        children = []
        for rank in range(ranks):
            child = os.fork()
            if child == 0:
                become(rank, ranks, folder, project)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        documents = [json.loads(p.read_text()) for p in sorted(folder.glob("rank.*.json"))]
        return Ran(codes, documents, folder)

    return run


class Ran:
    def __init__(self, codes, documents, folder):
        self.codes, self.documents, self.folder = codes, documents, folder

    @property
    def error(self):
        paths = sorted(self.folder.glob("error.*.json"))
        return json.loads(paths[0].read_text()) if paths else None

    @property
    def log(self):
        return (self.folder / "log.0").read_text()


def become(rank, ranks, folder, project):
    """The fork's side: output into a file, the environment of a rank, then the starter as a script."""
    try:
        log = os.open(folder / f"log.{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        os.chdir(project)
        import torch

        torch.set_num_threads(1)
        if ranks > 1:
            store = f"file://{folder}/store"
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), STORE=store)
            os.environ["LOCAL_WORLD_SIZE"] = str(ranks)
        for name in [n for n in sys.modules if n == "benchmarks" or n.startswith("benchmarks.")]:
            del sys.modules[name]
        sys.path = [str(RUN.parent), *(p for p in sys.path if os.path.isdir(os.path.join(p, "torch")) or "lib" in p)]
        sys.argv = [str(RUN), str(folder / "settings.json")]
        runpy.run_path(str(RUN), run_name="__main__")
    finally:
        os._exit(99)  # the starter ends by itself
