"""What a program's Python code writes to standard error is kept, and nothing changes for the program."""

import subprocess
import sys
from pathlib import Path

from samebits.launch.command import parse_command
from samebits.runfolder.spec import RunSpec
from tests.running import run_recorded

SCRIPT = """
import logging, os, subprocess, sys, warnings
from concurrent.futures import ThreadPoolExecutor
import torch

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
logging.info("acc %.2f", 0.91)
print("step 1", end="\\r", file=sys.stderr)
print("step 2", file=sys.stderr)
sys.stderr.writelines(["one\\n", "other\\n"])
warnings.warn("treated in some way")
sys.stderr.flush()
os.write(2, b"by C\\n")
if os.fork() == 0:
    print("of a child", file=sys.stderr, flush=True)
    os._exit(0)
os.wait()
subprocess.run([sys.executable, "-c", "import sys; print('of another process', file=sys.stderr)"])
print(type(sys.stderr).__name__, sys.stderr is sys.__stderr__, sys.stderr.isatty())
"""


def test_what_python_writes_to_standard_error_is_kept(tmp_path: Path) -> None:
    """Logs, prints and bars; no warnings, nothing of C code or of further processes. The output itself is as always."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    plain = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    outcome = run_recorded(parse_command([sys.executable, str(script)]), RunSpec(), tmp_path / "run", 120)
    (kept,) = outcome.folder.messages

    assert kept.read_bytes() == b"INFO acc 0.91\nstep 1\rstep 2\none\nother\n"
    assert outcome.folder.stderr.read_text() == plain.stderr
    assert outcome.folder.stdout.read_text() == plain.stdout
