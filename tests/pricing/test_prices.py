"""Ratios of paired blocks, and which set is recommended."""

import json
import random
import statistics
from math import comb
from pathlib import Path
from typing import Any

import pytest

from samebits.base.errors import UsageError
from samebits.factors.catalog import CATALOG
from samebits.factors.context import Setting
from samebits.launch.command import Command
from samebits.pricing.plan import DEFAULT_SET, NATURAL, Candidate, CostRequest, candidates, default_set
from samebits.pricing.prices import (
    LEAST_PAIRS,
    Costs,
    Ending,
    Price,
    Ratio,
    interval_of_median,
    ratio_of,
    why_unmeasured,
)
from samebits.report.answers import document_of, json_text
from samebits.report.costs import cost_report
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


@pytest.mark.parametrize("count", [6, 7, 12, 25, 60])
def test_the_interval_covers_the_median_as_often_as_it_says(count: int) -> None:
    """The widest rank that still covers 95 %: counted exactly, and tried on skewed draws."""
    values = sorted(float(number) for number in range(count))
    low, high = interval_of_median(values)
    rank = values.index(low)
    outside = [2 * sum(comb(count, k) for k in range(rank + more)) / 2**count for more in (1, 2)]
    draw = random.Random(count)
    tries = [interval_of_median([draw.expovariate(1.0) for _ in range(count)]) for _ in range(4000)]
    covered = statistics.mean(low <= 0.6931471805599453 <= high for low, high in tries)

    assert values.index(high) == count - 1 - rank
    assert outside[0] <= 0.05 < outside[1]
    assert abs(covered - (1 - outside[0])) < 0.02


def test_too_few_pairs_are_no_interval() -> None:
    """Of five the extremes hold the median 15 times in 16 only; six are enough."""
    assert LEAST_PAIRS == 6
    with pytest.raises(ValueError, match="at least 6"):
        interval_of_median([1.0] * 5)
    assert interval_of_median([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == (1.0, 6.0)


WIDE = [0.9, 38.0, 75.0, 1.0, 60.0, 2.0, 50.0]


@pytest.mark.parametrize(
    ("own", "ending", "told"),
    [
        ([], "budget", "0 pairs of blocks were timed, and an interval needs 6; give --budget 40 or more"),
        ([1.1], "budget", "1 pair of blocks was timed, and an interval needs 6; give --budget 40 or more"),
        ([1.1] * 5, "budget", "5 pairs of blocks were timed, and an interval needs 6; give --budget 40 or more"),
        (
            [1.1] * 5,
            "script",
            "5 pairs of blocks were timed, and an interval needs 6; the script ended: let it take more",
        ),
        ([1.1] * 6, "budget", ""),
        (WIDE, "budget", "the interval is too wide, 0.900 to 75.000 of 7 pairs; give --budget 40 or more"),
        (WIDE, "rounds", "the interval is too wide, 0.900 to 75.000 of 7 pairs; measure on a quieter machine"),
        ([1.0] * 5 + [float("inf")], "budget", "a clock that stood still"),
        ([1.0] * 5 + [0.0], "budget", "a clock that stood still"),
    ],
)
def test_what_was_not_measured_is_not_told_as_a_price(own: list[float], ending: Ending, told: str) -> None:
    """With the reason, and what to do; six pairs that agree are a price."""
    why = why_unmeasured(own, [1.0] * len(own), ending, budget=20)

    assert why.startswith(told) if told else why == ""


def test_what_is_measured_follows_from_the_script() -> None:
    """Without CUDA and without a loader what needs them is named with the reason, and not measured; seeds never are."""
    request = CostRequest(Command(("python", "it.py"), ("it.py",)))
    here, impossible = candidates(request, ())
    everywhere, nothing = candidates(request, ("cuda", "ranks", "compiled", "loader"))

    assert here[0].label == DEFAULT_SET
    assert {name for name, _ in impossible} == {f.name for f in CATALOG if f.priced and f.needs}
    assert nothing == []
    assert {c.label for c in everywhere} - {c.label for c in here} >= {name for name, _ in impossible}
    assert any(not candidate.is_remedy for candidate in everywhere)
    assert all(candidate.is_remedy for candidate in here)
    assert "python-rng" not in {candidate.label for candidate in everywhere}
    with pytest.raises(UsageError, match="--budget must be more than 0"):
        CostRequest(Command((), ()), budget=0)
    with pytest.raises(UsageError, match="--warm-up must be at least 2"):
        CostRequest(Command((), ()), warm_up=1)


def price(candidate: Candidate, low: float, high: float, repeats: bool | None = True, **more: Any) -> Price:
    return Price(candidate, Ratio((low + high) / 2, low, high, 9), 0.01, 0.02, 2**30, repeats, **more)


WHOLE = default_set()
CHEAPER = default_set(["torch-algorithms"])
ALONE = Candidate("torch-algorithms", {"torch-algorithms": Setting("pinned")})
OTHER = Candidate("cudnn-autotune, the other way", {"cudnn-autotune": Setting("varied")})


def costs(*prices: Price, plain_repeats: bool = False) -> Costs:
    plain = Price(NATURAL, None, 0.01, 0.02, 2**30, plain_repeats, "" if plain_repeats else "step 0, loss")
    return Costs("train.py --lr 3", Path("home"), plain, prices, (("cudnn-autotune", "no CUDA here"),), 20, 5, 1, 9.0)


UNMEASURED = Price(
    CHEAPER, None, 0.01, 0.02, 2**30, True, not_measured="2 pairs of blocks were timed; give --budget 40"
)


@pytest.mark.parametrize(
    ("measured", "cheapest", "fullest"),
    [
        (costs(price(WHOLE, 1.2, 1.3), price(CHEAPER, 1.01, 1.02)), CHEAPER, None),
        (costs(price(WHOLE, 1.2, 1.3), price(CHEAPER, 1.01, 1.02, repeats=False)), WHOLE, None),
        # No difference between the two was measured: the smaller is the cheapest, the larger is safer elsewhere.
        (costs(price(WHOLE, 0.99, 1.05), price(CHEAPER, 0.99, 1.01)), CHEAPER, WHOLE),
        (costs(price(WHOLE, 1.2, 1.3), plain_repeats=True), NATURAL, None),
        (costs(price(WHOLE, 0.99, 1.01), plain_repeats=True), NATURAL, WHOLE),
        (costs(price(WHOLE, 0.99, 1.01), price(ALONE, 0.98, 1.02), plain_repeats=True), NATURAL, WHOLE),
        # Quicker than nothing is cheaper than nothing.
        (costs(price(ALONE, 0.8, 0.9), plain_repeats=True), ALONE, None),
        # One that costs nothing and makes it repeat is named, however much more others pin.
        (costs(price(ALONE, 0.98, 1.02), price(WHOLE, 1.2, 1.3)), ALONE, None),
        # It lies level with the quickest, and is slower than nothing all the same: no second line.
        (costs(price(ALONE, 0.9, 1.07), price(WHOLE, 1.05, 1.2), plain_repeats=True), NATURAL, ALONE),
        (costs(price(WHOLE, 1.0, 1.1, repeats=False), price(OTHER, 0.8, 0.9)), None, None),
        (costs(price(WHOLE, 1.0, 1.1, repeats=None)), None, None),
        # What repeats and was not timed is no candidate.
        (costs(UNMEASURED), None, None),
        (costs(UNMEASURED, price(WHOLE, 1.2, 1.3)), WHOLE, None),
        (costs(UNMEASURED, plain_repeats=True), NATURAL, None),
    ],
)
def test_the_recommendation(measured: Costs, cheapest: Candidate | None, fullest: Candidate | None) -> None:
    """The cheapest that repeats, and the one that pins most where no difference was measured; never a varied one."""
    best, more = measured.recommended, measured.fullest
    document = document_of("cost", measured)
    text = cost_report(measured).text

    assert (best and best.candidate) == cheapest
    assert (more and more.candidate) == fullest
    assert_valid(document)
    for key, candidate in (("recommended", cheapest), ("fullest", fullest)):
        assert document[key] is candidate is None or document[key]["candidate"]["label"] == candidate.label
    assert ("safer" in text) == (fullest is not None)
    # What can be pasted into a shell, also where nothing is pinned.
    assert cheapest != NATURAL or "  run       python train.py --lr 3" in text.splitlines()


def test_the_headline_says_what_is_known() -> None:
    """Nothing pinned is named like any other; what repeats at an unknown price is no recommendation, and no success."""
    answers = (
        costs(price(WHOLE, 0.99, 1.01), plain_repeats=True),
        costs(UNMEASURED),
        costs(UNMEASURED, price(WHOLE, 1.2, 1.3)),
        costs(price(WHOLE, 1.0, 1.1, repeats=False)),
    )

    assert [measured.exit_code for measured in answers] == [0, 2, 0, 0]
    assert [cost_report(measured).text.splitlines()[0] for measured in answers] == [
        "recommended: no pins (reproducible for 20 steps)",
        "not measured: all but torch-algorithms repeats, and what it costs is not known",
        "recommended, of those measured: default set, 1.250 (1.200 to 1.300) of the time",
        "no set of pins that was measured makes it repeat: `samebits check` says why",
    ]


def test_what_was_not_measured_stays_out_of_the_figures() -> None:
    """In the text without a ratio and with the reason; in JSON no NaN, no Infinity."""
    measured = costs(UNMEASURED, price(WHOLE, 1.2, 1.3), Price(ALONE, not_measured="there was no time for it"))
    text = cost_report(measured).text
    document = json.loads(json_text(document_of("cost", measured)), parse_constant=pytest.fail)
    (row,) = (line.split() for line in text.splitlines() if line.startswith("    all but"))

    assert row[3:] == ["yes", "not", "measured", "20.0", "1024"]
    assert "no price  all but torch-algorithms: 2 pairs of blocks were timed; give --budget 40" in text
    assert "no price  torch-algorithms: there was no time for it" in text
    assert not any(line.startswith("    torch-algorithms") for line in text.splitlines())
    assert document["prices"][0]["not_measured"] == UNMEASURED.not_measured
    assert document["prices"][0]["ratio"] is None
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"ratio": float("inf")})


def test_the_text_says_what_was_measured() -> None:
    """Ratios with intervals, failures with their reason, what does not apply without a figure."""
    failed = Price(ALONE, failure="cumsum_cuda_kernel has no kernel (it.py:3)")
    text = cost_report(costs(price(WHOLE, 1.2, 1.3), failed)).text

    assert text.splitlines()[0] == "recommended: default set, 1.250 (1.200 to 1.300) of the time"
    assert "failed    torch-algorithms: cumsum_cuda_kernel has no kernel (it.py:3)" in text
    assert "not here  cudnn-autotune: no CUDA here" in text
    assert "run       samebits run train.py --lr 3" in text
    assert "diverges  nothing: at step 0, loss" in text
    (row,) = (line.split() for line in text.splitlines() if line.startswith("    default set"))
    assert row[2:6] == ["yes", "1.250", "0.800", "1.200–1.300"]
    assert "cudnn-autotune" not in text.split("pinned")[1].split("measured")[0]


def test_the_text_says_what_was_replaced() -> None:
    """Once, however many sets it is the same in; and nothing where nothing was."""
    told = "put_ (it.py:3, 20 calls)"
    alone = price(ALONE, 1.1, 1.2, replaced=told)
    measured = costs(price(WHOLE, 1.5, 1.6, replaced=told), alone, price(OTHER, 1.0, 1.1))
    text, document = cost_report(measured).text, document_of("cost", measured)

    assert text.count("replaced  in the first 20 steps: put_ (it.py:3, 20 calls)") == 1
    assert "run       samebits run --pin torch-algorithms train.py --lr 3" in text
    assert [one["replaced"] for one in document["prices"]] == [told, told, None]
    assert "replaced" not in cost_report(costs(price(WHOLE, 1.2, 1.3))).text
