"""Run under the simulated devices: what nn.DataParallel and torch.cuda do, checked one by one.

Prints "ok NAME" or "no NAME" for each check; `test_semantics.py` reads that.
"""

import collections
import copy
import io
import pickle
import tempfile
import warnings
from pathlib import Path

import torch
from torch import nn

warnings.simplefilter("always")
CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


class Model(nn.Module):
    """Notes what each replica was given."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 2), nn.BatchNorm1d(2)
        self.register_buffer("count", torch.zeros(1))
        self.plain, self.seen = 0, []

    def forward(self, x=None, **named):
        self.count += 1
        self.plain += 1
        self.seen.append((None if x is None else len(x), named, torch.cuda.current_device()))
        return self.norm(self.linear(x)) if x is not None else self.linear.weight.sum()


class Same(nn.Module):
    def forward(self, x):
        return x


def wrapped(model=None, **options):
    return nn.DataParallel((model or Model()).cuda(), **options)


@check
def eleven_samples_make_chunks_of_3_3_3_2():
    net = wrapped()
    net(torch.randn(11, 3))
    return [rows for rows, _, _ in net.module.seen] == [3, 3, 3, 2]


@check
def six_samples_make_three_replicas():
    net = wrapped()
    net(torch.randn(6, 3))
    return [rows for rows, _, _ in net.module.seen] == [2, 2, 2]


@check
def keyword_tensors_are_chunked():
    net = wrapped()
    net(torch.randn(11, 3), t=torch.arange(11))
    return [len(named["t"]) for _, named, _ in net.module.seen] == [3, 3, 3, 2]


@check
def tensors_in_lists_are_chunked_and_the_rest_copied():
    net = wrapped()
    net(torch.randn(11, 3), l=[torch.arange(11), "z"])
    return [(len(n["l"][0]), n["l"][1]) for _, n, _ in net.module.seen] == [(3, "z")] * 3 + [(2, "z")]


@check
def tensors_in_dictionaries_are_chunked():
    net = wrapped()
    net(torch.randn(11, 3), d={"q": torch.arange(11)})
    return [len(n["d"]["q"]) for _, n, _ in net.module.seen] == [3, 3, 3, 2]


@check
def other_arguments_reach_every_replica():
    net = wrapped()
    net(torch.randn(8, 3), flag="a", number=7, none=None)
    return all(n == {"flag": "a", "number": 7, "none": None} for _, n, _ in net.module.seen)


@check
def each_replica_has_its_own_current_device():
    net = wrapped()
    net(torch.randn(8, 3))
    return [device for _, _, device in net.module.seen] == [0, 1, 2, 3]


@check
def the_current_device_comes_back():
    torch.cuda.set_device(2)
    wrapped(device_ids=[0, 1])(torch.randn(4, 3))
    device = torch.cuda.current_device()
    torch.cuda.set_device(0)
    return device == 2


@check
def a_list_of_the_module_is_shared_by_replicas():
    net = wrapped()
    net(torch.randn(8, 3))
    return len(net.module.seen) == 4


@check
def the_buffer_of_replica_0_is_kept():
    net = wrapped()
    net(torch.randn(8, 3))
    return net.module.count.item() == 1


@check
def plain_attributes_of_replicas_are_lost():
    net = wrapped()
    net(torch.randn(8, 3))
    return net.module.plain == 0


@check
def batch_norm_keeps_the_statistics_of_replica_0():
    net, x = wrapped(), torch.randn(11, 3)
    alone = copy.deepcopy(net.module.norm)
    net(x)
    alone(net.module.linear(x[:3]))
    return torch.allclose(alone.running_mean, net.module.norm.running_mean)


@check
def gradients_are_summed_over_replicas():
    net, x = wrapped(), torch.randn(12, 3)
    parts = [copy.deepcopy(net.module.norm)(net.module.linear(c)) for c in x.chunk(4)]
    (wanted,) = torch.autograd.grad(torch.cat(parts).square().sum(), net.module.linear.weight)
    net(x).square().sum().backward()
    return torch.allclose(wanted, net.module.linear.weight.grad, atol=1e-5)


@check
def gradients_reach_the_inputs():
    x = torch.randn(8, 3, requires_grad=True)
    wrapped()(x).square().sum().backward()
    return x.grad is not None and bool((x.grad.abs().sum(1) > 0).all())


@check
def unused_parameters_get_zeros():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.used(x)

    net = wrapped(Two())
    net(torch.randn(4, 2)).sum().backward()
    return net.module.unused.weight.grad is not None and net.module.unused.weight.grad.abs().sum() == 0


@check
def numbers_are_gathered_to_a_vector_with_a_warning():
    class Mean(nn.Module):
        def forward(self, x):
            return x.mean()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        vector = wrapped(Mean())(torch.arange(8.0))
    return vector.shape == (4,) and any("gather along dimension 0" in str(w.message) for w in told)


@check
def dictionaries_lists_and_none_are_gathered():
    class Nest(nn.Module):
        def forward(self, x):
            return {"a": x, "l": [x * 2]}, None

    nest, none = wrapped(Nest())(torch.arange(8.0))
    return nest["a"].shape == (8,) and nest["l"][0].shape == (8,) and none is None


@check
def named_tuples_are_gathered():
    Pair = collections.namedtuple("Pair", "a b")

    class Two(nn.Module):
        def forward(self, x):
            return Pair(x, x + 1)

    pair = wrapped(Two())(torch.arange(8.0))
    return isinstance(pair, Pair) and pair.b.shape == (8,)


@check
def dimension_1_is_split():
    class Shape(nn.Module):
        def forward(self, x):
            return x.new_full((1, x.shape[1]), float(x.shape[1]))

    return wrapped(Shape(), dim=1)(torch.randn(3, 8)).tolist() == [[2.0] * 8]


@check
def device_ids_choose_the_devices():
    net = wrapped(device_ids=[0, 1])
    net(torch.randn(5, 3))
    return [rows for rows, _, _ in net.module.seen] == [3, 2]


@check
def one_device_calls_the_module_itself():
    net = wrapped(device_ids=[0])
    net(torch.randn(5, 3))
    return net.module.plain == 1


@check
def a_device_that_is_not_there_is_refused():
    try:
        nn.DataParallel(Model(), device_ids=[0, 7])
    except RuntimeError as error:
        return "invalid device ordinal" in str(error)


@check
def a_number_as_input_is_refused():
    try:
        wrapped(Same())(torch.tensor(1.0))
    except RuntimeError as error:
        return "at least a 1-dimensional tensor" in str(error)


@check
def without_inputs_one_replica_runs():
    net = wrapped()
    net()
    return len(net.module.seen) == 1


@check
def replicas_have_no_parameters():
    class Count(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            Count.parameters_seen = len(list(self.parameters()))
            return self.linear(x)

    wrapped(Count())(torch.randn(8, 2))
    return Count.parameters_seen == 0


@check
def a_replicas_weights_are_on_its_device():
    class Where(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.devices = nn.Linear(2, 2), []

        def forward(self, x):
            self.devices.append(str(self.linear.weight.device))
            return self.linear(x)

    net = wrapped(Where())
    net(torch.randn(8, 2))
    return net.module.devices == [f"cuda:{i}" for i in range(4)]


@check
def parameter_lists_and_recurrent_layers_are_replicated():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.scales = nn.ParameterList([nn.Parameter(torch.ones(2))])
            self.lstm = nn.LSTM(2, 3, batch_first=True)

        def forward(self, x):
            return self.lstm(x * self.scales[0])[0]

    net = wrapped(Mixed())
    net(torch.randn(8, 5, 2)).sum().backward()
    return net.module.scales[0].grad.abs().sum() > 0


@check
def an_exception_in_a_replica_is_raised():
    class Boom(nn.Module):
        def forward(self, x):
            if torch.cuda.current_device() == 2:
                raise ValueError("boom")
            return x

    try:
        wrapped(Boom())(torch.randn(8, 2))
    except ValueError as error:
        return "boom" in str(error)


@check
def no_grad_gives_no_graph():
    with torch.no_grad():
        return wrapped()(torch.randn(8, 3)).requires_grad is False


@check
def the_functional_form_works():
    return nn.parallel.data_parallel(nn.Linear(3, 2).cuda(), torch.randn(8, 3), range(4)).shape == (8, 2)


@check
def a_wrapper_can_be_copied_and_pickled():
    net = wrapped(nn.Linear(3, 2))
    return pickle.loads(pickle.dumps(copy.deepcopy(net))).module.weight.shape == (2, 3)


@check
def state_dict_has_the_prefix():
    return all(key.startswith("module.") for key in wrapped().state_dict())


@check
def cuda_copies():
    a = torch.randn(3)
    a.cuda().mul_(0)
    return a.abs().sum() > 0


@check
def cpu_copies():
    a = torch.randn(3).cuda()
    kept = a.cpu()
    a.mul_(0)
    return kept.abs().sum() > 0


@check
def tensors_say_cuda_to_the_program():
    x = torch.randn(3).cuda()
    return str(x.device) == "cuda:0" and x.is_cuda and x.get_device() == 0 and x.type() == "torch.cuda.FloatTensor"


@check
def a_module_keeps_its_parameter_objects():
    linear = nn.Linear(2, 2)
    weight = linear.weight
    return linear.cuda().to("cuda:1").weight is weight


@check
def devices_are_counted_and_described():
    properties = torch.cuda.get_device_properties(3)
    return (
        torch.cuda.device_count() == 4
        and torch.cuda.is_available()
        and torch.accelerator.device_count() == 4
        and torch.cuda.get_device_name(0) == properties.name
    )


@check
def factories_take_cuda_devices():
    made = [
        torch.zeros(2, device="cuda:1"),
        torch.randn(2, device=torch.device("cuda")),
        torch.arange(2, device=3),
        torch.zeros(2).new_zeros(2, device="cuda"),
        torch.zeros_like(torch.zeros(2), device="cuda"),
    ]
    return all(len(x) == 2 for x in made)


@check
def a_device_context_works():
    with torch.device("cuda:1"), torch.cuda.device(2):
        return len(torch.zeros(2)) == 2 and torch.cuda.current_device() == 2


@check
def old_tensor_types_work():
    x = torch.cuda.FloatTensor(3)
    return isinstance(x, torch.cuda.FloatTensor) and x.type("torch.cuda.LongTensor").dtype == torch.long


@check
def a_generator_on_cuda_works():
    return torch.randn(2, generator=torch.Generator(device="cuda").manual_seed(1), device="cuda").shape == (2,)


@check
def map_location_works_in_every_form():
    path = Path(tempfile.gettempdir()) / "weights.pt"
    torch.save({"w": torch.randn(2)}, path)
    forms = ("cuda:1", torch.device("cuda"), {"cuda:0": "cuda:1"}, lambda storage, location: storage.cuda(0))
    return all(torch.load(path, map_location=form)["w"].shape == (2,) for form in forms)


@check
def autocast_runs_in_float32():
    with torch.autocast("cuda", dtype=torch.float16):
        return (torch.randn(2, 2) @ torch.randn(2, 2)).dtype == torch.float32


@check
def the_scaler_skips_a_step_that_is_not_finite():
    scaler, weight = torch.amp.GradScaler("cuda"), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], 1.0)
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return weight.tolist() == [1.0, 1.0] and scaler.get_scale() == 32768.0


@check
def events_streams_and_memory_answer():
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    with torch.cuda.stream(torch.cuda.Stream()):
        end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) >= 0 and torch.cuda.max_memory_allocated() == 0 and torch.cuda.mem_get_info()[0] > 0


@check
def pinned_memory_and_streams_of_tensors_are_accepted():
    x = torch.randn(2).pin_memory()
    x.record_stream(torch.cuda.current_stream())
    return x.cuda(non_blocking=True).shape == (2,)


@check
def scripted_modules_work():
    return torch.jit.script(nn.Linear(2, 2))(torch.randn(1, 2)).shape == (1, 2)


@check
def optimizers_step_on_simulated_devices():
    net = wrapped(nn.Linear(3, 2))
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop):
        optimizer = kind(net.parameters(), lr=0.1)
        net(torch.randn(8, 3)).sum().backward()
        optimizer.step()
    return True


@check
def layers_that_wait_for_each_other_run_at_the_same_time():
    import threading

    barrier = threading.Barrier(4, timeout=20)

    class Waits(nn.Module):
        def __init__(self):
            super().__init__()
            self._sync_master = None

        def forward(self, x):
            barrier.wait()
            return x

    return wrapped(Waits())(torch.randn(8, 3)).shape == (8, 3)


@check
def whole_objects_are_saved_and_loaded():
    buffer = io.BytesIO()
    torch.save(wrapped(nn.Linear(3, 2)), buffer)
    buffer.seek(0)
    return torch.load(buffer, map_location="cuda", weights_only=False).module.weight.shape == (2, 3)


for name, function in CHECKS.items():
    try:
        right = bool(function())
    except Exception as error:
        right = False
        print(f"{name}: {type(error).__name__}: {error}")
    print("ok" if right else "no", name)
