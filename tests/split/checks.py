"""What the split at the call must get right, each on every rank of a running process group.

A check is a function of no arguments; it raises where the split differs from the reference, or the ranks from each other.
"""

import collections
import copy
import dataclasses
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from codemods.templates.lock_step import check_in_sync, share_random_numbers
from codemods.templates.split_data_parallel import SplitDataParallel
from tests.split.reference import ReferenceDataParallel

CHECKS: dict[str, Callable[[], None]] = {}


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS[function.__name__] = function
    return function


def batch(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def same(actual: Any, expected: Any, where: str = "result", tolerance: float = 1e-11) -> None:
    """Equal in structure, type, shape and dtype, and in value up to rounding."""
    assert type(actual) is type(expected), f"{where}: {type(actual)} instead of {type(expected)}"
    if isinstance(expected, torch.Tensor):
        assert actual.requires_grad == expected.requires_grad, f"{where}: requires_grad is {actual.requires_grad}"
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, msg=lambda m: f"{where}: {m}")
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), f"{where}: {list(actual)} instead of {list(expected)}"
        for key, value in expected.items():
            same(actual[key], value, f"{where}[{key!r}]", tolerance)
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected), where
        for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
            same(a, e, f"{where}[{i}]", tolerance)
    else:
        assert actual == expected, f"{where}: {actual} instead of {expected}"


def on_all_ranks_alike(value: Any) -> None:
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, pickle.dumps(value))
    assert all(other == everyone[0] for other in everyone), "the ranks differ"


def state(*modules: nn.Module) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for i, module in enumerate(modules):
        found.update((f"{i} value of {n}", t.detach().clone()) for n, t in module.state_dict().items())
        found.update((f"{i} gradient of {n}", t.grad) for n, t in module.named_parameters())
    return found


def seeded(build: Callable[[], Any]) -> tuple[nn.Module, ...]:
    torch.manual_seed(0)
    built = build()
    return built if isinstance(built, tuple) else (built,)


def agree(build: Callable[[], Any], drive: Callable[..., Any], dim: int = 0, tolerance: float = 1e-11) -> None:
    """Drive the same modules through the reference and through the split: results, gradients and buffers are equal."""
    world = dist.get_world_size()
    originals, copies = seeded(build), seeded(build)
    expected = drive(*(ReferenceDataParallel(m, world, dim) for m in originals))
    actual = drive(*(SplitDataParallel(m, dim) for m in copies))
    same(actual, expected, tolerance=tolerance)
    same(state(*copies), state(*originals), "state", tolerance)
    on_all_ranks_alike([t.numpy() if isinstance(t, torch.Tensor) else t for t in state(*copies).values()])


class Function(nn.Module):
    """A module without parameters around a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class With(nn.Module):
    """A module with a linear layer and a BatchNorm whose forward is a function of it and its inputs."""

    def __init__(self, function: Callable[..., Any], width: int = 3) -> None:
        super().__init__()
        self.linear, self.norm, self.function = nn.Linear(width, 2), nn.BatchNorm1d(2), function
        self.register_buffer("count", torch.zeros(1))
        self.calls = 0

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 2))


def train(*losses: Callable[..., torch.Tensor], rows: int = 11) -> Callable[..., Any]:
    def drive(model: nn.Module) -> list[torch.Tensor]:
        results = []
        for seed, loss in enumerate(losses):
            value = loss(model, batch(rows, 3, seed=seed))
            value.backward()
            results.append(value.detach())
        return results

    return drive


def square(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return model(x).square().mean()


# Arguments: DataParallel's scatter


@check
def every_batch_size_makes_the_chunks_of_torch_chunk() -> None:
    for rows in (1, 2, 3, 4, 5, 6, 9, 10, 11, 16):
        agree(lambda: Function(lambda x: torch.tensor([len(x)])), lambda m, n=rows: m(torch.zeros(n, 2)))


@check
def tensors_in_nested_arguments_are_chunked_and_the_rest_is_passed_whole() -> None:
    point = collections.namedtuple("point", "x label")

    def describe(p: Any, items: Any, *, d: Any, flag: str, n: int, none: None = None) -> torch.Tensor:
        assert isinstance(p, point) and isinstance(items, list) and isinstance(d, collections.OrderedDict)
        assert (flag, n, none, p.label, items[1], d["deep"][0]) == ("a", 7, None, "pt", "z", None)
        return torch.stack([p.x, items[0], d["q"], d["deep"][1]], 1)

    def drive(m: nn.Module) -> Any:
        d = collections.OrderedDict(q=torch.arange(11) * 3, deep=(None, torch.arange(11) * 4))
        return m(point(torch.arange(11), "pt"), [torch.arange(11) * 2, "z"], d=d, flag="a", n=7, none=None)

    agree(lambda: Function(describe), drive)


class _WrapsInside(nn.Module):
    """Wraps its layer once more where it runs as a part of a replica."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return SplitDataParallel(self.layer)(x) if SplitDataParallel._inside else self.layer(x)


@check
def a_wrap_that_a_replica_makes_runs_on_its_chunk() -> None:
    agree(_WrapsInside, train(square, square))
    assert not SplitDataParallel._inside


@check
def keyword_arguments_alone_are_chunked() -> None:
    agree(mlp, lambda m: m(input=batch(11, 3)))


@check
def the_argument_with_the_fewest_chunks_decides_and_the_other_rows_are_dropped() -> None:
    def drive(m: nn.Module) -> Any:
        x = batch(9, 3).requires_grad_()
        y = m(x, torch.arange(2))
        y.sum().backward()
        return y, x.grad

    agree(lambda: With(lambda s, x, w: s.linear(x) * len(w)), drive)


@check
def a_0_dim_argument_is_refused() -> None:
    raises(RuntimeError, "chunk expects at least a 1-dimensional tensor", mlp(), torch.tensor(1.0))


@check
def without_arguments_one_replica_runs_and_with_others_than_tensors_all_do() -> None:
    agree(lambda: With(lambda s: s.linear.weight.sum()), lambda m: m())
    agree(lambda: With(lambda s: s.linear.weight), lambda m: m())
    agree(lambda: With(lambda s, what: s.linear.weight.sum()), lambda m: m("sum"))
    agree(lambda: With(lambda s, what=None: s.linear.weight), lambda m: (m(what=3), m(what=3).sum().backward())[0])


@check
def empty_containers_and_empty_batches_pass() -> None:
    agree(lambda: Function(lambda x, a, b, c: (x, a, b)), lambda m: m(torch.zeros(4), [], {}, ()))
    agree(lambda: Function(lambda x: x * 2), lambda m: m(torch.zeros(0, 3)))


@check
def a_replica_may_write_to_its_arguments_and_the_batch_stays() -> None:
    x = torch.ones(8, 2)
    model = SplitDataParallel(Function(lambda t: t.mul_(3)))
    same(model(x), torch.full((8, 2), 3.0))
    same(x, torch.ones(8, 2))
    agree(lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 1)), lambda m: m(batch(8, 3) * batch(8, 1)))


class Drawn(torch.Tensor):
    """Numbers that know how they were drawn, which no chunk of them does."""

    def to(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        assert self.drawn == "normal"  # type: ignore[attr-defined]
        return super().to(*args, **kwargs)


@check
def replicas_get_plain_tensors_of_a_subclass() -> None:
    class Kind(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert type(x) is torch.Tensor
            return x * 2

    for rows in (batch(6, 2), batch(6, 2).requires_grad_()):
        drawn = (rows * 1).as_subclass(Drawn)
        drawn.drawn = "normal"  # type: ignore[attr-defined]
        output = SplitDataParallel(Kind())(drawn)
        same(output.detach(), rows.detach() * 2)
        if rows.requires_grad:
            output.sum().backward()
            same(rows.grad, torch.full_like(rows, 2.0))


@check
def chunks_along_dim_1() -> None:
    agree(lambda: nn.LSTM(3, 4), lambda m: step(m(batch(5, 7, 3))[0]), dim=1)
    agree(mlp, lambda m: step(m(batch(2, 7, 3))), dim=1)
    agree(mlp, lambda m: step(m(batch(2, 7, 3))), dim=-2)


def step(output: torch.Tensor) -> torch.Tensor:
    output.square().sum().backward()
    return output


def raises(kind: type[Exception], text: str, module: nn.Module, *args: Any) -> None:
    """All ranks see the error, and the group can go on."""
    try:
        SplitDataParallel(module)(*args)
    except kind as error:
        assert text in str(error), str(error)
    else:
        raise AssertionError(f"{kind.__name__} was not raised")
    dist.barrier()


# Outputs: DataParallel's gather


@check
def numbers_become_a_vector_with_an_element_per_replica() -> None:
    for rows in (8, 6, 3, 1):
        agree(lambda: With(lambda s, x: s.linear(x).mean()), lambda m, n=rows: step(m(batch(n, 3))))


@check
def outputs_of_any_structure() -> None:
    pair = collections.namedtuple("pair", "a b")

    def forward(x: torch.Tensor) -> Any:
        return {"p": pair(x, [x.long(), None]), "t": (x > 0, x.to(torch.int16), torch.complex(x, x)), "e": {}, "l": []}

    agree(lambda: Function(forward), lambda m: m(batch(11, 3)))
    agree(lambda: Function(lambda x: None), lambda m: m(batch(11, 3)))
    agree(
        lambda: Function(lambda x: (x.bfloat16(), x.half(), x.t()[0], x.expand(3, *x.shape)[0])),
        lambda m: m(batch(5, 3)),
    )


class Output(collections.OrderedDict[str, Any]):
    """As the outputs of transformers are: a dict, made of pairs, whose items are attributes too."""

    def __init__(self, pairs: Any) -> None:
        super().__init__(pairs)
        self.loss, self.logits = self["loss"], self["logits"]


@check
def dicts_of_a_class_keep_their_class() -> None:
    def drive(m: nn.Module) -> Any:
        output = m(batch(7, 3))
        output.loss.mean().backward()
        return output

    agree(lambda: With(lambda s, x: Output([("loss", s.linear(x).mean()), ("logits", x), ("hidden", (x, x))])), drive)


@check
def each_replica_may_return_another_number_of_rows() -> None:
    def drive(m: nn.Module) -> torch.Tensor:
        return step(m(batch(11, 3)))

    agree(lambda: With(lambda s, x: s.linear(x[x[:, 0] > 0])), drive)
    agree(lambda: With(lambda s, x: s.linear(x).sum(0, keepdim=True)), drive)
    agree(lambda: With(lambda s, x: s.linear(x).reshape(-1)), drive)


@check
def only_what_depends_on_parameters_requires_a_gradient() -> None:
    agree(lambda: With(lambda s, x: (x * 2, s.linear(x), s.linear(x).detach(), x.long())), lambda m: m(batch(11, 3)))


@check
def outputs_that_cannot_be_gathered_are_refused() -> None:
    record = dataclasses.make_dataclass("record", ["x"])
    x = torch.zeros(8, 2)
    raises(TypeError, "output is a float", Function(lambda t: 1.0), x)
    raises(TypeError, "output['a'][1] is a str", Function(lambda t: {"a": [t, "b"]}), x)
    raises(TypeError, "output is a record", Function(record), x)
    rank = dist.get_rank()
    raises(RuntimeError, "Sizes of tensors must match", Function(lambda t: t.new_zeros(2, rank + 1)), x)
    raises(ValueError, "different structures", Function(lambda t: {"a": t} if rank else {"b": t}), x)


@check
def an_error_in_one_replica_is_raised_on_all_ranks() -> None:
    def fail(x: torch.Tensor) -> torch.Tensor:
        if x[0] == 4:
            raise KeyError("boom")
        return x

    raises(
        KeyError, "boom", Function(fail), torch.arange(8) // (8 // dist.get_world_size()) + 5 - dist.get_world_size()
    )


# State: DataParallel's replicas


@check
def replica_0_s_buffers_stay_and_plain_attributes_do_not() -> None:
    def forward(s: Any, x: torch.Tensor) -> torch.Tensor:
        s.count += x.sum().detach()
        s.calls += 1
        return s.norm(s.linear(x))

    def drive(m: Any) -> Any:
        outputs = [step(m(batch(rows, 3))) for rows in (8, 11, 8)]
        m.eval()
        outputs.append(m(batch(9, 3)).detach())
        return outputs, m.module.calls, m.module.norm.num_batches_tracked

    agree(lambda: With(forward), drive)


@check
def replicas_still_list_their_parameters() -> None:
    # torch's replicas have none since 1.5, which stops programs that ask for next(self.parameters()).dtype in forward.
    model = SplitDataParallel(With(lambda s, x: s.linear(x) + len(list(s.parameters()))))
    same(model(batch(8, 3)), model.module(batch(8, 3)))


@check
def the_first_call_gives_all_ranks_rank_0_s_values_under_dataparallel_s_keys() -> None:
    torch.manual_seed(dist.get_rank())
    model = SplitDataParallel(normed())
    model(batch(9, 3))
    on_all_ranks_alike([t.numpy() for t in model.state_dict().values()])
    assert list(model.state_dict()) == list(nn.DataParallel(normed()).state_dict())
    other = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    same(other(batch(9, 3)), model(batch(9, 3)))


@check
def each_output_has_a_graph_of_its_own() -> None:
    def drive(m: nn.Module) -> torch.Tensor:
        first, second = m(batch(9, 3))
        first.mean().backward()
        second.sum().backward()
        return first

    agree(lambda: With(lambda s, x: (s.linear(x).mean(), s.linear(x).square())), drive)


@check
def a_wrap_inside_a_wrap_runs_the_chunk_that_it_is_given() -> None:
    def drive(m: nn.Module) -> torch.Tensor:
        return step(m(batch(11, 3)))

    torch.manual_seed(0)
    inner = mlp()
    split = SplitDataParallel(nn.Sequential(SplitDataParallel(copy.deepcopy(inner)), nn.Tanh()))
    plain = nn.Sequential(inner, nn.Tanh())
    same(drive(split), drive(ReferenceDataParallel(plain, dist.get_world_size())))
    same([p.grad for p in split.parameters()], [p.grad for p in plain.parameters()])


# Random numbers


@check
def replicas_draw_different_numbers_and_the_program_s_streams_stay_equal() -> None:
    def draw(x: torch.Tensor) -> torch.Tensor:
        numbers = [torch.rand(1).item(), random.random(), numpy.random.rand()]
        return torch.tensor([numbers], dtype=torch.float64)

    torch.manual_seed(3), random.seed(3), numpy.random.seed(3)
    model = SplitDataParallel(Function(draw))
    before = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()
    first, second = model(torch.zeros(8)), model(torch.zeros(8))
    assert len(torch.cat([first, second]).unique()) == 6 * dist.get_world_size()
    same((torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()), before)
    on_all_ranks_alike(first.numpy())
    torch.manual_seed(0)


@check
def dropout_differs_between_rows_and_is_equal_on_all_ranks() -> None:
    torch.manual_seed(3)
    output = SplitDataParallel(nn.Dropout(0.5))(torch.ones(8, 50))
    assert len(output.unique(dim=0)) == 8
    on_all_ranks_alike((output.numpy(), torch.rand(3).numpy()))


@check
def all_ranks_continue_with_rank_0_s_random_numbers() -> None:
    def draw() -> tuple[float, ...]:
        return torch.rand(1).item(), random.random(), float(numpy.random.rand())

    torch.manual_seed(dist.get_rank()), random.seed(dist.get_rank()), numpy.random.seed(dist.get_rank())
    draw()
    share_random_numbers()
    on_all_ranks_alike((torch.initial_seed(), *(draw() for _ in range(3))))
    torch.manual_seed(0), random.seed(0), numpy.random.seed(0)
    draw(), share_random_numbers()
    second = draw()
    torch.manual_seed(0), random.seed(0), numpy.random.seed(0)
    draw()
    assert draw() == second


@check
def ranks_that_drift_apart_are_found() -> None:
    model = SplitDataParallel(Kinds())
    check_in_sync(model)
    model.module.items[1].data[2] += 1e-12 * dist.get_rank()
    try:
        check_in_sync(model)
    except RuntimeError as error:
        assert "1 of 6 tensors, first in module.items.1" in str(error), str(error)
    else:
        raise AssertionError("not found")
    dist.barrier()


# Gradients


@check
def plain_networks() -> None:
    for rows in (16, 11, 5, 3, 2, 1):
        agree(mlp, train(square, square, rows=rows))
    for rows in (16, 11, 9):
        agree(normed, train(square, square, square, rows=rows))


@check
def two_views_joined_before_the_call_and_an_in_batch_contrastive_loss() -> None:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        first, second = F.normalize(model(torch.cat([x, x.flip(1)]))).split(len(x))
        return F.cross_entropy(first @ second.t() / 0.1, torch.arange(len(x)))

    agree(normed, train(loss, loss, loss, rows=11))


@check
def a_loss_in_forward_then_mean_sum_or_weights() -> None:
    def forward(s: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(s.linear(x), y)

    for finish in (torch.mean, torch.sum, lambda v: v[0], lambda v: v @ torch.arange(1.0, len(v) + 1)):
        for rows in (8, 10, 3):
            labels = torch.arange(rows) % 2
            agree(lambda: With(forward), train(lambda m, x, f=finish, y=labels: f(m(x, y)), rows=rows))


@check
def two_forwards_then_two_backwards() -> None:
    def drive(m: nn.Module) -> Any:
        a, b = square(m, batch(11, 3)), m(batch(12, 3, seed=2)).sum()
        a.backward()
        b.backward()
        return a, b

    agree(normed, drive)


@check
def two_backwards_through_one_graph() -> None:
    def drive(m: nn.Module) -> Any:
        a = square(m, batch(11, 3))
        a.backward(retain_graph=True)
        a.backward()
        return a

    agree(normed, drive)


@check
def a_gradient_penalty() -> None:
    for rows in (11, 2, 1):

        def drive(m: nn.Module, n: int = rows) -> Any:
            x = batch(n, 3).requires_grad_()
            (g,) = torch.autograd.grad(m(x).sum(), x, create_graph=True)
            penalty = (g.norm(dim=1) - 1).square().mean() + square(m, batch(n, 3, seed=4))
            penalty.backward()
            return penalty, g, x.grad

        agree(mlp, drive)


@check
def gradients_of_parameters_and_their_gradients() -> None:
    def drive(m: nn.Module) -> Any:
        parameters = list(m.parameters())
        grads = torch.autograd.grad(square(m, batch(11, 3)), parameters, create_graph=True)
        sum(g.square().sum() for g in grads).backward()
        fast = torch.autograd.grad(square(m, batch(3, 3)), parameters)
        return grads, fast

    agree(mlp, drive)


@check
def third_derivatives() -> None:
    def drive(m: nn.Module) -> Any:
        x = batch(6, 3).requires_grad_()
        y = m(x).sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), x, create_graph=True)
        second.pow(2).sum().backward()
        return second, x.grad

    agree(mlp, drive)


@check
def derivatives_inside_forward() -> None:
    def forward(s: Any, x: torch.Tensor) -> Any:
        x.requires_grad_()
        energy = s.linear(x).tanh().sum(1)
        (force,) = torch.autograd.grad(energy.sum(), x, create_graph=True)
        return energy, force

    agree(lambda: With(forward), train(lambda m, x: sum(t.square().sum() for t in m(x))))


@check
def unused_parameters_get_zeros() -> None:
    agree(Unused, train(square, square))


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x)


@check
def a_branch_that_only_some_replicas_take() -> None:
    def forward(s: Any, x: torch.Tensor) -> torch.Tensor:
        return s.linear(x).sum() if x[0, 0] > 0 else torch.zeros(())

    def drive(m: nn.Module) -> Any:
        x = batch(8, 3).requires_grad_()
        loss = m(x).mean()
        loss.backward()
        return loss, x.grad

    assert len({bool(c[0, 0] > 0) for c in batch(8, 3).chunk(dist.get_world_size())}) == 2
    agree(lambda: With(forward), drive)


@check
def outputs_that_the_loss_does_not_use() -> None:
    def forward(s: Any, x: torch.Tensor) -> Any:
        return s.linear(x), (s.linear(x) * 0).sqrt()

    agree(lambda: With(forward), train(lambda m, x: m(x)[0].sum(), lambda m, x: m(x)[0].mean()))


@check
def freezing_and_unfreezing_after_the_wrap() -> None:
    def drive(m: nn.Module) -> Any:
        losses = []
        for on in (True, False, True, False):
            for p in m.module[0].parameters():
                p.requires_grad_(on)
            losses.append(square(m, batch(11, 3)))
            losses[-1].backward()
        for p in m.parameters():
            p.requires_grad_(False)
        return losses, m(batch(5, 3))

    agree(mlp, drive)


@check
def replacing_a_layer_after_the_wrap() -> None:
    def drive(m: nn.Module) -> Any:
        torch.manual_seed(5)
        m.module[2] = nn.Linear(5, 4)
        return step(m(batch(11, 3)))

    agree(mlp, drive)


@check
def tied_weights_and_shared_modules() -> None:
    def build() -> nn.Module:
        a, b = nn.Linear(3, 3), nn.Linear(3, 3)
        b.weight = a.weight
        norm = nn.BatchNorm1d(3)
        return nn.Sequential(a, norm, b, norm, a)

    agree(build, train(square, square))


class Kinds(nn.Module):
    """The places in which a module can keep parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.items = nn.ParameterList([nn.Parameter(torch.randn(3)) for _ in range(2)])
        self.table = nn.ParameterDict({"w": nn.Parameter(torch.randn(3))})
        self.layers = nn.ModuleDict({"relu": nn.Linear(3, 3, bias=False)})
        self.register_parameter("absent", None)
        self.register_buffer("nothing", None)
        self.register_buffer("plan", torch.tensor([True, False, True]), persistent=False)
        self.constant = torch.tensor([1.0, 2.0, 3.0])
        self.frozen = nn.Parameter(torch.randn(3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert self.absent is None and self.nothing is None
        x = self.layers["relu"](x) * self.constant * self.plan + self.frozen
        return x * self.items[0] + self.items[1] * self.table["w"]


@check
def parameters_in_lists_and_dicts() -> None:
    agree(Kinds, train(square, square))


@check
def reparametrised_weights() -> None:
    norms = nn.utils.parametrizations
    agree(lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(3, 4)), nn.Linear(4, 2)), train(square, square))
    agree(lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(3, 4)), nn.Tanh()), train(square, square))
    agree(lambda: nn.Sequential(norms.weight_norm(nn.Linear(3, 4)), nn.Linear(4, 2)), train(square, square))
    agree(lambda: nn.Sequential(norms.spectral_norm(nn.Linear(3, 4)), nn.Tanh()), train(square, square))


@check
def recurrent_networks() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), nn.Linear(8, 2)

        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            self.rnn.flatten_parameters()
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            out, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.shape[1])
            return self.head(out)

    lengths = torch.tensor([5, 3, 1, 2, 5, 4, 1])
    agree(Recurrent, lambda m: [step(m(batch(7, 5, 3), lengths)) for _ in range(2)])
    agree(lambda: nn.GRU(3, 4, batch_first=True), lambda m: step(m(batch(6, 5, 3))[0]))


@check
def attention_and_embeddings() -> None:
    def build() -> nn.Module:
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        return nn.Sequential(nn.Embedding(10, 8), layer, nn.Linear(8, 10))

    agree(build, lambda m: step(m(torch.arange(28).view(7, 4) % 10)))


@check
def sparse_gradients_stay_sparse() -> None:
    def drive(m: nn.Module) -> Any:
        m(torch.arange(11) % 7).square().sum().backward()
        grad = m.module.weight.grad
        m.module.weight.grad = grad.to_dense()
        return grad.is_sparse

    agree(lambda: nn.Embedding(10, 3, sparse=True), drive)


@check
def a_wrapped_part_with_a_plain_head_and_a_wrapped_head() -> None:
    def drive(m: nn.Module) -> Any:
        torch.manual_seed(7)
        head = nn.Linear(2, 2)
        loss = head(m(batch(11, 3))).square().mean()
        loss.backward()
        return loss, [p.grad for p in head.parameters()]

    agree(normed, drive)

    def drive_both(body: nn.Module, head: nn.Module) -> Any:
        x = batch(11, 4)
        loss = head(F.relu(body(x))).square().mean() + body(x[:3]).sum()
        loss.backward()
        return loss

    agree(lambda: (nn.Linear(4, 3), normed()), drive_both)


@check
def calls_past_the_wrapper() -> None:
    agree(mlp, train(lambda m, x: square(m, x) + square(m.module, x), lambda m, x: square(m.module, x)))
    agree(mlp, train(lambda m, x: square(m, x) + sum(p.abs().sum() for p in m.parameters())))


@check
def a_gan() -> None:
    def discriminator() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.LeakyReLU(0.2), nn.Linear(6, 1))

    def generator() -> nn.Module:
        return nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3))

    def drive(g: nn.Module, d: nn.Module) -> Any:
        both = [torch.optim.Adam(net.parameters(), 0.01, eps=0.01) for net in (g, d)]
        losses = []
        for seed in range(3):
            real, z = batch(11, 3, seed=seed), batch(11, 2, seed=seed + 50)
            fake = g(z)
            both[1].zero_grad()
            loss = F.softplus(-d(real)).mean() + F.softplus(d(fake.detach())).mean()
            mix = (real + fake.detach()).requires_grad_()
            (slope,) = torch.autograd.grad(d(mix).sum(), mix, create_graph=True)
            (loss + (slope.norm(dim=1) - 1).square().mean()).backward()
            both[1].step()
            both[0].zero_grad()
            fooled = F.softplus(-d(fake)).mean()
            fooled.backward()
            both[0].step()
            losses += [loss.detach(), fooled.detach()]
        return losses

    agree(lambda: (generator(), discriminator()), drive)


@check
def buffers_in_the_graph_of_two_forwards() -> None:
    def forward(s: Any, x: torch.Tensor) -> torch.Tensor:
        y = s.linear(x) * s.count
        s.count = s.count.mul(2)
        return y

    def drive(m: nn.Module) -> Any:
        loss = (
            square(m, batch(9, 3)) * m(batch(9, 3, seed=3)).mean() + m.module.norm(m.module.linear(batch(4, 3))).sum()
        )
        loss = loss + m(batch(9, 3, seed=4)).mean()
        loss.backward()
        return loss

    def build() -> nn.Module:
        module = With(forward)
        module.count.fill_(2.0)
        return module

    agree(build, drive)
    agree(lambda: With(lambda s, x: s.norm(s.linear(x))), drive)


@check
def buffers_written_behind_autograd_s_back() -> None:
    def forward(s: Any, x: torch.Tensor) -> torch.Tensor:
        y = s.linear(x) * s.count
        s.count.data += x.sum()
        return y

    agree(lambda: With(forward), train(square, square))


@check
def accumulated_gradients_with_an_optimizer_and_clipping() -> None:
    def drive(m: nn.Module) -> Any:
        optimizer = torch.optim.AdamW(m.parameters(), 0.05, weight_decay=0.1, eps=0.01)
        norms = []
        for i in range(6):
            (square(m, batch(12 - i // 3, 3, seed=i)) / 3).backward()
            if i % 3 == 2:
                norms.append(nn.utils.clip_grad_norm_(m.parameters(), 0.1))
                optimizer.step()
                optimizer.zero_grad()
        return norms

    agree(normed, drive)


@check
def evaluation_without_gradients() -> None:
    def drive(m: nn.Module) -> Any:
        m.eval()
        with torch.no_grad():
            results = [m(batch(rows, 3)) for rows in (11, 2)]
        with torch.inference_mode():
            results.append(m(batch(7, 3)).clone())
        m.train()
        with torch.no_grad():
            results.append(m(batch(11, 3)))
        return [r.clone() for r in results]

    agree(normed, drive)


@check
def activation_checkpointing() -> None:
    for reentrant in (False, True):

        class Layers(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.a, self.b, self.drop = nn.Linear(3, 4), nn.Linear(4, 4), nn.Dropout(0.0)

            def forward(self, x: torch.Tensor, reentrant: bool = reentrant) -> torch.Tensor:
                x = self.a(x)
                for _ in range(2):
                    x = checkpoint(lambda t: self.drop(self.b(t).tanh()), x, use_reentrant=reentrant)
                return x

        agree(Layers, train(square, square))


@check
def hooks_on_parameters_and_modules() -> None:
    def drive(m: nn.Module) -> Any:
        seen = []
        m.module[0].weight.register_hook(lambda g: seen.append(g.clone()) or g * 2)
        m.module[2].register_forward_hook(lambda mod, args, out: out * 2)
        return step(m(batch(11, 3))), seen

    agree(mlp, drive)


@check
def scripted_modules() -> None:
    agree(lambda: nn.Sequential(torch.jit.script(normed()), nn.Linear(2, 2)), train(square, square))


@check
def autocast_reaches_the_replicas() -> None:
    model = SplitDataParallel(nn.Linear(3, 2).float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(torch.randn(8, 3).float())
    assert output.dtype == torch.bfloat16
    output.float().sum().backward()
    assert model.module.weight.grad.dtype == torch.float32


@check
def mixed_dtypes() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 2).float(), nn.Linear(2, 2).double()
            self.c = nn.Parameter(torch.randn(2, dtype=torch.complex128))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.b(self.a(x.float()).double()) * self.c).abs()

    agree(Mixed, train(square), tolerance=1e-6)
