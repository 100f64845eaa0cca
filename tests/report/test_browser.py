"""Pages of real answers, opened in Chromium: no console errors, no request, and pictures of them at two widths.

`.ci/run` installs Chromium; elsewhere the tests are skipped where there is none, and say so. With SAMEBITS_PICTURES set
to a folder, the pictures are kept there.
"""

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.sharing import made_once

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="there is no chromium with chromedriver on this machine"
)
WIDTHS = (1280, 390)

TRAIN = """
import os, time, torch

{before}
torch.manual_seed(0)
model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range({steps}):
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PLANTED = """
@torch.library.custom_op("planted::noisy", mutates_args=())
def noisy(x: torch.Tensor) -> torch.Tensor:
    return x * (1 + open("/proc/sys/kernel/random/uuid", "rb").read(1)[0] * 1e-3)

noisy.register_autograd(lambda ctx, grad: grad)
"""
SCRIPTS = {
    "same": {},
    "factor": {"before": "first = torch.nn.Linear(4, 3)", "loss": "(model(torch.ones(2, 4)) + first.bias).sum()"},
    "op": {"before": PLANTED, "loss": "noisy(model(torch.ones(2, 4))).sum()"},
    "cost": {"steps": 400},
}
COMMANDS = {
    "same": (0, ["check"]),
    "factor": (1, ["check"]),
    "op": (1, ["check", "--level", "op"]),
    "cost": (0, ["cost", "--budget", "40", "--warm-up", "5", "--factor", "float-precision"]),
}
SAID = {
    "same": "same bits: 3 runs of 8 steps agree",
    "factor": "samebits run --pin torch-rng factor.py",
    "op": "planted::noisy",
    "cost": "no difference",
}


PageOf = Callable[[str], Path]
DEAR = {"op", "cost"}


@pytest.fixture(scope="module")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> PageOf:
    """The page of an answer, made when it is first asked for."""
    return lambda name: made_once(tmp_path_factory, f"page-{name}", partial(make_page, name)) / f"{name}.html"


def make_page(name: str, folder: Path) -> None:
    given = {"before": "", "loss": "model(torch.ones(2, 4)).sum()", "steps": 8, **SCRIPTS[name]}
    (folder / f"{name}.py").write_text(textwrap.dedent(TRAIN.format(**given)))
    status, words = COMMANDS[name]
    samebits(folder, status, *words, "--out", name, f"{name}.py")
    samebits(folder, 0, "report", name, "-o", f"{name}.html")


def samebits(folder: Path, status: int, *words: str) -> None:
    command = [sys.executable, "-m", "samebits", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == status, f"{command}\n{done.stdout}\n{done.stderr}"


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
    import json

    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in DEAR else []) for n in SCRIPTS])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_opens(page_of: PageOf, browser: Any, name: str, width: int) -> None:
    """It says what was found, asks for itself only, and nothing sticks out of a narrow screen."""
    address = page_of(name).as_uri()
    browser.set_window_size(width, 900)
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(address)
    body = browser.find_element("tag name", "body")

    assert SAID[name] in body.text
    assert browser.get_log("browser") == []
    assert {url for url in requests(browser) if not url.startswith("data:")} == {address}
    overflow = browser.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
    assert overflow <= 0
    kept = os.environ.get("SAMEBITS_PICTURES")
    if kept:
        Path(kept).mkdir(parents=True, exist_ok=True)
        browser.set_window_size(width, browser.execute_script("return document.documentElement.scrollHeight") + 120)
        browser.save_screenshot(str(Path(kept) / f"{name}-{width}.png"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(page_of: PageOf, browser: Any, scheme: str) -> None:
    """Every colour of text has a contrast of 4.5 to 1 or more to what lies behind it (WCAG 2.1, AA)."""
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    browser.get(page_of("factor").as_uri())
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


def test_the_remedy_can_be_copied_by_keyboard(page_of: PageOf, browser: Any) -> None:
    """The button takes the focus and answers to a key."""
    from selenium.webdriver.common.keys import Keys

    browser.get(page_of("factor").as_uri())
    button = browser.find_element("css selector", "button[data-copy]")
    for _ in range(5):  # what scrolls takes the focus, too
        browser.switch_to.active_element.send_keys(Keys.TAB)
        if browser.switch_to.active_element == button:
            break
    browser.switch_to.active_element.send_keys(Keys.ENTER)

    assert button.text == "copied"
