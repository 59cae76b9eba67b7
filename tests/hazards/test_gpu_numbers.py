"""No process uses the GPU that a number or a name made of it stands for: each has its own."""

import pytest

from tests.rules.tools import check_noop, check_question, check_rewrite, training

GIVEN = "gpu, gpu_ids = int(os.environ['GPU']), [0, 1]\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("device = torch.device(f'cuda:{gpu}')", 'device = torch.device("cuda")'),
        ("device = torch.device('cuda:' + str(gpu))", 'device = torch.device("cuda")'),
        ("device = torch.device('cuda:%d' % gpu_ids[0])", 'device = torch.device("cuda")'),
        (
            "device = 'cuda:{}'.format(gpu) if torch.cuda.is_available() else 'cpu'",
            "device = \"cuda\" if torch.cuda.is_available() else 'cpu'",
        ),
        ("x = torch.zeros(2).to(0)", 'x = torch.zeros(2).to("cuda")'),
        ("x = torch.zeros(2).to(gpu_ids[0])", 'x = torch.zeros(2).to("cuda")'),
        ("x = torch.zeros(2, device=gpu)", 'x = torch.zeros(2, device="cuda")'),
        ("with torch.cuda.device(0):\n    x = torch.zeros(2).cuda()", "with torch.cuda.device(None):"),
    ],
)
def test_the_number_of_a_gpu_goes(line, expected):
    check_rewrite(training(GIVEN + line, depth=1), expected, "MG311")


@pytest.mark.parametrize(
    "line",
    [
        "print(f'cuda:{gpu} is busy')",
        "x = torch.zeros(2).to(torch.float64)",
        "x = torch.zeros(2).to(inputs)",
        "local_rank = 1\n    x = torch.zeros(2).to(f'cuda:{local_rank}')",
        "for i in range(2):\n        print(torch.cuda.get_device_name(f'cuda:{i}'))",
    ],
)
def test_what_names_no_gpu_of_all_processes_stays(line):
    check_noop(training(GIVEN + line.replace("\n    ", "\n"), depth=1), "MG311")


def test_another_gpu_than_the_first_is_a_question():
    check_question(training("x = torch.zeros(2).to(1)", depth=1), "names one GPU for all processes", "MG311")
