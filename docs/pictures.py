"""Makes the README's pictures from real runs: what `check` prints, and the page of that check.

python docs/pictures.py     # needs chromium
"""

import html
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from samebits.report.terminal import draw_answer

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
SCRIPT = "examples/names_rnn.py"
TERMINAL = """<!DOCTYPE html><meta charset="utf-8"><style>
body {{ margin: 0; background: #0d1117; color: #e6edf3; }}
pre {{ margin: 0; padding: 22px 26px; font: 14px/1.5 "DejaVu Sans Mono", monospace; }}
b {{ color: #ff8f89; font-weight: 600; }} i {{ color: #9da7b3; font-style: normal; }}
</style><pre><i>$</i> {command}
<b>{first}</b>
{rest}</pre>"""


def main() -> None:
    """Write docs/pictures/terminal.png and docs/pictures/page.png."""
    browser = shutil.which("chromium")
    if browser is None:
        sys.exit("error: there is no chromium on this machine")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        home, work = Path(folder) / "check", Path(folder)
        # Wrapped as a terminal of this width shows it.
        printed = draw_answer(samebits("check", "--out", str(home), SCRIPT), 112, colour=False)
        samebits("report", str(home), "-o", str(work / "page.html"))
        first, _, rest = printed.rstrip().partition("\n")
        words = {"command": f"samebits check {SCRIPT}", "first": first, "rest": rest}
        shown = TERMINAL.format(**{name: html.escape(text) for name, text in words.items()})
        (work / "terminal.html").write_text(shown)
        height = 44 + 21 * (2 + len(rest.splitlines()))
        taken(browser, work / "terminal.html", PICTURES / "terminal.png", 1120, height)
        taken(browser, work / "page.html", PICTURES / "page.png", 1120, 1500)


def samebits(*words: str) -> str:
    """What a command of ours prints."""
    return subprocess.run(["samebits", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout


def taken(browser: str, page: Path, picture: Path, width: int, height: int) -> None:
    """A picture of a page, as wide and high as said."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={width},{height}"]
    command = [browser, *options, f"--screenshot={picture}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    main()
