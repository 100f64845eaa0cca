"""A script under samebits sees what it would see without, and the shell sees the same of it."""

import contextlib
import os
import shlex
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from samebits.launch.process import TRACKERS
from tests.launch.conftest import (
    BARE_PYTHON,
    PATIENCE_SECONDS,
    PYTHON,
    SAMEBITS,
    Seen,
    plain,
    under_check,
    under_run,
    write,
)

# Everything a script can ask about how it was started. Our entry of sys.path is the one thing that may differ.
VIEW = """
    import os, sys
    print(__name__, __package__, __spec__ and __spec__.name, globals().get("__file__"))
    print(sys.argv, sys.orig_argv, sys.warnoptions, sys._xoptions)
    print(str(sys.flags).replace("hash_randomization=0", "hash_randomization=1"))
    print([entry for entry in sys.path if not entry.endswith("samebits/agent/inject")])
    print(os.getcwd(), sys.stdin.isatty(), sys.stdout.encoding, sys.stdout.line_buffering, sys.dont_write_bytecode)
    print(sorted(set(os.environ) - {"SAMEBITS_PLAN", "PYTHONPATH", "TMPDIR", "LINES", "COLUMNS"} - set(OURS)))
"""
PINNED = "PYTHONHASHSEED CUBLAS_WORKSPACE_CONFIG CUBLASLT_WORKSPACE_SIZE OMP_NUM_THREADS MKL_NUM_THREADS MKL_DYNAMIC"
VIEW = VIEW.replace("set(OURS)", repr({*PINNED.split(), *TRACKERS}))


@dataclass(frozen=True)
class Case:
    """A command in a folder of files."""

    words: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)


def script(text: str, *words: str, **more: dict[str, str]) -> Case:
    return Case((PYTHON, "it.py", *words), {"it.py": text}, **more)


def on_site(name: str, text: str, body: str = VIEW) -> Case:
    return Case((BARE_PYTHON, "it.py", "x"), {"it.py": body, f"site/{name}.py": text}, {"PYTHONPATH": "site"})


CASES = {
    "a script in a folder": Case((PYTHON, "deep/down/it.py"), {"deep/down/it.py": VIEW}),
    "options that look like ours": script(VIEW, "--pin", "x", "--seed", "3", "--help", "--", "-v", "--out", "run"),
    "code": Case((PYTHON, "-c", VIEW.replace("\n    ", "\n"), "--runs", "1")),
    "a module": Case((PYTHON, "-m", "it", "--pin"), {"it.py": VIEW}),
    "a package": Case(
        (PYTHON, "-m", "pkg.sub"),
        {
            "pkg/__init__.py": "print(__name__)",
            "pkg/near.py": "x = 7",
            "pkg/sub/__init__.py": "",
            "pkg/sub/__main__.py": "from ..near import x\nfrom . import *\nprint(x)\n" + VIEW.replace("\n    ", "\n"),
        },
    ),
    "a folder with __main__": Case((PYTHON, "app", "x"), {"app/__main__.py": VIEW, "app/near.py": ""}),
    "flags": Case((PYTHON, "-X", "dev", "-OO", "-W", "error", "-bb", "-u", "it.py"), {"it.py": VIEW}),
    "warnings about encodings": Case((PYTHON, "-X", "warn_default_encoding", "-Werror", "it.py"), {"it.py": VIEW}),
    **({"a safe path": Case((PYTHON, "-P", "it.py"), {"it.py": VIEW})} if sys.version_info >= (3, 11) else {}),
    "another PYTHONPATH": script(VIEW + "    import near\n", env={"PYTHONPATH": "lib:/nowhere:"}),
    "a zip": Case((PYTHON, "it.zip", "x")),
    "an empty PYTHONPATH": script(VIEW, env={"PYTHONPATH": ""}),
    "strict surroundings": script(VIEW, env={"PYTHONWARNINGS": "error", "PYTHONDEVMODE": "1", "LC_ALL": "C"}),
    "bytes that are no text": script(
        r"""
        import os, sys
        sys.stdout.buffer.write(bytes(range(256)) * 300); sys.stdout.flush(); os.write(2, b"\xff\x00\r\n\x1b[31m")
        print("no newline at the end", end="")
        """
    ),
    "no Python at all": Case(("sh", "-c", "printf 'a\\0b'; exit 6")),
    "status 3": script("raise SystemExit(3)"),
    "a message as status": script("import sys; sys.exit('sorry')"),
    "an exception with a cause": script(
        "try:\n        1/0\n    except ZeroDivisionError as e:\n        raise ValueError from e"
    ),
    "errors of libraries": script(
        """
        import datetime, random, traceback
        import numpy as np
        import torch
        def fails(call):
            try:
                call()
            except Exception as error:
                # Torch has frames of its own around whoever looks at its operations.
                frames = traceback.extract_tb(error.__traceback__)
                print([frame.name for frame in frames if "/torch/" not in frame.filename])
        fails(lambda: random.Random([]))
        fails(lambda: datetime.datetime.now("x"))
        fails(lambda: np.random.RandomState("x"))
        fails(lambda: np.random.seed("x"))
        fails(lambda: np.random.choice([], 3))
        fails(lambda: torch.Generator().manual_seed("x"))
        fails(lambda: torch.randn(-1))
        fails(lambda: torch.ones(2, 2) @ torch.ones(3, 3))
        fails(lambda: torch.utils.data.DataLoader([1], batch_size=-1))
        """
    ),
    "a syntax error": script("print(1)\n    if True print(2)"),
    "os._exit": script("import os; print('lost'); os._exit(7)"),
    "no time to flush": script("import os, sys; sys.stdout.write('kept'); sys.stdout.flush(); os._exit(0)"),
    "killed": script("import os; os.kill(os.getpid(), 9)"),
    "terminated": script("import os; os.kill(os.getpid(), 15)"),
    "interrupted": script("import signal, time; signal.raise_signal(2); time.sleep(9)"),
    "its own hooks": script(
        """
        import atexit, signal, sys
        sys.excepthook = lambda kind, error, trace: print("hooked", error)
        sys.unraisablehook = print
        atexit.register(print, "first"); atexit.register(print, "second")
        signal.signal(signal.SIGTERM, lambda *_: print("handled"))
        signal.raise_signal(signal.SIGTERM)
        print(signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGPIPE), sys.gettrace(), sys.getprofile())
        raise ValueError("late")
        """
    ),
    "an import hook before ours": script(
        """
        import importlib.machinery, sys
        class Hook:
            def find_spec(self, name, path=None, target=None):
                print("asked for", name)
                return importlib.machinery.PathFinder.find_spec(name, path, target)
        sys.meta_path.insert(0, Hook())
        import near, nearer
        """
    ),
    "a sitecustomize": on_site("sitecustomize", "import sys; sys.path.append('/added'); print('theirs', __file__)"),
    "a usercustomize": on_site("usercustomize", "print('theirs', __name__)"),
    "a sitecustomize that fails": on_site("sitecustomize", "raise ValueError('boom')"),
    "a sitecustomize that lacks a module": on_site("sitecustomize", "import nowhere"),
    "a tool that traces": on_site(
        "sitecustomize",
        """
        import atexit, sys
        lines = []
        def trace(frame, event, arg):
            if frame.f_code.co_filename.endswith("it.py"):
                lines.append((event, frame.f_lineno))
            return trace
        sys.settrace(trace)
        atexit.register(lambda: print(lines))
        """,
        "for number in range(3):\n        print(number)",
    ),
    "no sitecustomize": script(
        "try:\n        import sitecustomize\n    except ImportError as e:\n        print(repr(e))"
    ),
    "modules loaded again": script(
        """
        import importlib, datetime, os, random, time
        for module in (random, time, os, datetime):
            importlib.reload(module)
        random.seed(3); print(random.random(), len(os.urandom(5)), datetime.date(2000, 1, 1))
        """
    ),
    "another folder": script("import os; os.chdir('/'); print(os.getcwd()); os.environ.pop('PYTHONPATH', None)"),
    "no environment": script(
        """
        import os, subprocess, sys
        os.environ.clear()
        print(subprocess.check_output([sys.executable, "-c", "print(1)"]))
        """
    ),
    "closed files": script("import os; os.closerange(3, 256); print(open('it.py').fileno())"),
    "closed streams": script("import os, sys; print(1, flush=True); os.close(0); os.close(2); sys.stderr = None"),
    "a fork": script(
        """
        import os, sys, time
        print("before", flush=True)
        child = os.fork()
        if child == 0:
            print("child", flush=True); sys.exit(5)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    ),
    "a daemon": script(
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 256)
                os._exit(0)
            os._exit(0)
        os.wait(); print("parent")
        """
    ),
    "odd modules": script(
        """
        import sys
        class Lazy:
            def __getattr__(self, name): raise ImportError(name)
        class Mock:
            __file__ = 3
        sys.modules["lazy"], sys.modules["mock"], sys.modules["none"] = Lazy(), Mock(), None
        """
    ),
    "processes": script(
        """
        import multiprocessing as mp, sys
        def work(x):
            return x * x, __name__, sys.argv
        if __name__ == "__main__":
            for how in ("fork", "spawn", "forkserver"):
                with mp.get_context(how).Pool(2) as pool:
                    print(how, pool.map(work, range(3)))
        """,
        "x",
    ),
    "programs": script(
        """
        import subprocess, sys
        for words in (["it.py", "--x"], ["-c", "import sys; print(sys.argv)"], ["-m", "near"], ["-I", "near.py"]):
            if len(sys.argv) == 1:
                print(subprocess.run([sys.executable, *words], capture_output=True))
        """
    ),
}
for case in CASES.values():
    case.files.setdefault("near.py", "import sys; print('near', sys.argv)")
    case.files.setdefault("nearer.py", "")
    case.files.setdefault("lib/near.py", "print('lib')")
# What samebits starts itself; one shell starts the others, each in a folder of its own.
ALONE = {
    *("options that look like ours", "code", "a module", "a folder with __main__", "flags", "a zip"),
    *("an empty PYTHONPATH", "strict surroundings", "bytes that are no text", "errors of libraries"),
    *("status 3", "killed", "terminated", "interrupted", "closed streams", "a fork", "a daemon", "processes"),
}
MODES = {"run": under_run, "check": under_check}


@pytest.mark.parametrize("name", sorted(ALONE))
def test_same_as_without_us(name: str, tmp_path: Path) -> None:
    """Exit status and every byte of output are those of a plain run, under `run` and under a check."""
    case = CASES[name]
    write(tmp_path, case.files)
    with zipfile.ZipFile(tmp_path / "it.zip", "w") as archive:
        archive.writestr("__main__.py", "import sys; print(sys.argv, __file__)")

    alone = plain(case.words, tmp_path, env=case.env)
    with_us = {mode: begin(case.words, tmp_path, env=case.env) for mode, begin in MODES.items()}

    assert with_us == dict.fromkeys(MODES, alone)


def in_a_shell(cases: dict[str, Case], folder: Path) -> tuple[str, ...]:
    """The command that runs them all: what each says comes after its name, on either stream."""
    lines = []
    for name, case in cases.items():
        write(folder / name, case.files)
        # What we put on the path stands before what the case has there, as where it is set before we begin.
        env = [f'{name}="${{{name}:+${name}:}}{value}"' for name, value in case.env.items()]
        lines.append(f'cd "{folder / name}"; echo "=== {name}"; echo "=== {name}" >&2')
        lines.append(" ".join([*env, shlex.join(case.words), "; echo $?"]))
    write(folder, {"all.sh": "\n".join([*lines, "exit 9"])})
    return "sh", "all.sh"


def told(seen: Seen) -> dict[str, list[bytes]]:
    """Case → what it said on stdout, with its status, and on stderr."""
    assert seen.status == 9
    found = [dict(part.split(b"\n", 1) for part in text.split(b"=== ")[1:]) for text in (seen.stdout, seen.stderr)]
    return {name.decode(): [one[name] for one in found] for name in found[0]}


def test_same_in_a_shell(tmp_path: Path) -> None:
    """Every process that a shell script starts, but for the one that asks for the variable that we do set."""
    cases = {name: case for name, case in CASES.items() if name not in ALONE}
    words = in_a_shell({**cases, "ours": script("import os; print('SAMEBITS_PLAN' in os.environ)")}, tmp_path)

    alone = told(plain(words, tmp_path, env={"PYTHONPATH": ""}))

    assert alone.keys() == {*cases, "ours"}
    for begin in MODES.values():
        with_us = told(begin(words, tmp_path, env={"PYTHONPATH": ""}))
        assert {name: one for name, one in with_us.items() if one != alone[name]} == {"ours": [b"True\n0\n", b""]}


@pytest.mark.parametrize(
    ("torch", "says"),
    [("", "is not PyTorch"), ("__version__ = '1.13.1'", "torch 1.13.1 is too old: samebits needs 2.6")],
)
def test_a_torch_that_cannot_be_treated(torch: str, says: str, tmp_path: Path) -> None:
    """A stub called torch, or an old one, is imported as without us; `run` says in one line that it is not pinned."""
    write(tmp_path, {"torch.py": torch, "it.py": "import torch; print(torch.__name__)"})
    words = (PYTHON, "it.py")

    alone, checked, run = plain(words, tmp_path), under_check(words, tmp_path), under_run(words, tmp_path)

    assert checked == alone
    assert (run.status, run.stdout) == (alone.status, alone.stdout)
    assert run.stderr.decode().startswith("samebits: ")
    assert says in run.stderr.decode()
    assert len(run.stderr.splitlines()) == 1


READER = "import sys; print(sys.stdin.isatty(), sys.stdin.seekable()); print(repr(sys.stdin.read()))"


@pytest.mark.parametrize("source", ["pipe", "file", "null"])
def test_run_passes_standard_input_on(source: str, tmp_path: Path) -> None:
    """A pipe stays a pipe, a file a file that can be sought, and nothing stays nothing."""
    (tmp_path / "in.txt").write_text("line\n" * 3)
    given = {"pipe": b"one\ntwo\n", "null": subprocess.DEVNULL}

    for begin in (plain, under_run):
        with (tmp_path / "in.txt").open("rb") as file:
            seen = begin((PYTHON, "-c", READER), tmp_path, stdin=given.get(source, file.fileno()))

        expected = {"pipe": "one\ntwo\n", "file": "line\n" * 3, "null": ""}[source]
        assert repr(expected) in seen.out
        assert seen.err == ""


def test_a_command_starts_with_the_signals_of_its_caller(tmp_path: Path) -> None:
    """Nothing of what Python ignores for itself is left: `yes | head` ends by SIGPIPE."""
    words = ["grep", "SigIgn", "/proc/self/status"]

    assert under_check(words, tmp_path).out == under_run(words, tmp_path).out == plain(words, tmp_path).out


def test_run_passes_on_what_the_shell_opened(tmp_path: Path) -> None:
    """The file behind <(...) is there."""
    words = ["bash", "-c", f'"$@" {PYTHON} -c "import sys; print(open(sys.argv[1]).read())" <(echo here)', "-"]

    assert plain([*words, SAMEBITS, "run"], tmp_path) == plain([*words, "env"], tmp_path)


def test_run_keeps_the_terminal(tmp_path: Path) -> None:
    """On a terminal the command talks to the terminal itself."""
    text = "import os, sys; print(*(os.isatty(n) for n in (0, 1, 2)), os.get_terminal_size())"

    shown = [_on_terminal(words, tmp_path) for words in ([PYTHON, "-c", text], [SAMEBITS, "run", PYTHON, "-c", text])]

    assert shown[0].startswith(b"True True True")
    assert shown[0] == shown[1]


def _on_terminal(words: list[str], cwd: Path) -> bytes:
    leader, follower = os.openpty()
    done = subprocess.Popen(words, cwd=cwd, stdin=follower, stdout=follower, stderr=follower, start_new_session=True)
    done.wait(PATIENCE_SECONDS)
    os.close(follower)
    found = b""
    with contextlib.suppress(OSError):  # how Linux says that the other end is closed
        while chunk := os.read(leader, 4096):
            found += chunk
    os.close(leader)
    return found
