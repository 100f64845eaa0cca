"""What enters through calls: pinned it repeats, varied it does not, its line is witnessed and can be released."""

import datetime
import os
import random
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from samebits.factors.catalog import find
from samebits.factors.context import FactorContext, Setting
from tests.factors.contexts import treated, watched

# What is called, and the name by which it is witnessed.
CALLS: list[tuple[str, str, Callable[[], Any]]] = [
    ("clock", "time.time", lambda: time.time()),
    ("clock", "time.time_ns", lambda: time.time_ns()),
    ("clock", "time.localtime", lambda: time.localtime()),
    ("clock", "time.gmtime", lambda: time.gmtime()),
    ("clock", "time.ctime", lambda: time.ctime()),
    ("clock", "time.asctime", lambda: time.asctime()),
    ("clock", "time.strftime", lambda: time.strftime("%Y %m %d %H %M %S")),
    ("clock", "time.clock_gettime", lambda: time.clock_gettime(time.CLOCK_REALTIME)),
    ("clock", "time.clock_gettime_ns", lambda: time.clock_gettime_ns(time.CLOCK_REALTIME)),
    ("clock", "datetime.now", lambda: datetime.datetime.now()),
    ("clock", "datetime.now", lambda: datetime.datetime.now(datetime.timezone.utc)),
    ("clock", "datetime.now", lambda: datetime.datetime.now(tz=datetime.timezone.utc)),
    ("clock", "datetime.today", lambda: datetime.datetime.today()),
    ("clock", "date.today", lambda: datetime.date.today()),
    ("clock", "time.perf_counter", lambda: time.perf_counter()),
    ("clock", "time.perf_counter_ns", lambda: time.perf_counter_ns()),
    ("clock", "time.monotonic", lambda: time.monotonic()),
    ("clock", "time.monotonic_ns", lambda: time.monotonic_ns()),
    ("clock", "time.process_time", lambda: time.process_time()),
    ("clock", "time.process_time_ns", lambda: time.process_time_ns()),
    ("os-entropy", "os.urandom", lambda: os.urandom(16)),
    ("os-entropy", "os.getrandom", lambda: os.getrandom(16)),
    ("os-entropy", "uuid.uuid4", lambda: uuid.uuid4()),
    ("os-entropy", "secrets.token_hex", lambda: secrets.token_hex()),
    ("os-entropy", "random.SystemRandom", lambda: secrets.randbits(64)),
    ("os-entropy", "random.SystemRandom", lambda: secrets.choice(range(10**9))),
    ("os-entropy", "random.SystemRandom", lambda: random.SystemRandom().random()),
    ("os-entropy", "random.SystemRandom", lambda: random.SystemRandom().randint(0, 10**12)),
    ("os-entropy", "random.Random()", lambda: random.Random().random()),
    ("os-entropy", "random.Random()", lambda: random.Random(None).random()),
    ("os-entropy", "NumPy's generator", lambda: np.random.default_rng().random()),
    ("os-entropy", "NumPy's generator", lambda: np.random.Generator(np.random.PCG64()).random()),
    ("os-entropy", "NumPy's generator", lambda: np.random.RandomState().rand()),
    ("os-entropy", "NumPy's generator", lambda: np.random.SeedSequence().entropy),
    ("os-entropy", "torch.Generator.seed()", lambda: torch.Generator().seed()),
    ("process-id", "os.getpid", lambda: os.getpid()),
    ("process-id", "threading.get_ident", lambda: threading.get_ident()),
    ("process-id", "threading.get_native_id", lambda: threading.get_native_id()),
    ("process-id", "uuid.getnode", lambda: uuid.getnode()),
    ("process-id", "uuid.uuid1", lambda: uuid.uuid1()),
    ("python-rng", "random.random", lambda: random.random()),
    ("numpy-rng", "numpy.random.rand", lambda: np.random.rand()),
    ("torch-rng", "torch.rand", lambda: torch.rand(1, dtype=torch.float64).item()),
]


@pytest.mark.parametrize(("factor", "what", "ask"), CALLS)
def test_pinned_it_repeats_varied_it_does_not_and_the_line_is_named(
    factor: str, what: str, ask: Callable[[], Any]
) -> None:
    """One value of one type for one seed, and others naturally, for another seed and in each variant."""
    natural = ask()
    with watched(factor, "pinned") as seen:
        pinned = ask()
    found = []
    for mode, seed, variant in (("pinned", 0, 1), ("pinned", 1, 1), ("varied", 0, 1), ("varied", 0, 2)):
        with treated(factor, mode, seed, variant=variant):  # type: ignore[arg-type]
            found.append(ask())
    again, other_seed, *varied = found

    assert again == pinned
    # The pinned clock always starts on the same day.
    assert (other_seed == pinned) == (factor == "clock")
    assert type(natural) is type(pinned) is type(varied[0])
    assert len({str(value) for value in (natural, pinned, *varied)}) == 4
    assert [witness.site and witness.site.line for witness in seen] == [ask.__code__.co_firstlineno]
    # Python 3.10 does not know a function's class.
    assert [witness.what for witness in seen] in ([what], ["random"])


LINES = {
    "clock": "time.time()",
    "os-entropy": "os.urandom(8)",
    "process-id": "os.getpid()",
    "file-order": "os.listdir('/')",
    "uninitialized-memory": "torch.empty(2).tolist()",
}


def program(factor: str) -> list[Any]:
    """What three lines get."""
    body = "\n".join(["found = ["] + 3 * [f"    {LINES[factor]},"] + ["]"])
    space: dict[str, Any] = {"time": time, "os": os, "torch": torch}
    exec(compile(body, __file__, "exec"), space)
    return list(space["found"])


@pytest.mark.parametrize("factor", LINES)
def test_releasing_a_line_leaves_the_others(factor: str) -> None:
    """The released line gets something else, the same in every run; the lines around it get what they always get."""
    with treated(factor):
        pinned = program(factor)
    released = []
    for _ in range(2):
        with treated(factor, released=((__file__, 3),), variant=2):
            released.append(program(factor))

    assert [a == b for a, b in zip(pinned, released[0], strict=True)] == [True, False, True]
    assert released[0] == released[1]


def test_a_torch_whose_streams_are_no_contexts_yet_is_treated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before torch 2.7 nobody writes `with stream:`; the functions that go on with a stream are there."""
    monkeypatch.setattr(torch, "Stream", type("Stream", (), {}))
    before = torch.cuda.set_stream
    context = FactorContext("stream-order", Setting("pinned"))
    find("stream-order").apply(context)
    replaced = torch.cuda.set_stream is not before
    context.end()

    assert not context.failed
    assert replaced
    assert torch.cuda.set_stream is before
