"""Programs that a run starts draw numbers of their own, and the same ones in every run."""

import json
from pathlib import Path

import pytest

from samebits.factors.context import Setting
from samebits.launch.command import parse_command
from samebits.runfolder.spec import RunSpec
from samebits.workspace.place import Isolation
from tests.launch.conftest import PATIENCE_SECONDS, PYTHON, write
from tests.running import run_recorded

# What a program and a worker of it draw: a number of the system's, and a process id.
PROGRAM = """
import json, multiprocessing, os, sys, uuid

def drawn(_=None):
    return [str(uuid.uuid4()), os.getpid()]

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:
        answer = [drawn(), pool.map(drawn, [0])[0]]
    with open(sys.argv[1], "a") as file:
        json.dump(answer, file)
"""
# Programs told apart by their words, by a variable, by nothing but the order; and this one, which replaces itself.
SCRIPT = """
import json, os, subprocess, sys, time
from concurrent.futures import ThreadPoolExecutor

out = sys.argv[1]

def start(words, folder=".", **variables):
    program, variables = os.path.abspath("program.py"), {**os.environ, **variables}
    subprocess.run([sys.executable, program, words], cwd=folder, env=variables, check=True)
    file = os.path.join(folder, words)
    with open(file) as text:
        answer = json.load(text)
    os.remove(file)
    return answer

for name in "ab":
    os.makedirs(name, exist_ok=True)
with ThreadPoolExecutor(4) as threads:
    answers = [*threads.map(start, [f"{out}/one", f"{out}/two"])]
    answers += threads.map(lambda name: start("file", name, WORKER=name), "ab")
answers += [start("file"), start("file")]
# One whose parent has ended.
orphan = [sys.executable, "-c", "import subprocess, sys; subprocess.Popen([sys.executable, 'later.py'])"]
subprocess.run(orphan, check=True)
while not os.path.exists("orphan.done"):
    time.sleep(0.01)
with open("orphan") as text:
    answers.append(json.load(text))
for name in ("orphan", "orphan.done"):
    os.remove(name)
print(json.dumps(answers), flush=True)
os.execv(sys.executable, [sys.executable, "program.py", "/dev/stdout"])
"""
# It draws once its parent has ended.
LATER = """
import runpy, sys, time
time.sleep(1)
sys.argv = ["program.py", "orphan"]
runpy.run_path("program.py", run_name="__main__")
open("orphan.done", "w").close()
"""


@pytest.mark.parametrize("isolation", ["copy", "none"])
def test_programs_draw_what_no_other_program_draws(isolation: Isolation, tmp_path: Path) -> None:
    """Workers that name their files by what they draw would overwrite each other's."""
    write(tmp_path, {"it.py": SCRIPT, "program.py": PROGRAM, "later.py": LATER})
    runs = []
    for number in range(2):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            spec = RunSpec(settings={name: Setting("pinned") for name in ("os-entropy", "process-id")})
            command = parse_command([PYTHON, "it.py", "{run}"])
            outcome = run_recorded(command, spec, tmp_path / f"run{number}", PATIENCE_SECONDS, isolation=isolation)
        assert outcome.exit_code == 0, outcome.folder.stderr.read_text()
        answers, last = map(json.loads, outcome.folder.stdout.read_text().splitlines())
        runs.append([*answers, last])

    drawn = [value for answer in runs[0] for process in answer for value in process]
    assert len(runs[0]) == 8
    assert len(set(drawn)) == len(drawn) == 32
    assert runs[0] == runs[1]
