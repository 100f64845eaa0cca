"""process-id: the user's lines are told derived numbers, libraries and the operating system the real ones."""

import multiprocessing
import os
import signal
import tempfile
import threading
import uuid
from typing import Any

import pytest

from samebits.factors.process_id import MOST_PROCESSES
from tests.factors.contexts import here, lines, treated, watched


def child(told: Any) -> None:
    told.put((os.getpid(), os.getppid()))


def test_a_parent_that_the_program_did_not_start_has_its_own_number() -> None:
    """Somebody else's process: nothing that the program could derive."""
    real = os.getppid()
    with treated("process-id"):
        assert os.getppid() == real


def test_the_line_is_witnessed_and_libraries_are_not() -> None:
    """What tempfile or multiprocessing ask for is theirs."""
    with watched("process-id") as seen:
        os.getpid()
        line = here() - 1
        with tempfile.TemporaryDirectory():
            multiprocessing.get_logger()

    assert [(one.what, one.site and one.site.line) for one in seen] == [("os.getpid", line)]


def test_no_signal_reaches_a_stranger() -> None:
    """Derived numbers are above all real ones; those of the own process are understood."""
    with treated("process-id"):
        own = os.getpid()
        os.kill(os.getpid(), 0)
        affinity = os.sched_getaffinity(os.getpid())

    assert own > MOST_PROCESSES
    assert affinity == os.sched_getaffinity(0)
    with pytest.raises(ProcessLookupError):
        os.kill(own, signal.SIGTERM)


def test_psutil_is_given_the_real_process() -> None:
    """Programs log their memory with it."""
    psutil = pytest.importorskip("psutil")
    with treated("process-id"):
        found = psutil.Process(os.getpid()).pid

    assert found == os.getpid()


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_children_know_their_parent(start: str) -> None:
    """What a child is told of its parent is what the parent is told of itself; each has a number of its own."""
    context = multiprocessing.get_context(start)
    with treated("process-id"):
        told, own = context.Queue(), os.getpid()
        children = [context.Process(target=child, args=(told,)) for _ in range(2 if start == "fork" else 1)]
        for process in children:
            process.start()
        answers = [told.get(timeout=60) for _ in children]
        for process in children:
            process.join()

    if start == "fork":  # a spawned one starts without the treatment, which a run brings in by another way
        assert len({own, *(pid for pid, _ in answers)}) == 3
        assert {parent for _, parent in answers} == {own}
    else:
        assert answers == [(children[0].pid, os.getpid())]


def test_threads_keep_their_identity() -> None:
    """Threads of one name have numbers of their own, and both ways to ask agree."""
    found: list[tuple[int, int | None]] = []
    gate = threading.Barrier(2)

    def ask() -> None:
        gate.wait()
        found.append((threading.get_ident(), threading.current_thread().ident))
        gate.wait()

    with treated("process-id"):
        threads = [threading.Thread(target=ask, name="worker") for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        is_main = threading.get_ident() == threading.main_thread().ident

    assert is_main
    assert all(one == other for one, other in found)
    assert len({one for one, _ in found}) == 2


def test_lines_of_uuids() -> None:
    """Each line has a stream of its own, and every draw is another one."""
    with watched("process-id", "pinned") as seen:
        drawn = [uuid.uuid1() for _ in range(3)]
        line = here() - 1

    assert len(set(drawn)) == 3
    assert all(one.version == 1 for one in drawn)
    assert lines(seen) == [line]
