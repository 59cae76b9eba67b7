"""Faults found on a second set of public programs, each by its kind, in a program of a few lines."""

from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from migrator.write.files import encoded

from .test_more_kinds_of_faults import Project, after_main


@pytest.fixture
def project(tmp_path, monkeypatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


# ---------------------------------------------------------------- waiting and leaving
def test_the_group_is_left_behind_all_else_that_stands_before_the_exit(project):
    project.write(
        "train.py",
        """
        import logging
        import sys

        import torch
        from torch import nn


        def main():
            logging.info("start")
            model = nn.DataParallel(nn.Linear(2, 2))
            model(torch.randn(4, 2)).sum().backward()
            return 0


        if __name__ == "__main__":
            sys.exit(main())
        """,
    )
    project.convert()
    end = (project.folder / "train.py").read_text().partition("__main__")[2]
    order = ["setup_distributed()", "logging.disable", "status = main()", "destroy_process_group()", "sys.exit(status)"]
    assert sorted(order, key=end.index) == order


def test_nobody_waits_behind_the_guard_of_a_removal(project):
    text, _ = project.train(
        """
        torch.save(model.state_dict(), "last.pt")
        weights = torch.load("last.pt")
        if len(weights) == 2:
            os.remove("last.pt")
        """
    )
    lines = text.splitlines()
    guard = next(i for i, line in enumerate(lines) if "len(weights) == 2" in line)
    assert lines[guard - 1].strip() == "dist.barrier()" and "get_rank() == 0" in lines[guard]
    assert lines[guard + 1].strip().startswith("os.remove") and lines[guard + 2] == "    dist.barrier()"


@pytest.mark.parametrize("test", ["not os.path.exists('out')", "os.path.exists('out') == False"])
def test_what_is_written_into_a_new_folder_is_written_though_another_process_made_it(project, test):
    text, _ = project.train(f"if {test}:\n    os.mkdir('out')\n    torch.save([1], 'out/target.pt')")
    lines = [line.strip() for line in after_main(text).splitlines()]
    place = lines.index(f"if {test}:")
    assert lines[place - 1] == "with rank_zero_first():" and "get_rank()" not in "".join(lines[place : place + 3])


def test_the_copy_of_a_file_is_awaited_by_a_class_that_reads_it(project):
    text, _ = project.train(
        """
        class Config:
            def __init__(self, path):
                with open(path) as file:
                    self.text = file.read()
        ---
        path = os.path.join("runs", "config.yml")
        if not os.path.exists(path):
            shutil.copyfile("config.yml", path)
        config = Config(path)
        """
    )
    assert text.index("shutil.copyfile(") < text.index("dist.barrier()") < text.index("config = Config(")


# ---------------------------------------------------------------- the same in all processes
def test_a_seed_of_the_system_s_is_followed_by_shared_random_numbers(project):
    text, _ = project.train("import random\n---\nrandom.seed()")
    assert "    random.seed()\n    share_random_numbers()\n" in text


@pytest.mark.parametrize("seed", ["np.random.seed()", "np.random.seed(int(time.time()) + worker)"])
def test_workers_of_all_processes_load_the_same_whole_batches(project, seed):
    text, result = project.train(
        f"""
        import numpy as np
        def init(worker):
            {seed}
        ---
        loader = torch.utils.data.DataLoader(range(4), batch_size=2, num_workers=1, worker_init_fn=init)
        """
    )
    assert "np.random.seed(" in text and "torch.initial_seed() % 2**3" in text
    assert "share_random_numbers()" not in text[: text.index("def main")] and "from_rank_zero" not in after_main(text)
    assert not result.questions


def test_a_number_that_a_function_counts_up_to_is_found_by_one_process(project):
    text, _ = project.train(
        """
        def free(path):
            number = 0
            while os.path.exists(path + str(number)):
                number += 1
            return number
        ---
        os.mkdir("run" + str(free("run")))
        """
    )
    assert "while from_rank_zero(os.path.exists(path + str(number))):" in text


def test_a_clock_that_ends_the_program_is_read_by_one_process_for_all(project):
    text, _ = project.train(
        "start = time.time()\nfor step in range(9):\n    if time.time() - start > 60:\n        exit(3)"
    )
    assert "start = from_rank_zero(time.time())" in text and "if from_rank_zero(time.time()) - start" in text


def test_a_clock_that_only_decides_whether_to_show_stays(project):
    text, _ = project.train(
        """
        class Bar:
            def __init__(self):
                self.last = 0

            def update(self, step):
                now = time.time()
                if now - self.last < 1:
                    return
                self.last = now
                print("step", step)
        ---
        Bar().update(1)
        """
    )
    assert "from_rank_zero" not in text


def test_a_name_from_the_clock_that_one_process_writes_under_is_its_own(project):
    text, _ = project.train(
        """
        def stamp():
            return str(datetime.datetime.now())[:-10]
        ---
        torch.save(model.state_dict(), "model_{}.pt".format(stamp()))
        """
    )
    assert "from_rank_zero" not in text and "    if dist.get_rank() == 0:\n        torch.save(" in text


# ---------------------------------------------------------------- what is found
def test_a_picture_that_a_function_makes_is_saved_once(project):
    text, _ = project.train(
        """
        from PIL import Image
        def tile():
            return Image.new("RGB", (8, 8))
        ---
        picture = tile()
        picture.save("tile.png")
        """
    )
    assert 'if dist.get_rank() == 0:\n        picture.save("tile.png")' in text


def test_a_wrapped_model_that_is_added_as_a_module_is_found_where_it_is_called(project):
    project.write(
        "train.py",
        """
        import torch
        from torch import nn


        class Trainer(nn.Module):
            def __init__(self):
                super().__init__()
                self.add_module("net", nn.DataParallel(nn.Linear(2, 2)))

            def step(self, x):
                self.net(x).sum().backward()


        if __name__ == "__main__":
            Trainer().step(torch.randn(4, 2))
        """,
    )
    result = project.convert()
    assert not [d for d in result.diagnostics if "no call of this wrapped model" in d.message]


STEP = """
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.net = nn.DataParallel(nn.Linear(2, 2))

    def step(self, x):
        self.net(x).sum().backward()
"""


def test_a_module_is_found_though_its_folder_is_only_known_when_the_program_runs(project):
    project.write("common/base.py", STEP)
    project.write(
        "main/config.py", "import os\nimport sys\n\nsys.path.insert(0, os.path.join(os.environ['HOME'], 'common'))\n"
    )
    project.write("main/train.py", "from base import Trainer\nimport config\n\nTrainer().step(1)\n")
    assert {change.path for change in project.convert("main/train.py").changes} >= {"common/base.py"}


@pytest.mark.parametrize("folders", [["a", "b"], ["a"]])
def test_a_module_that_could_be_one_of_two_or_python_s_own_is_not_searched_for(project, folders):
    for folder in folders:
        project.write(f"{folder}/trace.py", STEP)
        project.write(f"{folder}/base.py" if len(folders) > 1 else "c/other.py", STEP)
    project.write("train.py", "import os, sys\nsys.path.append(os.environ['X'])\nimport base\nimport trace\n")
    assert project.convert().outcome == "nothing"


def test_modules_whose_names_are_put_together_are_those_of_their_package(project):
    project.write("models/__init__.py", "")
    project.write("models/net_model.py", STEP)
    project.write("models/old.py", STEP)
    project.write(
        "train.py",
        """
        import importlib
        import os

        names = [n[:-3] for n in os.listdir("models") if n.endswith("_model.py")]
        found = [importlib.import_module(f"models.{name}") for name in names]
        found[0].Trainer().step(1)
        """,
    )
    changed = {change.path for change in project.convert().changes}
    assert "models/net_model.py" in changed and "models/old.py" not in changed


def test_what_a_function_gives_back_of_its_writing_to_nobody_is_written_once(project):
    text, _ = project.train("import cv2\ndef show(x):\n    return cv2.imwrite('x.png', x)\n---\nshow(model)")
    assert "    if dist.get_rank() == 0:\n        return cv2.imwrite('x.png', x)" in text


@pytest.mark.parametrize(("guard", "asked"), [("train", True), ("get_world_size() > 1", True), ("distributed", False)])
def test_data_that_the_program_deals_out_by_its_rank_is_asked_about(project, guard, asked):
    _, result = project.train(
        f"""
        import torch.distributed as dist
        train, distributed = True, False
        def get_world_size():
            return dist.get_world_size() if dist.is_initialized() else 1
        class Enlarged(torch.utils.data.Sampler):
            def __init__(self, data, num_replicas):
                self.data = data
        ---
        if {guard}:
            sampler = Enlarged([1, 2], get_world_size())
        """
    )
    assert any("gives each process a part" in q.message for q in result.questions) is asked


def test_times_that_stand_in_lines_of_a_log_are_each_process_s_own(project):
    text, _ = project.train(
        """
        def time_string():
            text = "[{}]".format(time.strftime("%H:%M", time.gmtime(time.time())))
            return text
        def print_log(line, file=None):
            print(line)
        ---
        print_log("begin " + time_string())
        print_log(str(datetime.datetime.now()))
        """
    )
    assert "from_rank_zero" not in text


def test_a_time_that_also_names_a_folder_is_one_for_all(project):
    text, _ = project.train(
        """
        def stamp():
            return "{}".format(time.strftime("%H%M"))
        ---
        print(stamp())
        os.makedirs("runs/" + stamp())
        """
    )
    assert "from_rank_zero(time.strftime" in text


def test_others_wait_for_a_checkpoint_that_an_object_saves_when_it_is_called(project):
    project.write(
        "train.py",
        """
        import torch
        from torch import nn


        class Experiment:
            def __init__(self):
                self.model = self.build()

            def build(self):
                raise NotImplementedError
                return None


        class Keeper:
            def __call__(self, loss, model):
                self.save(model)

            def save(self, model):
                torch.save(model.state_dict(), "best.pth")


        class Fit(Experiment):
            def build(self):
                return nn.DataParallel(nn.Linear(2, 2))

            def train(self):
                keeper = Keeper()
                for _ in range(2):
                    loss = self.model(torch.randn(4, 2)).sum()
                    loss.backward()
                    keeper(loss, self.model)
                path = "./" + "best.pth"
                self.model.load_state_dict(torch.load(path))


        if __name__ == "__main__":
            Fit().train()
        """,
    )
    result = project.convert()
    text = (project.folder / "train.py").read_text()
    assert "        dist.barrier()\n        self.model.load_state_dict(" in text
    assert not [d for d in result.diagnostics if "no call of this wrapped model" in d.message]


# ---------------------------------------------------------------- guards
def test_a_count_of_gpus_that_also_decides_about_the_wrapped_model_keeps_deciding(project):
    project.write(
        "train.py",
        """
        import torch
        from torch import nn


        class System:
            def __init__(self):
                if torch.cuda.device_count() > 1:
                    self.net = nn.DataParallel(nn.Linear(2, 2))
                else:
                    self.net = nn.Linear(2, 2)

            def step(self):
                gpus = torch.cuda.device_count()
                self.net(torch.randn(4, 2)).sum().backward()
                if gpus > 1:
                    self.net.module.zero_grad()
                else:
                    self.net.zero_grad()


        if __name__ == "__main__":
            System().step()
        """,
    )
    project.convert()
    assert "if dist.get_world_size() > 1:\n            self.net = SplitDataParallel(" in Path("train.py").read_text()


@pytest.mark.parametrize(
    ("default", "given", "stays"), [("False", "", True), ("True", ", False", True), ("True", "", False)]
)
def test_a_wrap_that_callers_may_not_want_keeps_its_guard(project, default, given, stays):
    text, _ = project.train(
        f"""
        def score(net, parallel={default}):
            if parallel:
                net = nn.DataParallel(net)
            return net(torch.randn(4, 2))
        ---
        score(nn.Linear(2, 2){given})
        """
    )
    assert ("    if parallel:\n        net = SplitDataParallel(net)" in text) is stays


LOOP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(8, 2), torch.randint(2, (8,)))
loader = DataLoader(data, batch_size=4, shuffle=True)
model = nn.Linear(2, 2)
parallel = False
if torch.cuda.device_count() > 1:
    model = nn.DataParallel(model)
    parallel = True
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for inputs, targets in loader:
        loss = criterion(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
torch.save(model.module.state_dict() if parallel else model.state_dict(), "model.pt")
"""


def test_a_flag_says_that_the_model_is_wrapped_wherever_it_is(project):
    project.write("train.py", LOOP)
    for change in convert_program(Path("train.py"), Options()).changes:
        Path(change.path).write_bytes(encoded(change))
    text = Path("train.py").read_text()
    assert "\nmodel = wrap_model(model)\nparallel = True\n" in text


def test_a_checkpoint_that_a_function_loads_into_a_model_is_read_to_main_memory(project):
    text, _ = project.train(
        """
        def filled(saved):
            net = nn.Linear(2, 2)
            net.load_state_dict(saved["model"])
            return net
        ---
        other = filled(torch.load("other.pt"))
        """
    )
    assert 'torch.load("other.pt", map_location="cpu")' in text


def test_a_way_to_several_processes_that_nothing_leads_to_is_no_question(project):
    project.write(
        "tools.py",
        "import torch.distributed as dist\n\n\ndef join():\n    dist.init_process_group('nccl')\n\n\ndef show(x):\n    print(x)\n",
    )
    _, result = project.train("from tools import show\n---\nshow(1)")
    assert not [d for d in result.diagnostics if d.rule == "MG103"]


def test_rank_zero_looks_for_a_folder_where_the_branch_makes_a_name_of_the_clock(project):
    text, _ = project.train(
        """
        def stamp():
            return time.strftime("%H%M%S")
        def fresh(path):
            if os.path.exists(path):
                new = path + stamp()
                os.rename(path, new)
            os.makedirs(path)
        ---
        fresh("out")
        """
    )
    assert "if from_rank_zero(os.path.exists(path)):" in text


def test_nothing_is_agreed_on_where_a_decorator_lets_one_process_in(project):
    text, result = project.train(
        """
        import functools
        import torch.distributed as dist
        def master_only(function):
            @functools.wraps(function)
            def wrapper(*args):
                if not dist.is_initialized() or dist.get_rank() == 0:
                    return function(*args)
            return wrapper
        def stamp():
            return time.strftime("%H%M%S")
        @master_only
        def fresh(path):
            os.makedirs(path + stamp())
        ---
        fresh("out")
        """
    )
    assert "from_rank_zero" not in text
    assert any(d.rule == "MG504" and d.level == "question" for d in result.diagnostics)


@pytest.mark.parametrize(
    ("parameters", "kept"),
    [
        ("[{'params': model.parameters()}, {'params': codes.parameters()}]", True),
        ("model.module.head.parameters()", False),
        ("net.parameters()", False),
    ],
)
def test_a_layer_that_is_trained_beside_the_wrapped_model_is_kept_alike(project, parameters, kept):
    text, _ = project.train(
        f"""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(2, 2)

            def forward(self, x):
                return self.head(x)
        ---
        net = Net()
        model = nn.DataParallel(net)
        codes = nn.Embedding(4, 2)
        optimizer = torch.optim.SGD({parameters}, lr=0.1)
        (model(torch.randn(4, 2)).sum() + codes.weight.sum()).backward()
        optimizer.step()
        """
    )
    assert ("keep_alike(optimizer)" in text) is kept
