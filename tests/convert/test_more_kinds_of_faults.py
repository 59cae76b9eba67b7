"""Faults found on programs that the converter had never seen, each by its kind, in a program of a few lines."""

import ast
from pathlib import Path
from textwrap import dedent

import pytest

from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.pipeline import convert_program
from migrator.write.files import encoded

HEAD = """\
import datetime
import os
import shutil
import time

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

"""


class Project:
    """A small program on disk; every conversion is checked to parse and to change nothing the second time."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / ".git").mkdir()

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))

    def convert(self, entry: str = "train.py") -> Conversion:
        first = convert_program(Path(entry), Options(sampling="call"))
        for change in first.changes:
            ast.parse(change.after)
            Path(change.path).write_bytes(encoded(change))
        assert not convert_program(Path(entry), Options(sampling="call")).changes
        return first

    def train(self, body: str, wrap: str = "nn.DataParallel(nn.Linear(2, 2))") -> tuple[str, Conversion]:
        """Convert a script with a wrap, one step, and the given statements in its main function."""
        lines = dedent(body).splitlines()
        split = next((i for i, line in enumerate(lines) if line == "---"), 0)
        top, rest = (lines[:split], lines[split + 1 :]) if "---" in lines else ([], lines)
        main = ["def main():", f"    model = {wrap}", "    model(torch.randn(4, 2)).sum().backward()"]
        main += [f"    {line}" if line else "" for line in rest]
        text = HEAD + "\n".join([*top, "", "", *main, "", "", 'if __name__ == "__main__":', "    main()"]) + "\n"
        (self.folder / "train.py").write_text(text)
        result = self.convert()
        return (self.folder / "train.py").read_text(), result


@pytest.fixture
def project(tmp_path, monkeypatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


def after_main(text: str) -> str:
    return text[text.index("def main") :]


# ---------------------------------------------------------------- waiting where not all come
def test_nobody_waits_inside_a_try_for_a_process_that_met_an_exception(project):
    text, _ = project.train("try:\n    os.remove('old.pt')\nexcept OSError:\n    pass\nprint('next')")
    assert "    if dist.get_rank() == 0:\n        try:\n            os.remove('old.pt')" in text
    assert text.index("except OSError") < text.index("dist.barrier()") < text.index("print('next')")


def test_nobody_waits_in_a_branch_that_depends_on_files(project):
    text, _ = project.train(
        "if os.path.isdir('out'):\n    shutil.rmtree('out')\n    count = 1\nelse:\n    count = 0\nprint(count)"
    )
    assert "if dist.get_rank() == 0:\n            shutil.rmtree('out')" in text
    assert "barrier" not in text


def test_rank_zero_prepares_missing_files_first(project):
    text, _ = project.train(
        "if not os.path.exists('data.bin'):\n    names = os.listdir('.')\n    os.system('fetch ' + names[0])\nprint('ready')"
    )
    assert "    with rank_zero_first():\n        if not os.path.exists('data.bin'):\n" in text
    assert "        os.system('fetch ' + names[0])" in text


def test_nobody_waits_in_a_loop_over_files(project):
    text, _ = project.train(
        "import glob\n---\nfor f in glob.glob('*.tmp'):\n    os.remove(f)\n    count = f\nprint(count)"
    )
    assert "barrier" not in text and "if dist.get_rank() == 0:\n            os.remove(f)" in text


# ---------------------------------------------------------------- values of the clock
def test_no_name_is_agreed_on_where_one_process_writes_alone(project):
    text, _ = project.train("with open('log.txt', 'a') as f:\n    f.write(f'{datetime.datetime.now()} done')")
    assert "from_rank_zero" not in text


def test_a_writer_that_one_process_makes_needs_no_common_name(project):
    text, _ = project.train("writer = SummaryWriter('runs/' + time.strftime('%H%M'))\nwriter.close()")
    assert "from_rank_zero" not in after_main(text) and "NoWriter()" in text


def test_stop_watches_and_shown_times_stay(project):
    text, _ = project.train(
        """\
        start = datetime.datetime.now()
        stamp = time.strftime('%H:%M')
        line = 'at %s' % stamp
        print(line, datetime.datetime.now() - start)
        """
    )
    assert "from_rank_zero" not in text


def test_a_folder_named_by_the_clock_is_one_folder_for_all(project):
    text, _ = project.train("stamp = time.strftime('%H%M')\nfolder = os.path.join('runs', stamp)\nos.makedirs(folder)")
    assert "stamp = from_rank_zero(time.strftime('%H%M'))" in text


def test_a_part_of_a_spelled_time_is_agreed_on_as_one_value(project):
    text, _ = project.train(
        "stamp = str(datetime.datetime.now()).split('.')[0].replace(' ', '_')\nopen('log_' + stamp, 'w').close()"
    )
    assert "stamp = from_rank_zero(str(datetime.datetime.now()).split('.')[0].replace(' ', '_'))\n" in text


def test_a_clock_that_only_decides_about_showing_is_no_question(project):
    _, result = project.train("shown = 0.0\nif time.time() - shown > 10:\n    print('alive')")
    assert not result.questions


def test_a_clock_that_ends_the_training_is_read_by_one_process_for_all(project):
    text, result = project.train(
        "start = time.time()\nfor _ in range(9):\n    if time.time() - start > 10:\n        break"
    )
    assert "start = from_rank_zero(time.time())" in text and not result.questions
    assert "if from_rank_zero(time.time()) - start > 10:" in text


# ---------------------------------------------------------------- folders and GPUs
def test_an_own_function_called_mkdir_keeps_its_arguments(project):
    project.write(
        "tools.py", "import os\n\n\ndef mkdir(path):\n    if not os.path.exists(path):\n        os.mkdir(path)\n"
    )
    text, _ = project.train("import tools\n---\ntools.mkdir('out')")
    assert "tools.mkdir('out')" in text


def test_a_folder_that_must_not_exist_is_made_by_whoever_comes_first(project):
    text, _ = project.train("os.makedirs('out', exist_ok=False)")
    assert "os.makedirs('out', exist_ok=True)" in text


def test_a_program_that_hides_all_gpus_goes_on_hiding_them(project):
    text, _ = project.train("gpus = 0\nif gpus == 0:\n    os.environ['CUDA_VISIBLE_DEVICES'] = '-1'")
    assert "os.environ['CUDA_VISIBLE_DEVICES'] = '-1'" in text


@pytest.mark.parametrize("test", ["len(ids) > 0", "torch.cuda.is_available()", "isinstance(ids, list) and ids"])
def test_an_if_that_only_set_the_gpu_goes_whole_when_it_only_looks(project, test):
    text, _ = project.train(
        f"ids = [0]\n# set the GPU\n\n# first\nif {test}:\n    torch.cuda.set_device(ids[0])\n\nprint(ids)"
    )
    assert "ids = [0]\n    # set the GPU\n\n    print(ids)" in text


def test_a_script_that_ends_in_a_block_leaves_the_group_below_it_with_room(project):
    (project.folder / "train.py").write_text(
        "import torch\nfrom torch import nn\n\nmodel = nn.DataParallel(nn.Linear(2, 2))\nfor _ in range(2):\n"
        "    model(torch.randn(4, 2)).sum().backward()\n"
    )
    project.convert()
    assert Path("train.py").read_text().endswith(".backward()\n\ndist.destroy_process_group()\n")


def test_a_flag_that_keeps_the_model_from_being_wrapped_is_named(project):
    wrap = "nn.Linear(2, 2)\n    if int(os.environ['gpu']) >= 0:\n        chosen = 0\n        model = model.cuda()\n    else:\n        model = nn.DataParallel(model)"
    _, result = project.train("print('done')", wrap=wrap)
    assert [d.message for d in result.diagnostics if d.rule == "MG302" and d.level == "note"] == [
        "where `int(os.environ['gpu']) >= 0` holds, every process trains the whole model by itself"
    ]


def test_a_device_keeps_its_quotes(project):
    text, _ = project.train("state = torch.zeros(1).to('cuda:0')\nprint(state)")
    assert "torch.zeros(1).to('cuda')" in text


def test_an_if_that_only_chose_gpus_goes_whole(project):
    text, _ = project.train("gpus = '0,1'\nif gpus:\n    os.environ['CUDA_VISIBLE_DEVICES'] = gpus\nprint(gpus)")
    assert "if gpus" not in text and "pass" not in text


# ---------------------------------------------------------------- kinds of wraps
def test_functional_calls_with_several_inputs(project):
    text, _ = project.train(
        """\
        net, a, b = nn.Bilinear(2, 2, 1), torch.randn(4, 2), torch.randn(4, 2)
        pair = (a, b)
        nn.parallel.data_parallel(net, (a, b))
        nn.parallel.data_parallel(net, pair, module_kwargs={})
        nn.parallel.data_parallel(net, a)
        """
    )
    assert "SplitDataParallel(net)(a, b)" in text
    assert "SplitDataParallel(net)(*pair, **{})" in text
    assert "SplitDataParallel(net)(a)\n" in text


def test_functional_call_of_what_a_method_was_given(project):
    text, _ = project.train(
        """\
        class Net(nn.Module):
            def forward(self, *parts):
                return nn.parallel.data_parallel(self.inner, parts)
        ---
        Net()
        """
    )
    assert "SplitDataParallel(self.inner)(*parts)" in text


@pytest.mark.parametrize("flag", ["x.is_cuda and self.ngpu > 1", "len(self.gpus) > 1"])
def test_the_flag_around_a_functional_call_goes(project, flag):
    text, result = project.train(
        f"""\
        class Net(nn.Module):
            def forward(self, x):
                if {flag}:
                    out = nn.parallel.data_parallel(self.inner, x, range(self.ngpu))
                else:
                    out = self.inner(x)
                return out
        ---
        Net()
        """
    )
    assert "        out = SplitDataParallel(self.inner)(x)\n        return out" in text
    assert not any(d.rule == "MG302" and d.level == "note" for d in result.diagnostics)


def test_the_flag_around_a_functional_call_stays_where_something_else_is_done_without_it(project):
    text, result = project.train(
        """\
        class Net(nn.Module):
            def forward(self, x):
                if x.is_cuda and self.ngpu > 1:
                    out = nn.parallel.data_parallel(self.inner, x, range(self.ngpu))
                else:
                    out = self.inner(x * 2)
                return out
        ---
        Net()
        """
    )
    assert "if x.is_cuda and self.ngpu > 1:" in text and "out = self.inner(x * 2)" in text
    assert any("every process trains the whole model by itself" in d.message for d in result.diagnostics)


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("def gather(self, outputs, device):\n        return outputs", "gather"),
        ("def replicate(self, module, ids):\n        return [module]", "replicate"),
        ("def scatter(self, inputs, kwargs, ids):\n        return inputs[0], kwargs", "scatter"),
        ("def forward(self, x):\n        return sum(self.apply_all(x))", "forward"),
    ],
)
def test_a_subclass_with_a_way_of_its_own_is_reported(project, body, word):
    text, result = project.train(f"class Own(nn.DataParallel):\n    {body}\n---\n", wrap="Own(nn.Linear(2, 2))")
    assert "Own(nn.Linear(2, 2))" in text
    assert any(word in d.message for d in result.questions)


def test_a_subclass_that_only_chooses_shares_is_converted_with_its_type_tests(project):
    text, result = project.train(
        """\
        class Own(nn.DataParallel):
            def scatter(self, inputs, kwargs, ids):
                return [(inputs[0][i : i + 1],) for i in ids], [kwargs for _ in ids]
        ---
        net = model.module if isinstance(model, Own) else model
        """,
        wrap="Own(nn.Linear(2, 2))",
    )
    assert "model = SplitDataParallel(nn.Linear(2, 2))" in text
    assert "isinstance(model, SplitDataParallel)" in text and not result.questions


def test_an_own_function_that_wraps_is_no_look_alike(project):
    text, result = project.train(
        "def make_data_parallel(net):\n    return nn.DataParallel(net)\n---\n",
        wrap="make_data_parallel(nn.Linear(2, 2))",
    )
    assert "return SplitDataParallel(net)" in text and not result.questions


# ---------------------------------------------------------------- other programs of the project
def test_modules_that_other_programs_use_work_without_a_process_group(project):
    project.write(
        "tools.py", "import os\n\nimport torch\n\n\ndef save(x):\n    torch.save(x, 'x.pt')\n    os.remove('y')\n"
    )
    project.write("evaluate.py", "from tools import save\n\nsave(1)\n")
    project.train("from tools import save\n---\nsave(1)")
    tools = Path("tools.py").read_text()
    assert "if not dist.is_initialized() or dist.get_rank() == 0:" in tools
    assert "    if dist.is_initialized():\n        dist.barrier()" in tools


def test_modules_of_one_program_stay_simple(project):
    project.write("tools.py", "import torch\n\n\ndef save(x):\n    torch.save(x, 'x.pt')\n")
    project.train("from tools import save\n---\nsave(1)")
    assert "    if dist.get_rank() == 0:\n" in Path("tools.py").read_text()


def test_a_second_run_leaves_a_program_with_open_questions_alone(project):
    text, result = project.train(
        """\
        from elsewhere import BalancedDataParallel
        ---
        other = BalancedDataParallel(nn.DataParallel(nn.Linear(2, 2)))
        stamp = time.strftime('%H%M')
        os.makedirs('runs/' + stamp)
        torch.save(model.state_dict(), 'model.pt')
        log = open('log.txt', 'w')
        print(torch.cuda.device_count() * 2, file=log)
        count = torch.cuda.device_count()
        """
    )
    assert result.questions and "setup_distributed()" in text


# ---------------------------------------------------------------- flags that decide more than the wrap
@pytest.mark.parametrize(
    "use", ["net = model.module if flag else model", "if flag:\n    loss = torch.ones(2)\n    loss = loss.mean()"]
)
def test_a_flag_that_also_decides_about_the_wrapped_model_keeps_deciding(project, use):
    text, _ = project.train(
        f"n_gpu = 2\nif n_gpu > 1:\n    model = nn.DataParallel(model)\n{use.replace('flag', 'n_gpu > 1')}",
        wrap="nn.Linear(2, 2)",
    )
    assert "if n_gpu > 1:\n        model = SplitDataParallel(model)" in text


def test_a_flag_that_only_decides_about_the_wrap_goes(project):
    text, _ = project.train(
        "n_gpu = 2\nif n_gpu > 1:\n    model = nn.DataParallel(model)\nprint(n_gpu)", wrap="nn.Linear(2, 2)"
    )
    assert "\n    model = SplitDataParallel(model)" in text


# ---------------------------------------------------------------- what happens before the main block
@pytest.mark.parametrize(
    "early", ["log = tools.Log()", "net = tools.Net()", "net = nn.Linear(2, 2)", "weights = torch.ones(2).cuda()"]
)
def test_processes_meet_before_what_a_script_does_above_its_main_block(project, early):
    project.write(
        "tools.py",
        """\
        import torch
        from torch import nn


        class Log:
            def __init__(self):
                torch.save({}, "settings.pt")


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)
        """,
    )
    text, _ = project.train(f"import tools\n{early}\n---\nprint('done')")
    assert text.index("    setup_distributed()") < text.index(early) < text.index("def main")


def test_processes_meet_above_the_import_of_what_acts_while_it_is_imported(project):
    project.write("tools.py", "import torch\n\nNOISE = torch.randn(3)\ntorch.save(NOISE, 'noise.pt')\n")
    text, result = project.train("import tools\n---\nprint(tools.NOISE)")
    met, imported = text.index('if __name__ == "__main__":\n    setup_distributed()'), text.index("import tools")
    assert text.index("from ddp_utils import") < met < imported and not result.questions
    assert "if not dist.is_initialized() or dist.get_rank() == 0:" in Path("tools.py").read_text()


def test_processes_meet_above_an_import_that_runs_a_function_which_asks(project):
    project.write("options.py", "def ask():\n    return input('name: ')\n\n\nNAME = ask()\n")
    project.write("names.py", "from options import NAME\n")
    project.write(
        "train.py",
        HEAD + "import names\n\nmodel = nn.DataParallel(nn.Linear(2, 2))\nmodel(names.NAME).sum().backward()\n",
    )
    project.convert()
    text = Path("train.py").read_text()
    assert text.index("from ddp_utils import") < text.index("\nsetup_distributed()") < text.index("import names")


def test_processes_meet_above_the_lines_that_make_a_parser_not_between_them(project):
    (project.folder / "train.py").write_text(
        HEAD.replace("import os", "import os, argparse, logging, json")
        + "def settings():\n    return json.load(open('settings.json'))\n\n\n"
        + "def main(args):\n    model = nn.DataParallel(nn.Linear(2, 2))\n    model(torch.randn(4, 2)).sum().backward()\n\n\n"
        + 'if __name__ == "__main__":\n    parser = argparse.ArgumentParser()\n    for name, value in settings().items():\n'
        + "        parser.add_argument(name, default=value)\n    main(parser.parse_args())\n    args = parser.parse_args()\n"
    )
    project.convert()
    text = Path("train.py").read_text()
    assert '"__main__":\n    setup_distributed()\n    share_random_numbers()\n    parser =' in text


def test_what_an_early_start_needs_is_one_block_with_room_around_it(project):
    text, _ = project.train("import logging\nSEED = 1\ntorch.manual_seed(SEED)\n---\nlogging.info('done')")
    block = 'if __name__ == "__main__":\n    setup_distributed()\n    share_random_numbers()\n'
    block += "    if dist.get_rank() != 0:\n        logging.disable(logging.WARNING)\n"
    assert f"SEED = 1\n\n{block}\ntorch.manual_seed(SEED)\n" in text


def test_a_comment_on_the_first_statement_stays_beside_it(project):
    (project.folder / "train.py").write_text(
        "import torch\nfrom torch import nn\n\n\ndef main():\n    model = nn.DataParallel(nn.Linear(2, 2))\n"
        "    model(torch.randn(4, 2)).sum().backward()\n\n\n"
        'if __name__ == "__main__":\n    # Train\n    main()\n'
    )
    project.convert()
    assert "    share_random_numbers()\n\n    # Train\n    main()\n" in Path("train.py").read_text()


def test_processes_meet_below_lines_that_only_say_where_to_import_from(project):
    (project.folder / "train.py").write_text(
        "import sys\n\nimport torch\nfrom torch import nn\n\nif __package__ is None:\n    import os\n    sys.path.append('.')\n\n"
        "steps = int(sys.argv[1])\nmodel = nn.DataParallel(nn.Linear(2, 2))\n\n# Train\nfor _ in range(steps):\n"
        "    model(torch.randn(4, 2)).sum().backward()\n"
    )
    project.convert()
    assert (
        "    sys.path.append('.')\n\nsetup_distributed()\nshare_random_numbers()\nsteps ="
        in Path("train.py").read_text()
    )


def test_long_imports_of_helpers_are_broken_as_formatters_do(project):
    project.write("folders.py", "import os, time\n\n\ndef make(x):\n    os.makedirs(x + time.strftime('%H'))\n")
    text, _ = project.train(
        "import folders\n---\nfolders.make('runs')\nlog = SummaryWriter()\nwith_data = download = 1\n"
        "name = time.strftime('%H')\nos.makedirs(name)\nimport torchvision\ntorchvision.datasets.MNIST('d', download=True)"
    )
    block = text[text.index("from ddp_utils import") :].partition("\n\n")[0]
    assert block.startswith("from ddp_utils import (\n    NoWriter,\n") or len(block.splitlines()[0]) <= 100
    assert max(map(len, block.splitlines())) <= 100


def test_a_program_that_may_raise_for_a_missing_file_is_still_waited_for(project):
    text, _ = project.train(
        "if not os.path.isdir('data'):\n    raise SystemExit('no data')\ntorch.save(model.state_dict(), 'a.pt')\n"
        "model.load_state_dict(torch.load('a.pt'))"
    )
    assert "    dist.barrier()\n    model.load_state_dict(" in text


def test_a_file_that_one_process_opens_is_not_told_so_again(project):
    text, _ = project.train(
        "with open('grid.png', 'wb') as out:\n    save_image(torch.zeros(3, 4, 4), out)".replace(
            "with", "from torchvision.utils import save_image\nwith", 1
        )
    )
    assert "    if dist.get_rank() == 0:\n        with open('grid.png', 'wb') as out:\n" in text


def test_torch_is_not_imported_below_the_project_s_own_modules(project):
    project.write("other.py", "")
    project.write("notes.py", "import os\n\nimport other\n\n\ndef keep(x):\n    open('notes', 'w').write(x)\n")
    project.train("import notes\n---\nnotes.keep('x')")
    assert Path("notes.py").read_text().startswith("import os\nimport torch.distributed as dist\n\nimport other\n")


def test_processes_do_not_meet_before_the_import_that_they_need(project):
    (project.folder / "train.py").write_text(
        "import torch\nversion = torch.__version__\ntorch.manual_seed(0)\nfrom torch import nn\n\n"
        "model = nn.DataParallel(nn.Linear(2, 2))\nmodel(torch.randn(4, 2)).sum().backward()\n"
    )
    project.convert()
    text = Path("train.py").read_text()
    assert text.index("import SplitDataParallel") < text.index("\nsetup_distributed()") < text.index("model = ")


def test_devices_of_this_machine_are_not_the_processes(project):
    text, _ = project.train(
        "for i in range(torch.cuda.device_count()):\n    print(torch.cuda.get_device_name(i))\n"
        "own = os.getpid() % torch.cuda.device_count()\nsize = 8 * torch.cuda.device_count()\nprint(own, size)"
    )
    assert text.count("torch.cuda.device_count()") == 2 and "size = 8 * dist.get_world_size()" in text


@pytest.mark.parametrize("mode", ["mode", "'a' if os.path.exists('log') else 'w'"])
def test_a_file_whose_mode_is_chosen_has_one_writer(project, mode):
    text, _ = project.train(
        f"mode = 'r'\nif os.path.exists('log'):\n    mode = 'a'\nlog = open('log', {mode})\nlog.close()"
    )
    assert "open('log' if dist.get_rank() == 0 else os.devnull" in text


def test_a_second_run_adds_no_second_wait_and_no_second_hook(project):
    text, result = project.train(
        """\
        from elsewhere import BalancedDataParallel
        class Head(nn.Module):
            pass
        ---
        other = BalancedDataParallel(nn.Linear(2, 2))
        head = Head()
        optimizer = torch.optim.SGD(head.parameters(), 0.1)
        optimizer.step()
        torch.save(model.state_dict(), 'model.pt')
        model.load_state_dict(torch.load('model.pt'))
        """
    )
    assert result.questions and text.count("keep_alike(optimizer)") == 1 and text.count("barrier()") == 1


def test_a_breakpoint_that_this_program_never_reaches_is_no_question(project):
    project.write("tools.py", "import pdb\n\n\ndef used():\n    return 1\n\n\ndef unused():\n    pdb.set_trace()\n")
    _, result = project.train("import tools\n---\ntools.used()")
    assert not result.questions
    project.write("tools.py", "import pdb\n\n\ndef used():\n    pdb.set_trace()\n")
    _, result = project.train("import tools\n---\ntools.used()")
    assert [d.rule for d in result.questions] == ["MG505"]


# ---------------------------------------------------------------- sets of texts
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("names = list(set(os.listdir('.')))", "names = from_rank_zero(list(set(os.listdir('.'))))"),
        (
            "numbers = {n: i for i, n in enumerate(set(os.listdir('.')))}",
            "enumerate(from_rank_zero(list(set(os.listdir('.')))))",
        ),
        ("a = {f[:2] for f in os.listdir('.')}\nb = tuple(a)", "b = from_rank_zero(tuple(a))"),
        ("a = set()\nfor f in os.listdir('.'):\n    a.add(f)\nb = list(a)", "b = from_rank_zero(list(a))"),
        ("names = sorted(list(set(os.listdir('.'))))", None),
        ("names = list(set(os.listdir('.')))\nnames.sort()", None),
        ("count = len(list(set(os.listdir('.'))))", None),
        ("numbers = list(set(range(9)))", None),
        ("pids = [1, 2]\npids = list(set(pids))", None),
    ],
)
def test_lists_of_sets_have_one_order(project, body, expected):
    text, result = project.train(body)
    assert (expected in text) if expected else ("from_rank_zero" not in text)
    assert not result.questions


def test_a_list_of_a_set_where_data_is_loaded_is_asked_about(project):
    _, result = project.train(
        """\
        class Words(torch.utils.data.Dataset):
            def __getitem__(self, i):
                return list(set(self.lines[i].split()))
        ---
        Words()
        """
    )
    assert [d.rule for d in result.questions] == ["MG208"]


def test_a_package_that_imports_its_own_modules(project):
    project.write("kit/__init__.py", "from . import nets\nfrom . import parts\n")
    project.write(
        "kit/nets.py", "from . import parts\nfrom kit import nets\n\n\ndef make():\n    return parts.layer()\n"
    )
    project.write(
        "kit/parts.py", "from torch import nn\n\nfrom . import nets\n\n\ndef layer():\n    return nn.Linear(2, 2)\n"
    )
    text, _ = project.train(
        "from kit import nets\n---\nfor p in nets:\n    print(p)\ntorch.optim.SGD(nets.make().parameters(), 0.1)",
        wrap="nn.DataParallel(nets.make())",
    )
    assert "SplitDataParallel(nets.make())" in text


def test_the_last_gpu_is_the_process_s_own(project):
    text, _ = project.train("gpu = int(torch.cuda.device_count()) - 1\nprint(gpu)")
    assert "gpu = torch.cuda.current_device()" in text


def _flat(project, top: str, below: str) -> list[str]:
    """The lines of a converted script: its own first lines, a loader, later lines, a wrap and a training loop."""
    (project.folder / "train.py").write_text(
        f"{top}from torch import nn\nfrom torch.utils.data import DataLoader, TensorDataset\n\n"
        "loader = DataLoader(TensorDataset(torch.ones(8, 2), torch.ones(8).long()), batch_size=4, shuffle=True)\n"
        f"{below}model = nn.DataParallel(nn.Linear(2, 2))\noptimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for x, y in loader:\n    optimizer.zero_grad()\n    nn.functional.cross_entropy(model(x), y).backward()\n    optimizer.step()\n"
    )
    result = convert_program(Path("train.py"), Options())
    return next(c.after for c in result.changes if Path(c.path).name == "train.py").splitlines()


def _order(lines: list[str], *starts: str) -> list[int]:
    return [next(place for place, line in enumerate(lines) if line.startswith(start)) for start in starts]


def test_processes_meet_above_the_loader_when_an_import_stands_below_it(project):
    lines = _flat(project, "import torch\n", "import sys\nfrom torch.utils.checkpoint import checkpoint\n")
    expected = ("from torch.nn.parallel", "def setup_distributed", "setup_distributed()", "loader =")
    order = _order(lines, *expected, "from torch.utils.checkpoint", "model =")
    assert order == sorted(order)
    assert lines.index("import sys") < order[1]  # the helper needs it before the program has it


def test_names_that_the_set_up_takes_are_imported_above_a_file_that_is_opened_first(project):
    lines = _flat(project, "import os\nout = open('log.txt', 'w')\nimport torch\n", "")
    order = _order(lines, "import torch", "def setup_distributed", "setup_distributed()", "out = open")
    assert order == sorted(order)


def test_lines_that_serve_the_imports_below_them_stay_between_them(project):
    top = "import sys\nsys.path.append('lib')\nimport matplotlib\nmatplotlib.use('Agg')\nimport os\nos.environ['A'] = '1'\n"
    lines = _flat(project, f"{top}import torch\ntorch.manual_seed(0)\n", "")
    order = _order(lines, "sys.path", "matplotlib.use", "os.environ", "import torch", "torch.manual_seed")
    order += _order(lines, "from torch import nn", "def setup_distributed", "setup_distributed()", "loader =")
    assert order == sorted(order)


def test_counted_devices_need_the_processes_above_them(project):
    lines = _flat(project, "import torch\ncount = torch.cuda.device_count()\nimport os\n", "print(count)\n")
    order = _order(
        lines, "import os", "def setup_distributed", "setup_distributed()", "count = ", "from torch import nn"
    )
    assert order == sorted(order)
