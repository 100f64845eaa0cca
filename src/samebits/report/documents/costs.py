"""`samebits.cost/1`."""

from __future__ import annotations

from typing import Literal, TypedDict

from samebits.factors.context import Mode
from samebits.report.documents.shared import ErrorDocument


class RatioDocument(TypedDict):
    """A ratio of step times, with its interval.

    Attributes:
        middle: median over pairs of blocks
        low: lower bound of the 95 % interval of the median (order statistics)
        high: upper bound
        is_difference: 1 lies outside of the interval
    """

    middle: float
    low: float
    high: float
    pairs: int
    is_difference: bool


class PriceDocument(TypedDict):
    """What was measured of one set of pins.

    Attributes:
        settings: how which factor was treated; the rest was left alone
        ratio: of step times to those with nothing pinned; null for nothing itself, for failures and for what was not
            measured
        step_seconds: median
        first_step_seconds: from the first forward call to the end of the step
        peak_bytes: of the accelerator where one is used, else of the process
        repeats: a second run had the same bits in every recorded step
        diverges_at: where it had not
        failure: why it could not be run; empty if it could
        not_measured: why there is no ratio although it could be run, and what to do; empty otherwise
    """

    label: str
    settings: dict[str, Mode]
    ratio: RatioDocument | None
    step_seconds: float
    first_step_seconds: float
    peak_bytes: int
    repeats: bool | None
    diverges_at: str
    failure: str
    not_measured: str


class NotApplicableDocument(TypedDict):
    """A factor that cannot matter here."""

    factor: str
    reason: str


class PinSetDocument(TypedDict):
    """A set of pins, as a command and as code."""

    label: str
    pins: list[str]
    command: str
    code: str


class InterruptedCostDocument(TypedDict):
    """How a measurement was ended before it was done.

    Attributes:
        signal: that ended the measurement, such as SIGINT
        begun: labels of the runs that were begun
    """

    signal: str
    begun: list[str]


class CostDocument(TypedDict):
    """What `samebits cost --format json` prints. Keys are only ever added.

    Attributes:
        headline: the answer in one sentence
        command: as it was typed
        folder: holds a run folder for every run
        recorded_steps: first steps of each run, recorded and not timed
        block_steps: steps that a run takes when it has its turn
        distinct_input_shapes: of the outermost module, in the recorded steps
        not_applicable: factors that cannot matter for this script on this machine
        recommended: the cheapest set that repeats, of those that were measured, nothing pinned among them; null when
            there is none
        pins_most: the set that pins most, where it costs no measured difference from the cheapest; null when that is
            the cheapest
        is_noisy: an interval is wider than 10 % to each side
        interrupted: the measurement was ended before it was done
    """

    schema: Literal["samebits.cost/1"]
    headline: str
    command: str | None
    folder: str | None
    recorded_steps: int
    block_steps: int
    distinct_input_shapes: int
    nothing_pinned: PriceDocument | None
    prices: list[PriceDocument]
    not_applicable: list[NotApplicableDocument]
    recommended: PinSetDocument | None
    pins_most: PinSetDocument | None
    is_noisy: bool
    wall_seconds: float
    interrupted: InterruptedCostDocument | None
    error: ErrorDocument | None
