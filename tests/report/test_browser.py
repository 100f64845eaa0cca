"""Pages in Chromium: no console errors, no request, pictures of them at two widths, and text that can be read.

`.ci/run` installs Chromium; elsewhere the tests are skipped where there is none, and say so. With SAMEBITS_PICTURES set
to a folder, the pictures are kept there.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from samebits.base.errors import UsageError
from samebits.checking.verdict import CheckVerdict
from samebits.report.costs import cost_report
from samebits.report.page import answer_page
from samebits.report.rows import AnswerReport
from samebits.report.text import check_report
from tests.pricing.test_prices import CHEAPER, WHOLE, costs, price
from tests.report.test_page import FOUND, ROWS, check_page

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="there is no chromium with chromedriver on this machine"
)
WIDTHS = (1280, 390)


def pages() -> dict[str, str]:
    """A page with every part that pages of checks have, in long and in short, and one of a measurement."""
    rows = AnswerReport(
        "different bits: runs 1 and 3 diverge", (("remedy", "samebits run --pin clock train.py"), *ROWS.rows)
    )
    broken = CheckVerdict("undecided", "", Path("/runs"), error=UsageError("nothing was typed", "type something"))
    measured = costs(price(WHOLE, 1.2, 1.3), price(CHEAPER, 0.98, 1.02))
    return {
        "check": check_page(rows, "train.py", manifest={"platform": "Linux"}, experiment=FOUND),
        "cost": answer_page("cost", measured, cost_report(measured), {}),
        "error": answer_page("check", broken, check_report(broken), {}),
    }


@pytest.fixture
def page_of(tmp_path: Path) -> Callable[[str], str]:
    """The address of a page."""

    def written(name: str) -> str:
        path = tmp_path / f"{name}.html"
        path.write_text(pages()[name])
        return path.as_uri()

    return written


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER or ""
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def requests(driver: Any) -> list[str]:
    """What the browser asked for since this was last looked at."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"]


@pytest.mark.parametrize("name", pages())
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_opens(page_of: Callable[[str], str], browser: Any, name: str, width: int) -> None:
    """It asks for itself only, says nothing on the console, and nothing sticks out of a narrow screen."""
    browser.set_window_size(width, 900)
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(page_of(name))

    assert browser.get_log("browser") == []
    assert {url for url in requests(browser) if not url.startswith("data:")} == {browser.current_url}
    assert browser.execute_script("return document.documentElement.scrollWidth - window.innerWidth") <= 0
    kept_in = os.environ.get("SAMEBITS_PICTURES")
    if kept_in:
        Path(kept_in).mkdir(parents=True, exist_ok=True)
        browser.set_window_size(width, browser.execute_script("return document.documentElement.scrollHeight") + 120)
        browser.save_screenshot(str(Path(kept_in) / f"{name}-{width}.png"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(page_of: Callable[[str], str], browser: Any, scheme: str) -> None:
    """Every colour of text has a contrast of 4.5 to 1 or more to what lies behind it (WCAG 2.1, AA)."""
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    browser.get(page_of("check"))
    pairs = browser.execute_script(COLOURS)

    assert len(pairs) > 5
    assert [pair for pair in pairs if contrast(*pair[:2]) < 4.5] == []
    assert contrast([120, 120, 120], [255, 255, 255]) < 4.5 < contrast([27, 31, 36], [255, 255, 255])


COLOURS = """
const found = {};
for (const one of document.querySelectorAll("main *")) {
  if (![...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())) continue;
  const clear = "rgba(0, 0, 0, 0)";
  let behind = one, back = clear;
  while (behind && (back = getComputedStyle(behind).backgroundColor) === clear) behind = behind.parentElement;
  const style = getComputedStyle(one), colour = one.closest("svg") ? style.fill : style.color;
  const numbers = text => text.match(/[0-9.]+/g).slice(0, 3).map(Number);
  found[colour + back] = [numbers(colour), numbers(back || "rgb(255, 255, 255)"), one.tagName];
}
return Object.values(found);
"""


def contrast(a: list[float], b: list[float], *_: Any) -> float:
    """Of two colours, each red, green and blue from 0 to 255."""
    lighter, darker = sorted((luminance(a), luminance(b)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: list[float]) -> float:
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_remedy_can_be_copied_by_keyboard(page_of: Callable[[str], str], browser: Any) -> None:
    """The button takes the focus and answers to a key."""
    from selenium.webdriver.common.keys import Keys

    browser.get(page_of("check"))
    button = browser.find_element("css selector", "button[data-copy]")
    for _ in range(5):  # what scrolls takes the focus, too
        browser.switch_to.active_element.send_keys(Keys.TAB)
        if browser.switch_to.active_element == button:
            break
    browser.switch_to.active_element.send_keys(Keys.ENTER)

    assert button.text == "copied"
