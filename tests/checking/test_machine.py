"""What there is to take: of the machine, and of the container or job."""

import os
from pathlib import Path

import pytest

from samebits.launch.machine import cores, free_bytes

GIB = 1024**3
MEMINFO = f"MemTotal: {64 * 1024**2} kB\nMemAvailable: {32 * 1024**2} kB\n"
TWO = {"proc/self/cgroup": "0::/job_7/step_0\n"}
ONE = {"proc/self/cgroup": "5:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n0::/\n"}
HUGE = "9223372036854771712"


def machine(folder: Path, files: dict[str, str]) -> tuple[Path, Path]:
    """The two folders of a system that says this."""
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "proc", folder / "groups"


def memory(folder: str, most: str, used: int, cache: int = 0) -> dict[str, str]:
    stat = f"anon 1\ninactive_file {cache * GIB}\n"
    names = {"memory.max": most, "memory.current": str(used * GIB), "memory.stat": stat}
    return {f"groups/{folder}{name}": text for name, text in names.items()}


@pytest.mark.parametrize(
    ("files", "gibibytes"),
    [
        ({}, 32),
        (TWO, 32),
        (TWO | memory("job_7/", str(8 * GIB), 5), 3),
        (TWO | memory("job_7/", str(8 * GIB), 5, cache=2), 5),
        (TWO | memory("job_7/", str(8 * GIB), 5) | memory("job_7/step_0/", "max\n", 1), 3),
        (TWO | memory("job_7/", "max", 1) | memory("", str(4 * GIB), 1), 3),
        (TWO | memory("job_7/", str(64 * GIB), 1), 32),
        (TWO | memory("job_7/", str(GIB), 2), 0),
        (TWO | {"groups/job_7/memory.max": "nonsense"}, 32),
        (ONE | {"groups/memory/docker/1/memory.limit_in_bytes": HUGE}, 32),
        (
            ONE
            | {
                "groups/memory/memory.limit_in_bytes": str(2 * GIB),
                "groups/memory/memory.usage_in_bytes": str(GIB),
                "groups/memory/memory.stat": "total_inactive_file 0\n",
            },
            1,
        ),
    ],
)
def test_memory_is_what_the_narrowest_bound_leaves(tmp_path: Path, files: dict[str, str], gibibytes: int) -> None:
    assert free_bytes(*machine(tmp_path, files)) == gibibytes * GIB


def test_what_the_system_does_not_say_is_not_known(tmp_path: Path) -> None:
    assert free_bytes(tmp_path, tmp_path) is None


@pytest.mark.parametrize(
    ("files", "most"),
    [
        ({}, 100),
        (TWO | {"groups/job_7/cpu.max": "max 100000\n"}, 100),
        (TWO | {"groups/job_7/cpu.max": "250000 100000\n"}, 2),
        (TWO | {"groups/job_7/cpu.max": "50000 100000\n"}, 1),
        (ONE | {"groups/cpu/docker/1/cpu.cfs_quota_us": "-1", "groups/cpu/docker/1/cpu.cfs_period_us": "100000"}, 100),
        (ONE | {"groups/cpu/cpu.cfs_quota_us": "100000", "groups/cpu/cpu.cfs_period_us": "100000"}, 1),
    ],
)
def test_cores_are_those_of_the_process_and_its_share_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], most: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(100)), raising=False)

    assert cores(*machine(tmp_path, files)) == most


def test_this_machine_says_what_it_has() -> None:
    free = free_bytes()

    assert cores() >= 1
    assert free is None or free > 1024**2
