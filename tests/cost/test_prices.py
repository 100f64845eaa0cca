"""Ratios of paired blocks, and which set is recommended."""

import random
from pathlib import Path
from typing import Any

import pytest

from samebits.cost.plan import DEFAULT_SET, NATURAL, Candidate, Request, candidates, default_set
from samebits.cost.prices import Costs, Price, Ratio, ratio_of
from samebits.errors import UsageError
from samebits.factors.base import Setting
from samebits.factors.catalog import CATALOG, find
from samebits.launch.command import Command
from samebits.report.costs import cost_json, cost_text, failed_cost_json
from tests.schemas import assert_valid


def blocks(ratio: float, drift: float = 0.0, noise: float = 0.02, count: int = 40) -> tuple[list[float], list[float]]:
    """Paired times on a machine that becomes slower, with a ratio between the two of a pair."""
    draw = random.Random(1)
    speeds = [1 + drift * number for number in range(count)]
    own = [ratio * speed * draw.gauss(1, noise) for speed in speeds]
    return own, [speed * draw.gauss(1, noise) for speed in speeds]


@pytest.mark.parametrize("ratio", [0.9, 1.05, 1.5])
def test_the_true_ratio_lies_in_the_interval(ratio: float) -> None:
    """Also on a machine that becomes ten times slower meanwhile."""
    for drift in (0.0, 0.25):
        found = ratio_of(*blocks(ratio, drift))

        assert found.low <= ratio <= found.high
        assert found.is_difference
        assert found.high - found.low < 0.05


def test_no_difference_is_an_answer() -> None:
    """And noise widens the interval, until it is said."""
    quiet, noisy = ratio_of(*blocks(1.0)), ratio_of(*blocks(1.0, noise=0.4, count=8))

    assert not quiet.is_difference
    assert not quiet.is_noisy
    assert not noisy.is_difference
    assert noisy.is_noisy
    assert ratio_of([1.1], [1.0]).is_noisy


def test_the_same_blocks_give_the_same_interval() -> None:
    assert ratio_of(*blocks(1.2)) == ratio_of(*blocks(1.2))


def test_what_is_measured_follows_from_the_script() -> None:
    """Without CUDA and without a loader what needs them is named with the reason, and not measured."""
    request = Request(Command(("python", "it.py"), ("it.py",)))
    here, impossible = candidates(request, has_cuda=False, fetches=False)
    everywhere, nothing = candidates(request, has_cuda=True, fetches=True)

    assert here[0].label == DEFAULT_SET
    assert {name for name, _ in impossible} == {
        f.name for f in CATALOG if f.priced and (f.needs_cuda or f.needs_loader)
    }
    assert nothing == []
    assert {c.label for c in everywhere} - {c.label for c in here} >= {name for name, _ in impossible}
    assert any(not candidate.is_remedy for candidate in everywhere)
    assert all(candidate.is_remedy for candidate in here)
    with pytest.raises(UsageError, match="--budget must be more than 0"):
        Request(Command((), ()), budget=0)
    with pytest.raises(UsageError, match="--warm-up must be at least 2"):
        Request(Command((), ()), warm_up=1)


def price(candidate: Candidate, low: float, high: float, repeats: bool | None = True, **more: Any) -> Price:
    return Price(candidate, Ratio((low + high) / 2, low, high, 9), 0.01, 0.02, 2**30, repeats, **more)


WHOLE = default_set()
CHEAPER = default_set(["torch-algorithms"])
ALONE = Candidate("torch-algorithms", {"torch-algorithms": Setting("pinned")})
OTHER = Candidate("cudnn-autotune, the other way", {"cudnn-autotune": Setting("varied")})


def costs(*prices: Price, plain_repeats: bool = False) -> Costs:
    plain = Price(NATURAL, None, 0.01, 0.02, 2**30, plain_repeats, "" if plain_repeats else "step 0, loss")
    return Costs("train.py --lr 3", Path("home"), plain, prices, (("cudnn-autotune", "no CUDA here"),), 20, 5, 1, 9.0)


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (costs(price(WHOLE, 1.2, 1.3), price(CHEAPER, 1.01, 1.02)), CHEAPER),
        (costs(price(WHOLE, 1.2, 1.3), price(CHEAPER, 1.01, 1.02, repeats=False)), WHOLE),
        (costs(price(WHOLE, 0.99, 1.05), price(CHEAPER, 0.99, 1.01)), WHOLE),
        (costs(price(WHOLE, 1.2, 1.3), plain_repeats=True), NATURAL),
        (costs(price(WHOLE, 0.99, 1.01), plain_repeats=True), WHOLE),
        (costs(price(WHOLE, 1.0, 1.1, repeats=False), price(OTHER, 0.8, 0.9)), None),
        (costs(price(WHOLE, 1.0, 1.1, repeats=None)), None),
    ],
)
def test_the_recommendation(measured: Costs, expected: Candidate | None) -> None:
    """The cheapest that repeats; of those that cost the same, the one that pins most; never a varied one."""
    best = measured.recommended

    assert (best and best.candidate) == expected
    document = cost_json(measured)
    assert_valid(document)
    assert (document["recommended"] or {}).get("label") == (expected and expected.label)
    assert (expected is None) == ("samebits check" in cost_text(measured).splitlines()[0])


def test_the_text_says_what_was_measured() -> None:
    """Ratios with intervals, failures with their reason, what does not apply without a figure."""
    text = cost_text(costs(price(WHOLE, 1.2, 1.3), Price(ALONE, failure="cumsum_cuda_kernel has no kernel (it.py:3)")))

    assert text.splitlines()[0] == "the cheapest that repeats: default set, 1.250 (1.200 to 1.300) of the time"
    assert "failed    torch-algorithms: cumsum_cuda_kernel has no kernel (it.py:3)" in text
    assert "not here  cudnn-autotune: no CUDA here" in text
    assert "run       samebits run train.py --lr 3" in text
    assert "parts     nothing: at step 0, loss" in text
    (row,) = (line.split() for line in text.splitlines() if line.startswith("    default set"))
    assert row[2:6] == ["yes", "1.250", "0.800", "1.200–1.300"]
    assert "cudnn-autotune" not in text.split("pinned")[1].split("measured")[0]


def test_what_failed_is_a_document_too() -> None:
    error = UsageError("nothing was typed")

    assert_valid(failed_cost_json(error))
    assert_valid(cost_json(Costs("it.py", Path("home"), error=error)))


def test_only_what_may_matter_has_a_price() -> None:
    """Seeds cost nothing, and are not measured one by one."""
    assert not find("python-rng").priced
    assert find("torch-algorithms").priced == ("pinned",)
