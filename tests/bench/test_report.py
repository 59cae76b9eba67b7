"""What a report says about figures that are wrong, weak or fine."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from benchmarks.articles import BERT_BASE, BERT_LARGE, RESNET50
from benchmarks.compare import compare_reports
from benchmarks.compare import to_text as compared_text
from benchmarks.figures import bootstrap_ratio, compare_variants, comparisons, percentile, summarise
from benchmarks.honesty import CODES, find_warnings
from benchmarks.page import to_html
from benchmarks.results import Claim, Communication, DeviceMemory, ResultError, Work, dump, json_schema, load, read
from benchmarks.show import to_markdown, to_text

from .reports import FOUR, WORK, changed, run, variant


def codes(report):
    return {w.code for w in find_warnings(report)}


def test_a_clean_report_has_no_warning():
    assert find_warnings(FOUR) == []


def test_the_articles_figures_do_not_agree_with_each_other():
    found = find_warnings(RESNET50)
    assert {"SUPERLINEAR", "BELOW_ANCHOR", "CLAIM"} <= {w.code for w in found}
    superlinear = [w for w in found if w.code == "SUPERLINEAR"]
    assert [w.variant for w in superlinear] == ["ddp"]
    claim = next(w for w in found if w.code == "CLAIM" and w.variant == "ddp")
    assert "81 % is not 8.1 / 4" in claim.message
    text = to_text(RESNET50)
    assert "nothing was measured" in text
    assert "above linear, see SUPERLINEAR" in text
    assert "no verdict" in text
    ((of, to, speedup),) = [(c.of, c.to, c.speedup) for c in comparisons(BERT_BASE)]
    assert (of, to) == ("ddp", "dp")
    assert speedup == pytest.approx(1.06, abs=0.005)  # what 210 ms of 38 % and 47 ms of 9 % imply
    assert "GLOBAL_BATCH_CHANGED" in codes(BERT_LARGE)
    assert "BELOW_ANCHOR" in codes(BERT_LARGE)


ONE_OF_FOUR = tuple(DeviceMemory(f"cuda:{i}", 0 if i else 10**9, 0, None, 80 * 10**9) for i in range(4))
RAISED = [
    ("SUPERLINEAR", changed("ddp", runs=(run(8100),))),
    ("DATA_BOUND", changed("ddp", runs=(run(3700, loader_wait=0.3),))),
    ("CONTENDED", changed("ddp", runs=(run(3700, load_before=90.0),))),
    ("NOISY", changed("ddp", runs=(run(3700, spread=0.2),))),
    ("GLOBAL_BATCH_CHANGED", changed("ddp", work=replace(WORK, global_batch=1024))),
    ("UNEQUAL_WORK", changed("ddp", work=replace(WORK, loader_workers=32))),
    ("UNEQUAL_WORK", changed("ddp", work=replace(WORK, precision="bfloat16"))),
    ("NO_P2P", replace(FOUR, environment=replace(FOUR.environment, p2p=False))),
    ("BELOW_ANCHOR", changed("single", runs=(run(211),))),
    ("CLOCKS", changed("ddp", runs=(run(3700, clocks_mhz=(900.0,)),))),
    ("CLOCKS", changed("ddp", runs=(run(3700, throttled=("power cap",)),))),
    ("HOOKS", changed("ddp", runs=(run(3700, hook_share=0.05),))),
    ("NO_EXCHANGE", changed("ddp", communication=Communication(0, 0, 0, 0, 0, 0, 0, 50, 2, 66, 3, "cuda:0", "trace"))),
    ("IDLE_DEVICES", changed("dp", runs=(run(2400, memory=ONE_OF_FOUR),))),
    ("CLAIM", replace(FOUR, claims=(Claim("ddp", "speedup", 8.1, "a slide"),))),
]


@pytest.mark.parametrize("code, report", RAISED, ids=[f"{code}-{i}" for i, (code, _) in enumerate(RAISED)])
def test_each_warning_is_raised_and_shown(code, report):
    assert code in codes(report)
    assert code in to_text(report)
    assert code in to_markdown(report)
    assert code in to_html(report)


def test_every_code_is_raised_by_some_test():
    assert {code for code, _ in RAISED} == set(CODES)


def test_a_cpu_process_that_gets_no_cpu_is_contended():
    report = replace(changed("single", runs=(run(1000, cpu_share=0.4),)), device="cpu")
    assert "CONTENDED" in codes(report)


def test_figures_have_their_denominators():
    ddp = summarise(FOUR.variant("ddp"))
    assert ddp.samples_per_s == pytest.approx(3700, rel=0.001)
    assert ddp.device_samples_per_s == pytest.approx(3700 / 4, rel=0.001)
    assert ddp.memory_pct == pytest.approx(23 / 80 * 100)
    assert summarise(FOUR.variant("dp")).imbalance == pytest.approx(2.0)
    assert ddp.p50_ms == pytest.approx(256 / 3700 * 1000, rel=0.01)


def test_speedups_and_efficiency():
    found = {(c.of, c.to): c for c in comparisons(FOUR)}
    assert set(found) == {("dp", "single"), ("ddp", "single"), ("ddp", "dp")}
    ddp = found["ddp", "single"]
    assert ddp.speedup == pytest.approx(3.7, rel=0.001)
    assert ddp.efficiency_pct == pytest.approx(92.5, rel=0.001)
    assert (ddp.scaling, ddp.verdict) == ("strong", "faster")
    assert ddp.interval.low < 3.7 < ddp.interval.high
    assert ddp.interval.unit == "run"
    assert found["ddp", "dp"].efficiency_pct is None


def test_weak_scaling_is_named():
    weak = variant("ddp", 3700, work=replace(WORK, global_batch=1024.0))
    assert compare_variants(weak, FOUR.variant("single")).scaling == "weak"


def test_no_verdict_from_noise_and_no_interval_from_one_window():
    noisy = compare_variants(variant("ddp", 3700, spread=0.2), FOUR.variant("single"))
    assert noisy.verdict == "no verdict"
    assert "vary too much" in noisy.why
    assert bootstrap_ratio([[1.0]], [[1.0, 2.0, 3.0]]) == (None, "1 window on one side: an interval needs 3")


def test_no_verdict_from_a_busy_machine():
    busy = compare_variants(variant("ddp", 3700, load_before=90.0), FOUR.variant("single"), 64)
    assert busy.verdict == "no verdict"
    assert "others computed" in busy.why


def test_an_interval_of_equal_sides_holds_one():
    same = compare_variants(replace(variant("ddp", 1000, 1), name="b"), variant("single", 1000, 1))
    assert same.verdict == "no difference"


def test_percentiles():
    assert [percentile([4, 1, 3, 2], share) for share in (0, 0.5, 1)] == [1, 2.5, 4]


def test_a_cpu_report_makes_no_gpu_claim():
    dp = replace(FOUR.variant("dp"), status="passes-through", runs=(), work=None)
    report = replace(
        changed("dp", status="passes-through", runs=()), device="cpu", environment=replace(FOUR.environment, gpus=())
    )
    assert dp.runs == ()
    for text in (to_text(report), to_markdown(report), to_html(report)):
        assert "passes through, not measured" in text
        assert "measured on the CPU" in text
        assert "say nothing about GPUs" in text


def test_a_failed_variant_keeps_its_own_error():
    text = to_text(changed("ddp", status="failed", runs=(), error="OutOfMemoryError: CUDA out of memory"))
    assert "failed" in text
    assert "ddp on 4 devices failed: OutOfMemoryError: CUDA out of memory" in text


def test_json_goes_round(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(dump(FOUR)))
    assert read(path) == FOUR
    assert load(json.loads(json.dumps(dump(RESNET50)))) == RESNET50


@pytest.mark.parametrize(
    "document",
    [[], {}, {"kind": "other"}, {**dump(FOUR), "schema_version": 99}, {**dump(FOUR), "variants": [{"name": "x"}]}],
)
def test_what_is_no_report_is_refused_in_one_line(document):
    with pytest.raises(ResultError) as raised:
        load(document, "x.json")
    assert "x.json" in str(raised.value)


def test_the_schema_describes_every_field():
    schema = json_schema()
    document = dump(FOUR)
    assert set(document) <= set(schema["properties"])
    assert set(schema["required"]) <= set(document)
    runs = schema["$defs"]["Run"]["properties"]
    assert set(document["variants"][0]["runs"][0]) == set(runs)
    assert json.loads(json.dumps(schema)) == schema


def test_compare_two_reports():
    later = replace(changed("ddp", runs=variant("ddp", 3000).runs), environment=replace(FOUR.environment, torch="3.0"))
    difference = compare_reports(FOUR, later)
    text = compared_text(difference, "a.json", "b.json")
    rows = {row.name: row.comparison for row in difference.rows}
    assert rows["ddp"].verdict == "slower"
    assert rows["single"].verdict == "no difference"
    assert "torch: 2.14.1 → 3.0" in text


def test_other_work_is_named_when_reports_are_compared():
    other = changed("ddp", work=Work(256, 64, 8, "bfloat16", True, False, "SGD", 1))
    assert any("precision: float32 → bfloat16" in line for line in compare_reports(FOUR, other).work)


def test_comparing_imports_neither_torch_nor_a_plotting_library(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps(dump(FOUR)))
    code = (
        "import sys\nfrom pathlib import Path\nfrom benchmarks.results import read\n"
        "from benchmarks.compare import compare_reports, to_text\n"
        "print(to_text(compare_reports(read(Path('a.json')), read(Path('b.json'))), 'a', 'b'))\n"
        "print([m for m in ('torch', 'matplotlib', 'plotly', 'libcst') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert "no difference" in done.stdout


def test_the_page_stands_alone_and_is_well_formed():
    for report in (FOUR, RESNET50, BERT_LARGE):
        page = to_html(report)
        assert not re.search(r"(src|href)=|https?:|<script|@import|url\(", page)
        closed = re.sub(r"<meta[^>]*>|<!doctype html>", "", page)
        root = ElementTree.fromstring(closed)
        assert root.findall(".//svg")
    titles = re.findall(r"<h2>(.*?)</h2>", to_html(FOUR))
    assert {"Result", "Throughput", "Step times", "Ratios", "Memory and waiting", "Communication"} <= set(titles)
    assert to_html(FOUR).count("<svg") == 4


def test_a_program_s_name_cannot_write_into_the_page():
    assert "<b>" not in to_html(replace(FOUR, program="<b>train.py"))
