"""Scratch files of an evaluation: written once, read by all when they are there, and removed when all have read them."""

import pytest

from tests.rules.tools import check_noop, check_rewrite, training

WRITE = "with open('rows.txt', 'w') as file:\n    file.write(str(rows))\n"
WRITTEN = (
    "if dist.get_rank() == 0:\n    with open('rows.txt', 'w') as file:\n        file.write(str(rows))\ndist.barrier()\n"
)


def program(lines: str) -> str:
    return training("rows = [1, 2]\n" + lines, depth=2).replace(
        "import os\n", "import os\nimport shutil\nimport subprocess\n"
    )


@pytest.mark.parametrize(
    "command",
    [
        "score = float(os.popen('perl score.pl rows.txt').read())",
        "score = float(subprocess.check_output(['perl', 'score.pl', 'rows.txt']))",
    ],
)
def test_a_command_that_all_processes_run_finds_the_whole_file(command):
    check_rewrite(program(WRITE + command), WRITTEN + command, "MG506")


def test_a_command_that_reads_another_file_waits_for_nobody():
    check_noop(program(WRITE + "score = float(os.popen('perl score.pl other.txt').read())"), "MG506")


def test_a_file_is_removed_when_all_have_read_it():
    check_rewrite(
        program(WRITE + "rows = open('rows.txt').read()\nos.remove('rows.txt')"),
        WRITTEN + "rows = open('rows.txt').read()\ndist.barrier()\nif dist.get_rank() == 0:\n    os.remove('rows.txt')",
        "MG506",
    )


def test_a_folder_is_listed_when_it_is_full_and_removed_when_all_have_seen_it():
    text = program("open('rows/%d' % epoch, 'w').write('a')\ncount = len(os.listdir('rows'))\nshutil.rmtree('rows')")
    check_rewrite(
        text,
        """
        if dist.get_rank() == 0:
            open('rows/%d' % epoch, 'w').write('a')
        dist.barrier()
        count = len(os.listdir('rows'))
        dist.barrier()
        if dist.get_rank() == 0:
            shutil.rmtree('rows')
        """,
        "MG506",
    )


def test_what_is_read_with_care_is_waited_for_in_front_of_the_care():
    read = "try:\n    rows = open('rows.txt').read()\nexcept OSError:\n    rows = ''"
    check_rewrite(program(WRITE + read), WRITTEN + read, "MG506")
