"""Whole models in files: the file holds what it held before, and what reads such a file is a person's to decide."""

from tests.rules.tools import check_noop, check_question, check_rewrite, training

SAVED = training("torch.save({'epoch': 3, 'model': model}, 'model.pt')", depth=1)


def test_a_file_goes_on_to_hold_a_dataparallel():
    conversion = check_rewrite(
        SAVED,
        "if dist.get_rank() == 0:\n    torch.save({'epoch': 3, 'model': nn.DataParallel(model.module)}, 'model.pt')",
        "MG601",
    )
    assert not conversion.questions


def test_a_model_that_is_read_whole_is_a_question_where_it_is_read():
    text = SAVED.replace("    for epoch", "    model = torch.load('model.pt')['model']\n    for epoch")
    check_question(text, "wrap its .module", "MG601")
    conversion = check_rewrite(
        text, "torch.save({'epoch': 3, 'model': nn.DataParallel(model.module)}, 'model.pt')", "MG601"
    )
    assert [d.at.line for d in conversion.questions] == [text[: text.index("model = torch.load")].count("\n") + 1]


def test_a_file_of_which_nobody_knows_what_it_holds_is_asked_about_where_it_is_read():
    text = SAVED.replace("    for epoch", "    state = torch.load('model.pt')\n    print(state)\n    for epoch")
    check_question(text, "if a whole model comes out of this file", "MG601")


def test_weights_that_are_read_leave_the_file_certain():
    text = SAVED.replace("    for epoch", "    model.load_state_dict(torch.load('weights.pt'))\n    for epoch")
    check_rewrite(text, "torch.save({'epoch': 3, 'model': nn.DataParallel(model.module)}, 'model.pt')", "MG601")


def test_a_model_with_a_wrapped_part_is_a_question():
    text = SAVED.replace("nn.DataParallel(nn.Linear(4, 2))", "Net()").replace(
        "def main():",
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.features = nn.DataParallel(nn.Linear(4, 2))\n\n"
        "    def forward(self, x):\n"
        "        return self.features(x)\n\n\ndef main():",
    )
    check_question(text.replace("{'epoch': 3, 'model': model}", "model"), "in a part of it", "MG601")


def test_weights_and_bare_models_stay():
    check_noop(SAVED.replace("'model': model}", "'model': model.state_dict()}"), "MG601")
    check_noop(SAVED.replace("'model': model}", "'model': model.module}"), "MG601")


def test_a_bare_model_that_is_read_whole_and_wrapped_again_stays():
    text = SAVED.replace("'model': model}", "'model': model.module}").replace(
        "model = nn.DataParallel(nn.Linear(4, 2))",
        "model = torch.load('old.pt')['model']\n    model = nn.DataParallel(model)",
    )
    check_noop(text, "MG601")
