"""Gaps between the hazards: how a program ends, errors that it survives, orders of sets, and pictures that it writes."""

import pytest

from tests.rules.tools import check_noop, check_note, check_question, check_rewrite, convert, training

ENDS = "if __name__ =="


def in_main(lines: str) -> str:
    return training(lines, depth=1).replace("import os\n", "import os\nimport sys\n", 1)


@pytest.mark.parametrize("end", ["sys.exit()", "sys.exit(0)", "quit()", "exit(None)"])
def test_the_group_is_left_before_a_function_ends_the_program(end):
    check_rewrite(in_main(f"print('done')\n{end}"), f"print('done')\ndist.destroy_process_group()\n{end}", "MG110")


@pytest.mark.parametrize("end", ["sys.exit(1)", "exit('no data')", "sys.exit(int(os.environ['CODE']))"])
def test_an_exit_that_reports_a_failure_stays(end):
    check_noop(in_main(f"if len(sys.argv) > 3:\n    {end}"), "MG110")


def test_an_exit_that_may_come_before_the_processes_meet_asks_for_the_group():
    text = in_main("").replace(
        "def main():",
        "def options():\n    if len(sys.argv) > 3:\n        print('usage')\n        sys.exit()\n    return 1\n\n\n"
        "OPTIONS = options()\n\n\ndef main():",
    )
    check_rewrite(text, "if dist.is_initialized():\n    dist.destroy_process_group()\nsys.exit()", "MG110")


def test_the_group_is_left_at_the_end_of_a_function_whose_runner_never_comes_back():
    text = in_main("if len(sys.argv) > 3:\n    return\nprint('done')")
    text = text.replace("import sys\n", "import sys\nfrom absl import app\n", 1).replace(
        "def main():", "def main(argv):"
    )
    text = text.replace(f'{ENDS} "__main__":\n    main()', f'{ENDS} "__main__":\n    app.run(main)')
    conversion = check_rewrite(text, "print('done')\ndist.destroy_process_group()", "MG110")
    after = conversion.changes[0].after
    assert "        dist.destroy_process_group()\n        return\n" in after
    assert after.rstrip().endswith("app.run(main)")


def test_a_click_command_leaves_the_group_itself():
    text = in_main("").replace("import sys\n", "import sys\nimport click\n", 1)
    text = text.replace("def main():", "@click.command()\ndef main():")
    after = convert(text).changes[0].after
    assert after.rstrip().endswith("    main()")
    assert after.count("dist.destroy_process_group()") == 1


SURVIVED = training("").replace(
    "            optimizer.step()\n",
    "            try:\n"
    "                loss = nn.functional.cross_entropy(model(inputs), targets)\n"
    "                loss.backward()\n"
    "            except RuntimeError as error:\n"
    "                print(error)\n"
    "                continue\n"
    "            optimizer.step()\n",
)


def test_an_error_in_a_backward_pass_that_is_survived_is_told():
    check_note(SURVIVED, "an error in the backward pass of one process only", "MG513")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("except RuntimeError as error", "except KeyboardInterrupt as error"),
        ("                continue\n", "                raise\n"),
    ],
)
def test_an_error_that_ends_the_program_is_not(old, new):
    check_noop(SURVIVED.replace(old, new), "MG513")


def test_an_error_that_ends_in_a_caller_is_told_too():
    text = training("").replace(
        "    main()\n", "    try:\n        main()\n    except Exception as error:\n        print(error)\n"
    )
    check_note(text, "would be survived by that one", "MG513")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            "index = {}\nfor name in names:\n    index[name] = len(index)",
            "for name in from_rank_zero(list(names)):",
        ),
        ("order = []\nfor name in names:\n    order.append(name)", "for name in from_rank_zero(list(names)):"),
        ("order = [name.lower() for name in names]", "order = [name.lower() for name in from_rank_zero(list(names))]"),
    ],
)
def test_what_numbers_or_collects_the_elements_of_a_set_does_so_in_rank_zeros_order(lines, expected):
    check_rewrite(in_main("names = set(open('names.txt').read().split())\n" + lines), expected, "MG208")


@pytest.mark.parametrize(
    "lines",
    [
        "for name in names:\n    print(name)",
        "order = sorted(name.lower() for name in names)",
        "lengths = {name: len(name) for name in names}",
        "total = sum(len(name) for name in names)",
    ],
)
def test_what_does_not_depend_on_the_order_of_a_set_stays(lines):
    check_noop(in_main("names = set(open('names.txt').read().split())\n" + lines), "MG208")


def test_a_seed_made_of_the_hash_of_a_text_is_rank_zeros():
    text = in_main("seed = hash('experiment') % 1000\ntorch.manual_seed(seed)")
    check_rewrite(text, "seed = from_rank_zero(hash('experiment')) % 1000", "MG504")


def test_a_hash_to_look_things_up_stays():
    check_noop(in_main("key = hash('experiment')\ntable = {key: 1}\nprint(table[key])"), "MG504")


@pytest.mark.parametrize(
    "line",
    [
        "Image.fromarray(array).save('a.png')",
        "picture.save('a.png')",
        "Image.open('b.png').convert('L').resize((8, 8)).save('a.png')",
        "plt.imsave('a.png', array)",
    ],
)
def test_pictures_are_written_by_one_process(line):
    text = in_main(f"array = np.zeros((4, 4))\npicture = Image.new('L', (4, 4))\n{line}")
    text = text.replace(
        "import os\n", "import os\nimport matplotlib.pyplot as plt\nimport numpy as np\nfrom PIL import Image\n"
    )
    check_rewrite(text, f"if dist.get_rank() == 0:\n    {line}", "MG501")


def test_a_method_of_the_same_name_is_not_taken_for_a_picture():
    text = in_main("trainer = Trainer()\ntrainer.save('a.png')").replace(
        "def main():", "class Trainer:\n    def save(self, name):\n        self.name = name\n\n\ndef main():"
    )
    check_noop(text, "MG501")


@pytest.mark.parametrize(
    "lines",
    [
        "torch.save(torch.randperm(9), 'order.pt')",
        "order = torch.randperm(9)\n    with open('order.pt', 'w') as file:\n        file.write(str(order))",
        "np.save('order.pt', np.random.permutation(9))",
    ],
)
def test_random_numbers_that_a_missing_file_asks_for_are_drawn_by_all_processes_or_none(lines):
    text = in_main(f"if not os.path.exists('order.pt'):\n    {lines}").replace(
        "import os\n", "import os\nimport numpy as np\n"
    )
    check_rewrite(text, "if not from_rank_zero(os.path.exists('order.pt')):", "MG511")


def test_a_file_that_is_made_without_random_numbers_is_one_processs_work():
    text = in_main("if not os.path.exists('notes'):\n    with open('notes', 'w') as file:\n        file.write('a')")
    check_noop(text, "MG511")


@pytest.mark.parametrize(
    "lines",
    [
        "atexit.register(lambda: torch.save(model.state_dict(), 'last.pt'))",
        "def last():\n    torch.save(model.state_dict(), 'last.pt')\n\natexit.register(last)",
    ],
)
def test_what_is_written_after_the_group_has_been_left_is_a_question(lines):
    text = in_main(lines).replace("import sys\n", "import atexit\nimport sys\n", 1)
    check_question(text, "where no process knows its rank", "MG110")


def test_what_only_speaks_at_the_end_stays():
    text = in_main("atexit.register(lambda: print('done'))").replace("import sys\n", "import atexit\nimport sys\n", 1)
    check_noop(text, "MG110")
