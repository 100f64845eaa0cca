"""Mistakes that the tests have to find: whoever shortens tests plants them before and after.

python tests/mutants/mutants.py                  # all of them, in about half an hour
python tests/mutants/mutants.py comparison       # those in one room
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "samebits"


class Mutant(NamedTuple):
    """A mistake.

    Attributes:
        file: below `src/samebits`.
        old: what stands there, once.
        new: what stands there instead.
        tests: the fast tests that have to find it, below `tests`.
    """

    file: str
    old: str
    new: str
    tests: str

    def is_there(self) -> bool:
        """Whether the mistake can be made."""
        path = SOURCE / self.file
        return path.is_file() and path.read_text().count(self.old) == 1


MUTANTS = [
    # base
    Mutant("base/seeds.py", "(1 << bits) - 1", "(1 << bits - 1) - 1", "base/test_seeds.py"),
    Mutant("base/seeds.py", 'else (b"i", str(', 'else (b"s", str(', "base/test_seeds.py"),
    Mutant("base/ranks.py", "if not all(variables):", "if not any(variables):", "base/test_ranks.py"),
    # bits
    Mutant("bits/digest/keys.py", ".bitwise_or_(1)", ".bitwise_or_(0)", "bits/test_digest.py"),
    Mutant("bits/digest/host.py", "{dtype_text(dtype)}{list(shape)}", "{dtype_text(dtype)}", "bits/test_digest.py"),
    Mutant("bits/digest/sums.py", "zeros[:rest]", "zeros[: rest // 2]", "bits/test_digest.py"),
    Mutant("bits/digest/sums.py", "torch.zeros if size % WORD_BYTES", "torch.zeros if size % 2", "bits/test_digest.py"),
    # checking
    Mutant("checking/first.py", 'note.kind in ("timer", "time")', 'note.kind in ("timer",)', "checking/test_search.py"),
    Mutant(
        "checking/products.py", "for changed in plan[2:]:", "for changed in plan[2:3]:", "checking/test_products.py"
    ),
    Mutant("checking/facts.py", 'r"(?<![\\w.])id(?=', 'r"id(?=', "checking/test_facts.py"),
    Mutant("comparison/products.py", "[0-9a-fA-F]{4,}", "[0-9a-fA-F]{6,}", "comparison/test_products.py"),
    Mutant("fixing/reach.py", "all(way and comes_first(way, source, node) for", "all(way for", "fixing/test_patch.py"),
    Mutant("factors/clock.py", "SLOW_TICKS if self", "OTHER_TICKS if self", "factors/test_clock.py"),
    Mutant(
        "checking/evidence.py", "odds[draw.drawn] / mean", "2 * odds[draw.drawn] / mean", "checking/test_evidence.py"
    ),
    Mutant("checking/evidence.py", "return max(", "return min(", "checking/test_evidence.py"),
    Mutant("checking/evidence.py", "/ SHARPER**failures", "/ SHARPER", "checking/test_evidence.py"),
    Mutant(
        "checking/evidence.py", "while detectable_rate(runs) > rate", "while detectable_rate(runs) < rate", "checking"
    ),
    Mutant("checking/evidence.py", "rate if is_shown else 1 - rate", "1 - rate", "checking/test_evidence.py"),
    Mutant("checking/experiments.py", "raise BudgetSpentError(trouble=trouble)", "pass", "checking"),
    Mutant("checking/experiments.py", "(call.process, call.site.key) == key", "call.site.key == key[1]", "checking"),
    Mutant("checking/verdict.py", "if not run.stopped] or longest", "] or longest", "checking report"),
    Mutant("checking/first.py", "return is_timing or ", "return ", "checking/test_search.py"),
    Mutant(
        "checking/suspects.py",
        "last = max(self.divergent.divergence.position, self.baseline.at)",
        "last = self.divergent.divergence.position",
        "checking/test_search.py",
    ),
    # comparison
    Mutant("comparison/align.py", "low = middle + 1", "low = middle + 2", "comparison/test_align.py"),
    Mutant("comparison/align.py", "return -agreed_rows,", "return agreed_rows,", "comparison/test_align.py"),
    Mutant("comparison/align.py", "min(len(recording), until + 1)", "min(len(recording), until)", "comparison"),
    Mutant(
        "comparison/values.py", "for x, y in pairs if x.raw != y.raw", "for x, y in pairs", "comparison/test_values.py"
    ),
    Mutant(
        "comparison/values.py", '(raw.astype("<u4") << 16)', '(raw.astype("<u4") << 15)', "comparison/test_values.py"
    ),
    Mutant("comparison/values.py", "-1 - (whole &", "-(whole &", "comparison/test_values.py"),
    Mutant("comparison/values.py", "np.isfinite(x) & np", "np.isfinite(x) | np", "comparison/test_values.py"),
    Mutant("comparison/pickles.py", "if file.tell() != len(raw):", "if not raw:", "comparison/test_contents.py"),
    Mutant("comparison/pickles.py", "if len(tree) != 1:", "if len(tree) > 9:", "comparison/test_contents.py"),
    Mutant("comparison/contents.py", "(offset + elements) * width", "elements * width", "comparison"),
    Mutant(
        "comparison/locate.py",
        "if went_further and not lacking.complete:",
        "if went_further:",
        "comparison",
    ),
    Mutant("comparison/products.py", "name.endswith(star[1:])", "name == star", "comparison/test_products.py"),
    Mutant("comparison/products.py", "elif left != right:", "elif len(left) != len(right):", "comparison"),
    # data
    Mutant("data/order.py", "world.rank * count // world.size, (", "world.rank * (count // world.size), (", "data"),
    Mutant("data/order.py", "seen.get(word, -1) + 1", "seen.get(word, 0) + 0", "data"),
    Mutant(
        "data/order.py",
        "first, position = position, position + len(batch)",
        "first, position = position, position + size",
        "data",
    ),
    # factors
    Mutant(
        "factors/file_order.py", "entries[::-1] if variant % 2", "entries if variant % 2", "factors/test_file_order.py"
    ),
    Mutant(
        "factors/file_order.py",
        "return sorted(entries, key=key)\n",
        "return list(entries)\n",
        "factors/test_file_order.py",
    ),
    Mutant("factors/hash_seed.py", "int(value) <= 4_294_967_295", "int(value) <= 2**40", "factors/test_environment.py"),
    Mutant("factors/hash_seed.py", "str(1 + derive(", "str(0 * derive(", "factors"),
    Mutant(
        "factors/clock.py",
        "return logical - self._behind()",
        "return logical - 0 * self._behind()",
        "factors/test_clock.py",
    ),
    Mutant("factors/clock.py", "self.context.setting.variant / 3", "0.0", "factors/test_clock.py"),
    Mutant("factors/clock.py", "max(self.shift >> times, ", "min(self.shift >> times, ", "factors/test_clock.py"),
    Mutant(
        "factors/os_entropy.py",
        "self.numbers.setdefault(words, count(1))",
        "count(1)",
        "factors/test_os_entropy.py",
    ),
    Mutant("factors/turns.py", "if self._holder is turn or self.has", "if self.has", "factors/test_thread_order.py"),
    Mutant("factors/os_entropy.py", "or size < 0", "or size < -9", "factors/test_os_entropy.py"),
    Mutant(
        "factors/uninitialized_memory.py",
        'return 0 if mode == "pinned" else',
        'return 1 if mode == "pinned" else',
        "factors",
    ),
    # locking
    Mutant("locking/comparing.py", "own.root == locked.root and own.steps", "own.steps", "locking/test_comparing.py"),
    Mutant("locking/comparing.py", "if step >= common:", "if step > common + 1:", "locking/test_comparing.py"),
    Mutant(
        "locking/comparing.py",
        "if row.losses != here.losses",
        "if row.losses == here.losses",
        "locking/test_comparing.py",
    ),
    # pricing
    Mutant("pricing/prices.py", "missed += 2 * math.comb", "missed += math.comb", "pricing/test_prices.py"),
    Mutant("pricing/prices.py", "not self.low <= 1.0 <= self.high", "not self.low <= 1.0", "pricing/test_prices.py"),
    Mutant("pricing/prices.py", "and seconds > 0 for", "and seconds >= 0 for", "pricing/test_prices.py"),
    # fixing
    Mutant("fixing/edits.py", "if now != change.before:", "if now is None:", "fixing/test_edits.py"),
    Mutant("fixing/edits.py", "if one.start < at:", "if one.stop < at:", "fixing/test_edits.py"),
    Mutant(
        "checking/mending.py", "if own.proven and request.patch ==", "if request.patch ==", "checking/test_mending.py"
    ),
    # rng
    Mutant("rng/packing.py", "-_SMALL <= value < _SMALL", "-_SMALL <= value <= _SMALL", "rng/test_digests.py"),
    Mutant("rng/packing.py", "plain.clone() if copies else plain", "plain", "state agent/test_giving_back.py"),
    Mutant(
        "rng/handles.py",
        "for shift in (0, 32, 64, 96)",
        "for shift in (0, 32, 64, 64)",
        "rng/test_digests.py",
    ),
    # runfolder
    Mutant(
        "runfolder/steps.py",
        "compared += [stream.encode(), named, digests]",
        "compared += [stream.encode(), named]",
        "runfolder",
    ),
    Mutant("runfolder/tensors.py", "if start + begin != at or ", "if ", "runfolder/test_tensors.py"),
    Mutant("runfolder/tensors.py", ".resolve_conj()", "", "runfolder bits"),
    Mutant("runfolder/notes.py", 'f"{name}={value}"', 'f"{name}"', "runfolder workspace factors/test_environment.py"),
    # launch, workspace
    Mutant("launch/command.py", 'r"python(\\d+(\\.\\d+)?[dt]?)?"', 'r"python.*"', "launch/test_command.py"),
    Mutant("launch/command.py", 'flags["valued"] in ("c", "m")', 'flags["valued"] in ("c",)', "launch/test_command.py"),
    Mutant("workspace/trees.py", "entry.name != OWN and", "", "workspace"),
    Mutant("workspace/trees.py", "elif entry.is_symlink():", "elif False:", "workspace"),
    # state
    Mutant(
        "state/checkpoints.py",
        "(not one.damage, -one.number",
        "(not one.damage, one.number",
        "state/test_checkpoints.py",
    ),
    Mutant(
        "state/checkpoints.py",
        'content.pop("digest") != ',
        'content.pop("digest") == "" and ',
        "state/test_checkpoints.py",
    ),
    # resuming
    Mutant("resuming/missing.py", "if 0 < ahead <= max(own.ahead, now.ahead):", "if 0 < ahead:", "resuming"),
    Mutant("resuming/tracks.py", "next(fits, again[-1])", "again[0]", "resuming"),
    Mutant("resuming/experiments.py", "and not looked.first:", ":", "resuming"),
    Mutant("resuming/missing.py", "if losses[0] != losses[1]:", "if losses[0] < losses[1]:", "resuming"),
    Mutant("resuming/plan.py", "(_after(saves, late, steps), most=None)", "(_after(saves, late, steps))", "resuming"),
    Mutant("resuming/plan.py", "chosen.insert(1, ", "(", "resuming"),
    # agent
    Mutant(
        "agent/recorder.py",
        "lambda *status, **named: self._finish_before(leave, *status, **named)",
        "lambda *status: self._finish_before(leave, *status)",
        "agent launch/test_ways_in.py",
    ),
    Mutant(
        "agent/lanes.py",
        "|= earlier is not None and earlier() is not leaf",
        "|= earlier is not None",
        "agent/test_unseen.py",
    ),
    Mutant("agent/slots.py", "if id(value) not in self.known:", "if True:", "agent/test_giving_back.py"),
    Mutant("agent/environment.py", "if is_elsewhere else _CHOSEN_BY", "if not is_elsewhere else _CHOSEN_BY", "agent"),
    # replay
    Mutant("replay/reproducer.py", "if stride is None:", "if stride is not None:", "replay"),
    # lint
    Mutant(
        "lint/flow.py",
        "while scope is not None and name not in scope.names:",
        "while scope is not None and scope.parent:",
        "lint",
    ),
    # report
    Mutant("base/records.py", 'f.metadata.get("key", f.name)', "f.name", "report/test_answers.py"),
    Mutant(
        "report/terminal.py", "if line.startswith(CODE, INDENT):", "if not line.startswith(CODE, INDENT):", "report"
    ),
]


def is_found(mutant: Mutant) -> bool:
    """Whether the tests fail with the mistake in a copy of the source."""
    with tempfile.TemporaryDirectory() as home:
        copy = Path(home) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        own = copy / "samebits" / mutant.file
        own.write_text(own.read_text().replace(mutant.old, mutant.new))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests.split()],
            cwd=ROOT / "tests",
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode not in (0, 1, 2):
        raise SystemExit(f"pytest exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.returncode != 0


def main() -> None:
    rooms = sys.argv[1:]
    chosen = [one for one in MUTANTS if not rooms or one.file.partition("/")[0] in rooms]
    missed = 0
    for one in chosen:
        said = "gone" if not one.is_there() else "found" if is_found(one) else "MISSED"
        missed += said != "found"
        print(f"{said:<7} {one.file}: {one.old.strip()}  →  {one.new.strip()}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} found")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
