"""The report's page in a real browser: headless Chromium, as `make browser` installs it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.articles import BERT_BASE, RESNET50
from benchmarks.page import to_html
from benchmarks.results import Attempt, LargestBatch, read

from .reports import FOUR, variant

pytestmark = pytest.mark.long
LARGEST = LargestBatch(896, 1743.0, 928, 84e6, (Attempt(512, "fits", 1600.0, 10**10),), "as told")
MANY = replace(
    FOUR,
    variants=(
        *FOUR.variants,
        *(replace(variant(n, 3000), largest=LARGEST) for n in ("ddp:channels-last", "accelerate:amp-bf16")),
    ),
)
OVERFLOWING = """
return [...document.querySelectorAll("svg text")].filter(text => {
  const box = text.getBBox(), view = text.ownerSVGElement.viewBox.baseVal;
  return box.x < -1 || box.x + box.width > view.width + 1 || box.y + box.height > view.height + 1;
}).map(text => text.textContent);
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver

    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.fail("chromium and chromedriver are not installed: run `make browser`")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    found.set_page_load_timeout(60)
    yield found
    found.quit()


REPORTS = {
    "four cards": FOUR,
    "many forms": MANY,
    "the articles": RESNET50,
    "shares only": BERT_BASE,
    "a busy CPU": read(Path(__file__).parent / "recorded" / "busy_cpu.json"),
}


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("width", [1400, 420])
def test_the_page_fits_asks_for_nothing_and_cuts_no_word(browser, tmp_path, name, width):
    page = tmp_path / "page.html"
    page.write_text(to_html(REPORTS[name]), encoding="utf-8")
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(page.as_uri())
    assert browser.get_log("browser") == []
    events = [json.loads(row["message"])["message"] for row in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if url.startswith(("http", "ws"))] == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(OVERFLOWING) == []


def test_the_page_follows_a_dark_screen(browser, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(to_html(FOUR), encoding="utf-8")
    seen = []
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
        browser.get(page.as_uri())
        seen.append(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert seen[0] == "rgb(255, 255, 255)"
    assert seen[1] != seen[0]
