"""The review page in a real browser: headless Chromium, as `make browser` installs it."""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from migrator.convert.selection import chosen_ids, fix_ids, load_selection, selected
from migrator.formats.diff import diff_text
from tests.convert.conftest import ASKS, PLAIN, PROGRAM

from .conftest import convert, page_of
from .test_hostile import EVIL

pytestmark = pytest.mark.long
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --hide-scrollbars"
)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory) -> Iterator[object]:
    from selenium import webdriver

    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.fail("chromium and chromedriver are not installed: run `make browser`")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    downloads = tmp_path_factory.mktemp("downloads")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    browser.set_page_load_timeout(60)
    browser.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    browser.downloads = downloads
    yield browser
    browser.quit()


class Opened:
    """A page in the browser."""

    def __init__(self, browser, path: Path):
        self.browser, self.path = browser, path
        self.size(1440, 900)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
        browser.get(path.as_uri())
        self.run("localStorage.clear()")
        browser.get_log("browser"), browser.get_log("performance")
        browser.refresh()

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def run(self, script: str) -> object:
        return self.browser.execute_script(script)

    def press(self, keys: str) -> None:
        from selenium.webdriver.common.by import By

        for key in keys:
            self.browser.find_element(By.TAG_NAME, "body").send_keys(key)

    def one(self, selector: str):
        from selenium.webdriver.common.by import By

        return self.browser.find_element(By.CSS_SELECTOR, selector)

    @property
    def current(self) -> str | None:
        return self.run("return document.querySelector('.item.current')?.dataset.fix ?? null")

    @property
    def ids(self) -> list[str]:
        return self.run("return [...document.querySelectorAll('.fix')].map((fix) => fix.dataset.fix)")

    @property
    def out(self) -> list[str]:
        return self.run("return [...document.querySelectorAll('.fix.out')].map((fix) => fix.dataset.fix)")

    def saved(self) -> Path:
        """The selection that the page saves."""
        target = self.browser.downloads / "selection.json"
        target.unlink(missing_ok=True)
        self.press("e")
        for _ in range(200):
            if target.exists() and target.stat().st_size:
                return target
            time.sleep(0.05)
        raise AssertionError("nothing was saved")

    def choose(self, name: str, what: str) -> None:
        self.run(f"document.querySelector('[data-fix={json.dumps(name)}] [data-choose={what}]').click()")


@pytest.fixture
def opened(chromium, folder) -> Callable[..., Opened]:
    def open_page(text: str = PROGRAM, name: str = "train.py", **options: object) -> Opened:
        path = folder / "review.html"
        path.write_text(page_of(convert(text, name, **options), **options))
        return Opened(chromium, path)

    return open_page


# ---------------------------------------------------------------- moving about
def test_j_and_k_go_from_change_to_change_and_stop_at_the_ends(opened):
    page = opened()
    assert page.current is None
    seen = []
    for _ in range(len(page.ids) + 2):
        page.press("j")
        seen.append(page.current)
    assert seen == [*page.ids, page.ids[-1], page.ids[-1]]
    assert page.run("return document.activeElement === document.querySelector('.item.current')")
    page.press("k")
    assert page.current == page.ids[-2]
    box = page.run(
        "const b = document.querySelector('.item.current').getBoundingClientRect(); return [b.top, b.bottom]"
    )
    assert box[0] < 900
    assert box[1] > 0
    page.press("k" * (len(page.ids) + 1))
    assert page.current == page.ids[0]


def test_what_a_person_must_decide_is_the_first_stop(opened):
    page = opened(ASKS)
    page.press("j")
    assert "BalancedDataParallel" in page.one(".item.current").text
    page.press("a")  # it is no fix: nothing is decided
    assert page.run("return document.querySelectorAll('[aria-pressed=true][data-choose]').length") == 0


def test_the_question_mark_shows_the_keys_and_escape_takes_them_away(opened):
    page = opened()
    page.press("?")
    assert page.run("return document.querySelector('#help').open")
    page.press("j")  # keys rest while the list is open
    assert page.current is None
    from selenium.webdriver.common.keys import Keys

    page.press([Keys.ESCAPE])
    assert not page.run("return document.querySelector('#help').open")


def test_side_by_side_puts_a_line_beside_the_one_that_it_became(opened):
    page = opened()
    script = """
        const fix = document.querySelector('[data-rule=MG301]');
        const box = (s) => fix.querySelector(s).getBoundingClientRect();
        const [old, now] = [box('del.l:not(.x)'), box('ins.l:not(.x)')];
        return [old.top, now.top, old.left, now.left, old.right];
    """
    top, below, left, same, _ = page.run(script)
    assert top < below
    assert left == same
    page.press("s")
    old_top, new_top, old_left, new_left, old_right = page.run(script)
    assert old_top == new_top
    assert old_right == new_left > old_left
    page.browser.refresh()
    assert page.run("return document.documentElement.dataset.view") == "split"


def test_the_theme_goes_with_the_system_until_the_reader_chooses(opened):
    page = opened()
    ground = "return getComputedStyle(document.body).backgroundColor"
    looks = []
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        looks.append(page.run(ground))
    assert looks[0] != looks[1]
    page.press("t")
    assert page.run(ground) == looks[0]
    page.press("t")
    assert page.run(ground) == looks[1]


@pytest.mark.parametrize("text", [PROGRAM, ASKS, PLAIN], ids=["program", "asks", "nothing"])
@pytest.mark.parametrize("width", [360, 800, 1440])
def test_nothing_is_wider_than_the_window(opened, text, width):
    page = opened(text)
    page.size(width, 800)
    assert page.run("return document.documentElement.scrollWidth") <= width
    page.press("s")
    assert page.run("return document.documentElement.scrollWidth") <= width


def test_printing_leaves_out_what_paper_cannot_do(opened):
    page = opened()
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    shown = "return [...document.querySelectorAll('.bar, .side, .tools, .choice, .copy')].some((e) => e.offsetParent)"
    assert not page.run(shown)
    assert page.run("return getComputedStyle(document.documentElement).colorScheme") == "light"
    made = page.browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert len(made["data"]) > 20_000


# ---------------------------------------------------------------- accepting and refusing
def test_a_accepts_r_refuses_and_both_go_on(opened):
    page = opened()
    page.press("jja")
    assert page.current == page.ids[2]
    page.press("r")
    states = page.run(
        "return [...document.querySelectorAll('.fix')].map("
        "(fix) => fix.querySelector('[data-choose][aria-pressed=true]')?.dataset.choose ?? '')"
    )
    assert states[1:3] == ["accept", "refuse"]
    assert re.match(r"1 accepted · \d+ refused · \d+ open, taken as accepted", page.one(".tally").text)
    page.press("ku")
    assert page.out == []


def test_what_depends_on_a_refused_fix_goes_with_it_and_says_why(opened):
    page = opened()
    (wrap,) = [name for name in page.ids if name.startswith("MG301")]
    page.choose(wrap, "refuse")
    assert len(page.out) > 3
    (loader,) = [name for name in page.ids if name.startswith("MG201")]
    told = page.one(f'[data-fix="{loader}"] .fallen').text
    assert f"Left out with {wrap}" in told
    assert page.one(".tally").text.startswith("0 accepted")
    page.choose(wrap, "refuse")  # once more takes it back
    assert page.out == []


def test_a_refused_fix_says_which_promise_breaks(opened):
    page = opened()
    (save,) = [name for name in page.ids if name.startswith("MG501")]
    breaks = page.one(f'[data-fix="{save}"] .breaks')
    assert not breaks.is_displayed()
    page.choose(save, "refuse")
    assert "promise 4, once" in breaks.text


def test_decisions_outlive_a_reload_but_not_another_conversion(opened, folder):
    page = opened()
    page.choose(page.ids[3], "refuse")
    out = page.out
    assert page.ids[3] in out
    page.browser.refresh()
    assert page.out == out
    page.path.write_text(page_of(convert(PROGRAM.replace("batch_size=16", "batch_size=32"))))
    page.browser.refresh()
    assert page.out == []


def test_whole_rules_are_a_line_and_single_fixes_a_file(opened):
    text = PROGRAM.replace(
        '"model.pt")', '"model.pt")\n        print(epoch)\n        torch.save(optimizer.state_dict(), "optimizer.pt")'
    )
    page = opened(text)
    line = page.one(".bar [data-line]")
    assert (
        page.run("return document.querySelector('.bar [data-line]').textContent")
        == "mgmigrate convert train.py --to ddp --write"
    )
    first, second = [name for name in page.ids if name.startswith("MG501")]
    page.choose(first, "refuse")
    assert line.get_attribute("textContent") == "mgmigrate convert train.py --to ddp --apply selection.json --write"
    page.choose(second, "refuse")
    assert line.get_attribute("textContent") == "mgmigrate convert train.py --to ddp --ignore MG501 --write"
    assert page.one(".line[data-apply]").get_attribute("textContent") == line.get_attribute("textContent")
    assert page.one(".line[data-check]").get_attribute("textContent") == (
        "mgmigrate convert train.py --to ddp --ignore MG501 --output converted && mgmigrate verify train.py converted/train.py"
    )


@pytest.mark.parametrize("rule", ["MG501", "MG301", "MG203", "MG201", ""])
def test_a_saved_selection_converts_to_what_the_page_shows(opened, folder, rule):
    page = opened()
    for name in page.ids:
        if rule and name.startswith(rule):
            page.choose(name, "refuse")
            break
    file = page.saved()
    selection = load_selection(file)
    assert selection.entry == "train.py"
    assert sorted(selection.accept + selection.refuse) == sorted(page.ids)
    assert list(selection.refuse) == page.out
    result = convert_program(
        folder / "train.py", Options(), choose=selected(lambda conversion: chosen_ids(conversion, selection))
    )
    left = {f"{d.rule}@{Path(d.at.path).name}:{d.at.line}" for d in fix_ids(result).values()}
    assert left == {name.split("#")[0] for name in selection.accept}
    line = page.run("return document.querySelector('.bar [data-line]').textContent")
    found = re.search(r"--(ignore|select) (\S+)", line)
    if found:
        by_rules = convert_program(folder / "train.py", Options(**{found[1]: tuple(found[2].split(","))}))
        assert diff_text(by_rules) == diff_text(result)


def test_when_everything_is_refused_nothing_is_left_to_apply(opened):
    page = opened()
    for name in page.ids:
        if name not in page.out:
            page.choose(name, "refuse")
    assert page.one(".bar [data-line]").get_attribute("textContent") == "Nothing is left to apply"
    assert not page.one("[data-copy-line]").is_enabled()


# ---------------------------------------------------------------- untrusted text, and no network
def test_hostile_source_runs_nothing_and_loads_nothing(opened):
    comments = "".join(f"    # {evil}\n".replace("\x1b", "").replace("\x07", "") for evil in EVIL)
    strings = "".join(f"    print({evil!r})\n" for evil in EVIL)
    text = PROGRAM.replace("    optimizer =", f"{comments}{strings}    optimizer =")
    page = opened(text, "</script><script>pwned=1<!--\u202e.py".replace("/", "\u2215"))
    assert page.run("return typeof window.pwned") == "undefined"
    assert page.run("return document.scripts.length") == 1
    assert page.run("return document.images.length") == 0
    page.press("jjar?")
    assert not [row for row in page.browser.get_log("browser") if row["level"] in ("SEVERE", "WARNING")]
    assert requests(page) == {page.path.as_uri()}
    assert "</script><script>window.pwned = 1</script>" in page.one("#p1-changes").text + page.one(
        "#p1-files"
    ).get_attribute("textContent")


def test_a_script_that_got_into_the_page_would_not_run(opened):
    page = opened()
    page.path.write_text(page.path.read_text().replace("<main", "<script>window.pwned = 1</script><main"))
    page.browser.refresh()
    assert page.run("return typeof window.pwned") == "undefined"


def test_the_page_asks_no_network_for_anything(opened):
    page = opened()
    page.press("jjarjst")
    page.saved()
    assert requests(page) <= {page.path.as_uri(), "blob:"}
    assert not [row for row in page.browser.get_log("browser") if row["level"] == "SEVERE"]


def requests(page: Opened) -> set[str]:
    """What the browser asked for since the page was loaded anew."""
    rows = [json.loads(row["message"])["message"] for row in page.browser.get_log("performance")]
    sent = {row["params"]["request"]["url"] for row in rows if row["method"] == "Network.requestWillBeSent"}
    return {"blob:" if url.startswith("blob:") else url for url in sent}


def test_sixty_hunks_are_walked_through_and_decided(chromium, project, folder):
    _, conversion = project
    path = folder / "review.html"
    path.write_text(page_of(conversion))
    page = Opened(chromium, path)
    assert len(page.ids) >= 60 - 5
    page.press("j" + "a" * 30)
    assert page.one(".tally").text.startswith("30 accepted")
    assert page.current == page.ids[30]
