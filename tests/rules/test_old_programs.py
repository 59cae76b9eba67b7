"""Old spellings (MG004 to MG011): rewritten where the meaning is certain, left alone elsewhere."""

import textwrap

import pytest

from migrator.convert.modernise import modernise, refused_today
from tests.rules.tools import check_noop, check_note, check_rewrite, convert, training

HEAD = "from torch.autograd import Variable\n"


def evaluation(body: str, loop: str = "for inputs, targets in test_loader:") -> str:
    """A training program with an evaluation function in the old style."""
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), "        ")
    function = f"def test(model, test_loader, criterion):\n    total = 0\n    {loop}\n{lines}\n    return total\n\n\ndef main():"
    text = training("test(model, test_loader, nn.CrossEntropyLoss())").replace("def main():", function)
    return HEAD + text.replace("    model =", "    test_loader = DataLoader(data, batch_size=16)\n    model =")


VOLATILE = "inputs = Variable(inputs, volatile=True)\ntotal += criterion(model(inputs), targets).item()"


def test_an_evaluation_loop_runs_without_gradients():
    check_rewrite(
        evaluation(VOLATILE),
        """
        with torch.no_grad():
            for inputs, targets in test_loader:
                inputs = Variable(inputs)
        """,
        "MG004",
    )


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(VOLATILE.replace("True", "not training"), id="volatile by a variable"),
        pytest.param(VOLATILE + "\ntotal.backward()", id="a loop with a backward pass"),
        pytest.param(VOLATILE + "\nyield total", id="a generator"),
    ],
)
def test_only_the_argument_goes_where_gradients_may_be_needed(body):
    conversion = check_rewrite(evaluation(body), "inputs = Variable(inputs)", "MG004")
    assert "torch.no_grad()" not in conversion.changes[0].after


def test_a_loop_that_has_no_gradients_already_is_not_wrapped_again():
    text = evaluation(VOLATILE).replace("def test(", "@torch.no_grad()\ndef test(")
    assert convert(text).changes[0].after.count("no_grad") == 1


def test_other_things_called_variable_are_left_alone():
    check_noop(evaluation(VOLATILE).replace(HEAD, "from mine import Variable\n"), "MG004")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("total += loss.data[0]", "total += loss.item()", id="a loss"),
        pytest.param("total += loss.cpu().data[0]", "total += loss.item()", id="a loss on its way to the CPU"),
        pytest.param("total += loss.data.cpu().numpy()[0]", "total += loss.item()", id="a loss by way of numpy"),
        pytest.param("total += (loss * 2).data[0]", "total += (loss * 2).item()", id="arithmetic"),
        pytest.param("total += targets.eq(1).sum().data[0]", "total += targets.eq(1).sum().item()", id="a whole sum"),
    ],
)
def test_a_number_is_taken_out_with_item(old, new):
    check_rewrite(evaluation(f"loss = criterion(model(inputs), targets)\n{old}"), new, "MG005")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("first = inputs.data[0]", id="the first sample"),
        pytest.param("first = model(inputs).data[0]", id="the first output"),
        pytest.param("first = inputs.sum(1).data[0]", id="the first of several sums"),
        pytest.param("first = inputs.data[1]", id="another element"),
    ],
)
def test_the_first_row_stays_a_row(line):
    check_noop(evaluation(f"{line}\nloss = criterion(model(inputs), targets)"), "MG005")


def test_an_iterator_gives_its_next_batch():
    text = training("it = iter(loader)\ninputs, targets = it.next()", depth=1)
    check_rewrite(text, "inputs, targets = next(it)", "MG006")
    check_rewrite(text.replace("it.next()", "iter(loader).next()"), "inputs, targets = next(iter(loader))", "MG006")


def test_an_object_with_a_method_of_its_own_keeps_it():
    text = training("batches = Prefetcher(loader)\ninputs = batches.next()", depth=1).replace(
        "def main():", "class Prefetcher:\n    def next(self):\n        return 1\n\n\ndef main():"
    )
    check_noop(text, "MG006")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("size_average=True", 'reduction="mean"', id="a mean"),
        pytest.param("size_average=False", 'reduction="sum"', id="a sum"),
        pytest.param("reduce=False", 'reduction="none"', id="neither"),
        pytest.param("size_average=False, reduce=True", 'reduction="sum"', id="both arguments"),
        pytest.param("reduce=False, size_average=False", 'reduction="none"', id="reduce wins"),
    ],
)
def test_a_reduction_is_one_word(old, new):
    check_rewrite(training(f"criterion = nn.MSELoss({old})"), f"criterion = nn.MSELoss({new})", "MG007")


@pytest.mark.parametrize("call", ["nn.MSELoss(size_average=flag)", "mine.MSELoss(size_average=False)", "nn.MSELoss()"])
def test_a_reduction_that_is_not_in_sight_stays(call):
    check_noop(training(f"flag = True\ncriterion = {call}"), "MG007")


def test_rows_of_a_transposed_tensor_are_reshaped():
    check_rewrite(
        training("right = correct[:k].view(-1).float().sum(0)"),
        "right = correct[:k].reshape(-1).float().sum(0)",
        "MG008",
    )


@pytest.mark.parametrize(
    "call", ["correct.view(-1)", "correct[:k].view(k, -1)", "correct[:k].view(-1).zero_()", "x[1:].view(-1)"]
)
def test_other_views_stay(call):
    check_noop(training(f"right = {call}"), "MG008")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nn.utils.clip_grad_norm(model.parameters(), 1)", "nn.utils.clip_grad_norm_(model.parameters(), 1)"),
        ("nn.init.xavier_uniform(model.weight)", "nn.init.xavier_uniform_(model.weight)"),
        (
            "torch.optim.lr_scheduler.StepLR(optimizer, 1, verbose=True)",
            "torch.optim.lr_scheduler.StepLR(optimizer, 1)",
        ),
    ],
)
def test_names_and_arguments_of_today(old, new):
    check_rewrite(training(old), new, "MG009")


def test_a_name_that_was_imported_gets_its_new_import():
    text = "from torch.nn.utils import clip_grad_norm\n" + training("clip_grad_norm(model.parameters(), 1)")
    conversion = check_rewrite(text, "clip_grad_norm_(model.parameters(), 1)", "MG009")
    assert "from torch.nn.utils import clip_grad_norm_\n" in conversion.changes[0].after


def test_numpys_names_of_pythons_types():
    check_rewrite(
        "import numpy as np\n" + training("x = np.zeros(3, dtype=np.float)"), "x = np.zeros(3, dtype=float)", "MG009"
    )
    check_noop("import numpy as np\n" + training("x = np.zeros(3, dtype=np.float32)"), "MG009")


def test_names_of_today_stay():
    check_noop(training("nn.utils.clip_grad_norm_(model.parameters(), 1)\nnn.init.zeros_(model.weight)"), "MG009")


AMP = "from torch.cuda.amp import GradScaler, autocast\n"


def test_amp_has_its_name_of_today():
    text = AMP + training("scaler = GradScaler()\nwith autocast():\n    pass")
    check_rewrite(text, 'scaler = GradScaler(device="cuda")\nwith autocast(device_type="cuda"):\n    pass', "MG010")
    assert "from torch.amp import GradScaler, autocast\n" in convert(text).changes[0].after


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "try:\n    " + AMP + "except ImportError:\n    pass\n" + training("scaler = GradScaler()"), id="under try"
        ),
        pytest.param(AMP + training("with autocast(False):\n    pass"), id="a positional argument"),
        pytest.param(AMP + training("kind = autocast\nscaler = GradScaler()"), id="a name that is handed on"),
        pytest.param(training('with torch.amp.autocast("cuda"):\n    pass'), id="already of today"),
    ],
)
def test_amp_names_that_cannot_follow_stay(text):
    check_noop(text, "MG010")


def test_checkpoints_are_read_as_before_only_where_asked_for():
    text = training('state = torch.load("x.pt", map_location="cpu")', depth=1)
    check_note(text, "--unsafe adds weights_only=False", "MG011")
    check_rewrite(text, 'state = torch.load("x.pt", map_location="cpu", weights_only=False)', "MG011", unsafe=True)
    check_noop(text.replace('"cpu")', '"cpu", weights_only=True)'), "MG011", unsafe=True)


def test_modernise_makes_nothing_parallel(tmp_path):
    entry = tmp_path / "train.py"
    entry.write_text(evaluation("loss = criterion(model(inputs), targets)\ntotal += loss.data[0]"))
    modern = modernise(entry)
    assert refused_today(modern)
    (change,) = modern.changes
    assert "loss.item()" in change.after
    assert "nn.DataParallel(" in change.after
    assert "distributed" not in change.after


def test_what_only_warns_is_not_refused(tmp_path):
    entry = tmp_path / "train.py"
    entry.write_text(training("criterion = nn.MSELoss(size_average=True)\nnn.init.normal(model.weight)"))
    modern = modernise(entry)
    assert modern.changes
    assert not refused_today(modern)


def test_a_program_of_today_is_left_alone(tmp_path):
    entry = tmp_path / "train.py"
    entry.write_text(training(""))
    assert not modernise(entry).changes
