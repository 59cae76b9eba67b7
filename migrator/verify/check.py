"""One check from beginning to end: run the original, run the ranks, judge, and look again in float64 where rounding may decide.

In: a `VerifyRequest` and a fork server (one is made, and closed, when none is given).  Out: a `Verdict`.  Executes the user's
programs, in child processes and in copies of the project.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .judge import judge
from .launcher import ForkServer, ServerFailed
from .program_text import preload
from .runs import Recording, is_free, run_converted, run_original
from .scratch import inner, scratch
from .settings import VerifyRequest
from .verdict import Status, Verdict, unverifiable

TOLERANCE, TOLERANCE_FLOAT64 = 1e-5, 1e-9
ROUNDING = 1e-3  # larger differences are no rounding, in float32 resynchronised after each step
GROWN = 1e-6  # .. or in a free float64 run, at the first step above its tolerance
NUMBERS = {"loss", "gradient", "parameter", "buffer"}


def verify(request: VerifyRequest, server: ForkServer | None = None) -> Verdict:
    """Check that `request.after` trains as `request.before` does."""
    if request.policies:
        return unverifiable(
            f"policy: {', '.join(request.policies)} changes the training on purpose; check the conversion without it"
            " (--as-faithful)"
        )
    begun = time.monotonic()
    with _server(server, request) as fork, scratch(request) as folder:
        try:
            verdict = _settled(request, fork, folder, _verify(request, fork, folder))
            verdict = _resolved(request, fork, folder, verdict)
        except ServerFailed as error:
            verdict = unverifiable(f"the checker failed: {error}")
        return replace(
            verdict,
            wall=time.monotonic() - begun,
            devices=request.devices,
            folder=str(folder) if request.keep is not None else "",
        )


def record_before(request: VerifyRequest, server: ForkServer | None = None) -> Recording:
    """Run the original alone and read what it did."""
    with _server(server, request) as fork, scratch(request) as folder:
        return run_original(request, fork, folder)[0]


def _verify(request: VerifyRequest, server: ForkServer, folder: Path) -> Verdict:
    first, request, folder = run_original(request, server, folder)
    if first.verdict is not None:
        return replace(first.verdict, cpu_before=first.outcome.cpu, memory=first.outcome.peak)
    before = first.record
    assert request.after is not None
    pauses = zip(before.steps, before.steps[1:], strict=False)
    slowest = max((b["seconds"] - a["seconds"] for a, b in pauses), default=1.0)
    ranks, outcome, converted = run_converted(request, server, folder, before, slowest)
    tolerance = request.tolerance or (TOLERANCE_FLOAT64 if request.float64 else TOLERANCE)
    sampled = frozenset(path.suffix[1:] for path in folder.glob("sampled.after.*"))
    written = first.written, tuple(converted.written())
    verdict = judge(
        before,
        ranks,
        outcome,
        len(before.steps),
        tolerance,
        request.devices,
        request.places,
        written,
        sampled,
        request.float64,
    )
    if request.epoch_batches == 0:
        verdict = replace(
            verdict, notes=(*verdict.notes, "epochs were not cut: the second one may not have been reached")
        )
    return replace(
        verdict,
        float64=request.float64,
        free=is_free(request),
        cpu_before=first.outcome.cpu,
        cpu_after=outcome.cpu,
        memory=outcome.peak,
    )


def _settled(request: VerifyRequest, server: ForkServer, folder: Path, verdict: Verdict) -> Verdict:
    """A difference of rounding's size is looked at once more in float64, each step from the same state; that verdict counts.

    In float32 a sum may only have been taken in another order; in a free run, a training that amplifies differences (few
    samples under BatchNorm, a high rate) makes the rounding of its first step visible some steps later.
    """
    worst = max(
        (f for row in verdict.rows[-1:] for f in (row.loss_difference, row.gradient, row.parameter, row.buffer)),
        default=0.0,
    )
    free = is_free(request)
    grown = not free or (verdict.rows and verdict.rows[-1].step > 0)
    small = verdict.status is Status.DIFFERENT and worst < (GROWN if free else ROUNDING) and grown
    if (request.float64 and not free) or not small or not {f.kind for f in verdict.findings} <= NUMBERS:
        return verdict
    again = _verify(replace(request, float64=True, resynchronise=True), server, inner(folder, "float64"))
    if again.status is not Status.EQUAL:
        return verdict
    found = f"a {verdict.cause} differed by {worst:.1e} at step {verdict.findings[0].step}"
    note = f"in float32 {found}: rounding, gone in float64"
    if free:
        note = f"run freely, {found}: rounding that grew with the steps, gone where each step starts from the original's state"
    return _with_costs(replace(again, notes=(*again.notes, note)), verdict)


def _resolved(request: VerifyRequest, server: ForkServer, folder: Path, verdict: Verdict) -> Verdict:
    """Parameters that differ where float32 shows no gradient but rounding: float64 tells whether there is one.

    The steps up to the last one at which that came up for the first time are run again in float64, where a gradient that is
    only small lies far above rounding, and is compared like all others; all steps are, if there is such a gradient.
    """
    if verdict.status is not Status.EQUAL or verdict.float64 or verdict.unresolved is None:
        return verdict
    finer = replace(request, float64=True, resynchronise=True)
    again = _verify(replace(finer, steps=verdict.unresolved + 1), server, inner(folder, "resolved"))
    small = [part for part in verdict.noise if part.rpartition(" ")[2] not in again.quiet]
    if again.status is Status.EQUAL and small and again.steps < verdict.steps:
        first = again
        again = _verify(replace(finer, steps=verdict.steps), server, inner(folder, "resolved whole"))
        again = _with_costs(again, first)
    if again.status is Status.EQUAL:
        text = f"compared in float64, over {again.steps} optimizer steps"
        named = f"{', '.join(small[:5])}: the gradient is too small for float32, so the value was {text}"
        kept = tuple(part for part in verdict.noise if part not in small)
        verdict = replace(verdict, noise=again.noise or kept, notes=(*verdict.notes, *([named] if small else [])))
    elif again.status is Status.DIFFERENT and {f.kind for f in again.findings} <= NUMBERS:
        return _with_costs(again, verdict)
    else:
        why = again.reason or again.findings[0].text
        note = f"whether these gradients are only small could not be seen in float64, where the program does not run: {why}"
        verdict = replace(verdict, notes=(*verdict.notes, note))
    return _with_costs(verdict, again)


def _with_costs(verdict: Verdict, other: Verdict) -> Verdict:
    """The verdict, at the cost of both."""
    return replace(
        verdict,
        cpu_before=verdict.cpu_before + other.cpu_before,
        cpu_after=verdict.cpu_after + other.cpu_after,
        memory=max(verdict.memory, other.memory),
    )


@contextlib.contextmanager
def _server(server: ForkServer | None, request: VerifyRequest) -> Iterator[ForkServer]:
    if server is not None:
        yield server
        return
    with ForkServer(preload=preload(request)) as own:
        yield own
