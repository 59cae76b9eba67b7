"""Models that were saved whole come back on the process's own GPU; checkpoints come back to main memory."""

import pytest

from tests.rules.tools import check_noop, check_rewrite, training

DEVICE = 'map_location="cuda" if torch.cuda.is_available() else "cpu"'


@pytest.mark.parametrize(
    ("lines", "loaded"),
    [
        ("best = torch.load('best.pt')\nbest.eval()", "best = torch.load('best.pt', {})"),
        ("best = torch.load('best.pt')\nprint(best(inputs).sum())", "best = torch.load('best.pt', {})"),
        (
            "torch.save(model.module, 'best.pt')\nbest = torch.load('best.pt')\nprint(best)",
            "best = torch.load('best.pt', {})",
        ),
        (
            "with open('best.pt', 'rb') as file:\n    best = torch.load(file)\nbest.eval()",
            "    best = torch.load(file, {})",
        ),
        ("torch.load('best.pt').eval()", "torch.load('best.pt', {}).eval()"),
    ],
)
def test_a_model_that_is_run_as_it_is_read_is_put_where_it_runs(lines, loaded):
    check_rewrite(training(lines, depth=1), loaded.format(DEVICE), "MG602")


@pytest.mark.parametrize("line", ["model.load_state_dict(saved)", "model.load_state_dict(saved['model'])"])
def test_a_checkpoint_is_read_to_main_memory(line):
    check_rewrite(
        training(f"saved = torch.load('best.pt')\n{line}", depth=1),
        "saved = torch.load('best.pt', map_location=\"cpu\")",
        "MG602",
    )


def test_a_corpus_with_a_part_for_training_is_no_model():
    check_rewrite(
        training("corpus = torch.load('words.pt')\nprint(corpus.train)", depth=1),
        "corpus = torch.load('words.pt', map_location=\"cpu\")",
        "MG602",
    )


def test_what_says_where_it_goes_stays():
    check_noop(training("best = torch.load('best.pt', map_location='cpu')\nbest.eval()", depth=1), "MG602")
