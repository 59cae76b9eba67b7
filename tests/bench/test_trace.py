"""Shares of communication: on generated traces with known times, and on a real gloo trace with measured waits."""

import gzip
import json
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from benchmarks import trace
from benchmarks.trace import TraceError, covered, events, read_shares


def x(name, category, start, length, device=None, tid=7):
    args = {"device": device, "stream": tid} if device is not None else {}
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": device or 0,
        "tid": tid,
        "ts": start,
        "dur": length,
        "args": args,
    }


def kernel(start, length, device=0, tid=7, name="sm80_gemm"):
    return x(name, "kernel", start, length, device, tid)


def nccl(start, length, device=0, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"):
    return x(name, "kernel", start, length, device, 20)


def step(number, start, length):
    return x(f"ProfilerStep#{number}", "user_annotation", start, length)


def write(path, listed, indent=2):
    text = json.dumps(
        {"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": listed, "traceName": "t"}, indent=indent
    )
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def cuda_trace(steps=5):
    """DDP on one device: of 10 ms a step, 6 compute, 4 all-reduce, of which 1.5 are exposed; 0.5 host copies; the rest idle."""
    listed = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": 'a "quoted" [name]'}}]
    for i in range(steps):
        t = 1000 + i * 10_000
        listed += [
            step(i, t, 10_000),
            x("Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", t, 500, 0),
            kernel(t + 500, 3000),
            kernel(t + 1500, 1000, tid=8),  # on another stream, inside the first
            kernel(t + 3500, 3000),
            nccl(t + 4000, 2500),  # hidden
            nccl(t + 6500, 1500),  # exposed
            x("aten::mm", "cpu_op", t, 9000),
            x("cudaLaunchKernel", "cuda_runtime", t, 9000),
            x("DistributedDataParallel.forward", "gpu_user_annotation", t, 9000, 0),
        ]
    return listed


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_cuda_trace_with_known_times(tmp_path, name):
    (found,) = read_shares(write(tmp_path / name, cuda_trace()))
    assert found.device == "cuda:0"
    assert found.steps == 5
    assert found.wall == pytest.approx(50)
    assert found.compute == pytest.approx(30)
    assert found.communication == pytest.approx(20)
    assert found.exposed == pytest.approx(7.5)
    assert found.overlapped == pytest.approx(12.5)
    assert found.synchronisation == pytest.approx(20)
    assert found.busy == pytest.approx(40)


def test_data_parallel_moves_between_cards_and_reduces(tmp_path):
    listed = [step(0, 0, 10_000)]
    for device in (0, 1):
        listed += [
            x("Memcpy PtoP (Device -> Device)", "gpu_memcpy", 0, 1000, device),
            nccl(1000, 2000, device, "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgs)"),
            kernel(3000, 4000, device),
            nccl(7000, 1000, device, "ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgs)"),
        ]
    first, second = read_shares(write(tmp_path / "t.json", listed))
    assert (first.device, second.device) == ("cuda:0", "cuda:1")
    assert first.communication == pytest.approx(4)
    assert first.exposed == pytest.approx(4)
    assert first.synchronisation == pytest.approx(1)


def random_trace(seed, count=400):
    """Streams, kernels and collectives at random, and the truth by counting microseconds one by one."""
    draw = np.random.default_rng(seed)
    compute, communication, listed = np.zeros(60_000, bool), np.zeros(60_000, bool), [step(0, 0, 60_000)]
    for _ in range(count):
        start, length = int(draw.integers(0, 59_000)), int(draw.integers(1, 400))
        if draw.random() < 0.6:
            listed.append(kernel(start, length, tid=int(draw.integers(1, 9))))
            compute[start : start + length] = True
        else:
            listed.append(nccl(start, length))
            communication[start : start + length] = True
    return listed, compute.sum() / 1000, communication.sum() / 1000, (communication & ~compute).sum() / 1000


@pytest.mark.parametrize("seed", range(5))
def test_random_traces_are_within_two_points(tmp_path, seed):
    listed, compute, communication, exposed = random_trace(seed)
    (found,) = read_shares(write(tmp_path / "t.json", listed))
    for ours, truth in ((found.compute, compute), (found.communication, communication), (found.exposed, exposed)):
        assert abs(ours - truth) / found.wall < 0.02


def test_what_reaches_out_of_the_steps_is_cut(tmp_path):
    listed = [step(0, 1000, 1000), kernel(0, 1500), nccl(1800, 5000)]
    (found,) = read_shares(write(tmp_path / "t.json", listed))
    assert (found.compute, found.communication, found.exposed) == pytest.approx((0.5, 0.2, 0.2))


def test_unions():
    assert covered(np.empty((0, 2))) == 0
    assert covered(np.array([[0, 10], [2, 3], [5, 12], [20, 21]], float)) == 13


def test_events_longer_than_a_piece_and_files_that_break_off(tmp_path):
    long = kernel(0, 5) | {"args": {"device": 0, "stack": "x" * 5_000_000}}
    path = write(tmp_path / "t.json", [step(0, 0, 10), long, nccl(5, 5)], indent=None)
    assert len(list(events(path))) == 3
    path.write_text(path.read_text()[:-60])
    with pytest.raises(TraceError, match="breaks off"):
        list(events(path))
    path.write_text("{}")
    with pytest.raises(TraceError, match="no traceEvents"):
        read_shares(path)
    with pytest.raises(TraceError):
        read_shares(tmp_path / "none.json")


def test_memory_stays_far_below_the_file_s_size(tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "PIECE", 1 << 14)
    note = "y" * 400
    listed = [kernel(i, 3) | {"args": {"device": 0, "stream": 7, "note": note}} for i in range(4000)]
    path = write(tmp_path / "t.json", [step(0, 0, 10**6), *listed])
    del listed
    tracemalloc.start()
    read_shares(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 2_500_000
    assert peak < 1_000_000  # pieces, and 16 bytes an event


def gloo_rank(rank, folder):
    """Rank 0 computes for 0.2 s beside an all-reduce that rank 1 joins after 0.5 s; three traces, and what the clock said."""
    import torch
    import torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile, record_function

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    numbers, matrix = torch.ones(1000), torch.randn(400, 400)
    for attempt in range(3):
        dist.all_reduce(numbers)
        profiler = profile(activities=[ProfilerActivity.CPU])
        profiler.start()
        with record_function("ProfilerStep#0"):
            begun, computed = time.perf_counter(), 0.0
            if rank:
                time.sleep(0.5)
            issued = time.perf_counter()
            work = dist.all_reduce(numbers, async_op=True)
            while not rank and time.perf_counter() < begun + 0.2:
                one = time.perf_counter()
                matrix @ matrix
                computed += time.perf_counter() - one
            work.wait()
            ended = time.perf_counter()
        profiler.stop()
        if rank == 0:
            profiler.export_chrome_trace(f"{folder}/{attempt}.json")
            truth = {"exposed": ended - issued - computed, "wall": ended - begun}
            (folder / f"{attempt}.truth").write_text(json.dumps(truth))
    dist.barrier()


def test_a_real_gloo_trace_agrees_with_the_clock(tmp_path):
    import torch  # once, before the forks
    import torch._dynamo
    import torch.distributed
    import torch.profiler  # noqa: F401

    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            try:
                gloo_rank(rank, tmp_path)
            finally:
                os._exit(0)  # gloo's threads may abort an orderly exit
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    apart = []
    for attempt in range(3):
        truth = json.loads((tmp_path / f"{attempt}.truth").read_text())
        (found,) = read_shares(tmp_path / f"{attempt}.json")
        assert found.device == "cpu"
        assert found.overlapped > 0.1 * found.wall
        assert found.synchronisation == pytest.approx(found.communication)
        apart.append(abs(found.exposed / found.wall - truth["exposed"] / truth["wall"]))
    assert min(apart) < 0.02  # on a busy machine the clock's own readings are late now and then


def big_trace(path, size):
    """Of `size` bytes: steps of 10 ms, of which 4 ms are communication and 1.5 ms of those exposed; events as long as Kineto's."""
    note = {"External id": 12345, "Call stack": "x" * 180, "registers per thread": 168, "grid": [64, 16, 1]}
    with path.open("w", encoding="utf-8") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        written, number = 0, 0
        while written < size:
            t = 1000 + number * 10_000
            listed = [step(number, t, 10_000), nccl(t + 4000, 2500), nccl(t + 6500, 1500)]
            listed += [kernel(t + 500 + 60 * i, 60) for i in range(100)]
            listed += [x("aten::mm", "cpu_op", t + 50 * i, 40) for i in range(100)]
            for one in listed:
                one["args"] = {**note, **one["args"]}
            text = ",\n".join(json.dumps(one) for one in listed)
            written += file.write(("" if number == 0 else ",\n") + text)
            number += 1
        file.write("]}")
    return number


READS = """
import resource, sys, time
from pathlib import Path
from benchmarks.trace import read_shares
begun = time.process_time()
(found,) = read_shares(Path(sys.argv[1]))
print(time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, found.steps, found.communication / found.wall, found.exposed / found.wall)
"""


@pytest.mark.long
def test_a_trace_of_a_gigabyte_is_read_in_linear_time_and_little_memory(tmp_path):
    """Half of it and all of it: seconds and bytes of the process that reads."""
    seen = []
    for size in (500_000_000, 1_000_000_000):
        path = tmp_path / "t.json"
        steps = big_trace(path, size)
        words = [sys.executable, "-c", READS, str(path)]
        done = subprocess.run(
            words, capture_output=True, text=True, check=True, timeout=900, cwd=Path(trace.__file__).parent.parent
        )
        path.unlink()
        seconds, peak, counted, share, exposed = map(float, done.stdout.split())
        print(f"{size / 1e6:.0f} MB: {seconds:.0f} s, {peak / 2**20:.0f} MiB")
        assert counted == steps
        assert (share, exposed) == pytest.approx((0.4, 0.15), abs=0.02)
        assert peak < 4 * 2**30
        seen.append((seconds, peak))
    assert seen[1][0] < 2.6 * seen[0][0]
    assert seen[1][1] - seen[0][1] < 500_000_000
