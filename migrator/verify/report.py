"""A verdict as text for people and as JSON for programs.

In: a `Verdict`.  Out: strings.  Says "checked", never "proved", and nothing about speed.
"""

from __future__ import annotations

import json

from .verdict import Finding, Status, Verdict

SHOWN_FINDINGS = 4


def to_json(verdict: Verdict) -> str:
    return json.dumps(verdict.dump(), indent=2)


def to_text(verdict: Verdict, table: bool = True) -> str:
    """The verdict first, then why, then what else is worth knowing."""
    lines = [headline(verdict)]
    for finding in verdict.findings[:SHOWN_FINDINGS]:
        lines.extend(_finding(finding))
    if len(verdict.findings) > SHOWN_FINDINGS:
        lines.append(f"  and {len(verdict.findings) - SHOWN_FINDINGS} more, see --format json")
    if verdict.traceback:
        lines.append("")
        lines.extend("  | " + line for line in verdict.traceback.rstrip().splitlines())
    if verdict.no_gradient:
        shown = ", ".join(verdict.no_gradient[:5]) + (", .." if len(verdict.no_gradient) > 5 else "")
        lines.append(f"  without a gradient in the original: {shown} (convert with --find-unused)")
    if verdict.noise:
        shown = "; ".join(verdict.noise[:5]) + ("; .." if len(verdict.noise) > 5 else "")
        lines.append(
            f"  the gradient is zero but for rounding, and the optimizer makes whole steps of it: {shown} (value not compared)"
        )
    lines.extend(f"  note: {note}" for note in verdict.notes)
    if table and verdict.rows:
        lines.append("")
        lines.extend(_table(verdict))
    if verdict.folder:
        lines.append(f"  logs and records: {verdict.folder}")
    return "\n".join(lines) + "\n"


def headline(verdict: Verdict) -> str:
    freedom = "free-running" if verdict.free else "resynchronised after each step"
    precision = f"{'float64' if verdict.float64 else 'float32'}, {freedom}"
    checked = f"checked over {verdict.steps} optimizer steps on {verdict.devices} simulated devices ({precision})"
    if verdict.status is Status.EQUAL:
        return f"EQUAL: {checked}, tolerance {verdict.tolerance:g}"
    if verdict.status is Status.NOT_VERIFIABLE:
        return f"NOT VERIFIABLE: {verdict.reason}"
    step = verdict.findings[0].step if verdict.findings else None
    where = f" at step {step}" if step is not None else ""
    return f"DIFFERENT{where}: {checked}"


def _finding(finding: Finding) -> list[str]:
    place = f"{finding.place}: " if finding.place else ""
    lines = [f"  {finding.kind.upper()}: {place}{finding.text}"]
    if finding.hint:
        lines.append(f"    -> {finding.hint}")
    return lines


def _table(verdict: Verdict) -> list[str]:
    lines = ["  step  samples before/after        loss    d(loss)    d(grad)   d(param)  d(buffer)   d(ranks)"]
    for row in verdict.rows:
        if not row.compared:
            lines.append(
                f"  {row.step:4d}  {row.samples_before:6d} / {row.samples_after:<6d}  not compared, see the notes"
            )
            continue
        loss = "-" if row.loss is None else f"{row.loss:.5f}"
        lines.append(
            f"  {row.step:4d}  {row.samples_before:6d} / {row.samples_after:<6d}  {loss:>14}  {row.loss_difference:9.1e}"
            f"  {row.gradient:9.1e}  {row.parameter:9.1e}  {row.buffer:9.1e}  {row.ranks:9.1e}"
        )
    return lines
