"""Words for the answer of `samebits cost`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from samebits.pricing.plan import DEFAULT_SET, Candidate
from samebits.pricing.prices import Costs, Price, Ratio
from samebits.report.rows import AnswerReport, counted

SAFER = "no difference in price was measured: with fewer pins, the script may repeat only by luck"
_HEAD = ("pinned", "repeats", "time", "speed", "95 %", "1st ms", "MiB")


def cost_report(costs: Costs) -> AnswerReport:
    """Return the answer of `samebits cost`: a recommendation, details, and a table of prices."""
    if costs.plain is None:
        return AnswerReport(_headline(costs), [("ran", label) for label in costs.ran])
    within = f"in the first {counted(costs.recorded_steps, 'step')}"
    measured = [price for price in (costs.plain, *costs.prices) if price.was_run]
    rows = [("diverges", f"{one.candidate.label}: at {one.diverges_at}") for one in measured if one.diverges_at]
    blocks = f"blocks of {counted(costs.block_steps, 'step')} in turns, {_pairs(costs)}"
    relative = "time and speed are relative to a run with nothing pinned; 95 % is the interval of the median time"
    rows += [("measured", f"{blocks}, after {counted(costs.recorded_steps, 'step')} to warm up"), ("", relative)]
    if any(price.ratio is not None and not price.ratio.is_difference for price in costs.prices):
        rows.append(("", "= no difference was measured: the interval contains 1"))
    replaced = dict.fromkeys(price.replaced for price in costs.prices if price.replaced)
    rows += [("replaced", f"{within}: {text}") for text in replaced]
    rows += _grouped("failed", [(price.failure, price.candidate.label) for price in costs.prices])
    rows += _grouped("no price", [(price.not_measured, price.candidate.label) for price in costs.prices])
    rows += _grouped("not here", [(reason, name) for name, reason in costs.impossible])
    shapes, again = "one shape", "once"
    if costs.shapes > 1:
        shapes, again = f"{costs.shapes} shapes", "again for each"
    rows.append(("shapes", f"the model's inputs had {shapes} {within}: an autotuner would search {again}"))
    if costs.is_noisy:
        rows.append(("note", "the machine was noisy: some intervals are wider than 10 % to each side"))
    for price, why in ((costs.recommended, ""), (costs.fullest, SAFER)):
        if price is not None:
            rows.append(("safer", f"{price.candidate.label}, {why}" if why else ""))
            rows += [("run", _command(price.candidate, costs.command)), ("code", _code(price.candidate))]
    return AnswerReport(_headline(costs), rows, [_HEAD, *map(_row, measured)])


def _headline(costs: Costs) -> str:
    if costs.signal is None:
        return _found(costs) if costs.error is None else costs.error.message
    if costs.plain is None or not costs.prices:
        return f"not measured: interrupted after {costs.wall_seconds:.0f} s, before any measurement was complete"
    return f"interrupted; of what was measured, {_found(costs)}"


def _found(costs: Costs) -> str:
    best, unmeasured = costs.recommended, costs.repeats_unmeasured
    if best is None and unmeasured:
        labels = ", ".join(price.candidate.label for price in unmeasured)
        words = ("repeats", "it costs") if len(unmeasured) == 1 else ("repeat", "they cost")
        return f"not measured: {labels} {words[0]}, and what {words[1]} is not known"
    if best is None:
        return "no set of pins that was measured makes it repeat: `samebits check` says why"
    of_those = ", of those measured" if unmeasured else ""
    if best.ratio is None:
        steps = counted(costs.recorded_steps, "step")
        return f"recommended{of_those}: no pins (reproducible for {steps})"
    return f"recommended{of_those}: {best.candidate.label}, {_ratio_words(best.ratio)}"


def _ratio_words(ratio: Ratio) -> str:
    """Return a ratio and its interval, `1.032 (1.018 to 1.047) of the time`, or that no difference was measured."""
    interval = f"{ratio.middle:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
    return f"{interval} of the time" if ratio.is_difference else f"no difference measured: {interval}"


def _pairs(costs: Costs) -> str:
    pairs = [price.ratio.pairs for price in costs.prices if price.ratio is not None]
    if not pairs:
        return "too few or too uneven for a price"
    least, most = min(pairs), max(pairs)
    return f"{most if least == most else f'{least} to {most}'} times each"


def _row(price: Price) -> tuple[str, ...]:
    """Return the cells of a row: set, whether it repeats, time, throughput, interval of time, first step, memory."""
    repeats = {True: "yes", False: "no", None: "unknown"}[price.repeats]
    ratio, cells = price.ratio, ("1", "1", f"{price.step_seconds * 1000:.2f} ms")
    if price.not_measured:
        cells = "not measured", "", ""
    elif ratio is not None:
        interval = f"{ratio.low:.3f}–{ratio.high:.3f}{'' if ratio.is_difference else ' ='}"
        cells = f"{ratio.middle:.3f}", f"{1 / ratio.middle:.3f}", interval
    resources = f"{price.first_seconds * 1000:.1f}", f"{price.peak_bytes / 2**20:.0f}"
    return price.candidate.label, repeats, *cells, *resources


def _grouped(label: str, found: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return a row for each reason, with all names that it applies to; names without a reason have no row."""
    reasons = dict.fromkeys(reason for reason, _ in found if reason)
    return [(label, f"{', '.join(name for why, name in found if why == reason)}: {reason}") for reason in reasons]


def _command(candidate: Candidate, command: str) -> str:
    if not candidate.pins:
        # To samebits a script alone means `python` and the script; a shell needs both words.
        return f"python {command}" if command.split(" ", 1)[0].endswith(".py") else command
    if candidate.label == DEFAULT_SET:
        return f"samebits run {command}"
    return " ".join(["samebits run", *(f"--pin {word}" for word in candidate.words), command])


def _code(candidate: Candidate) -> str:
    if not candidate.pins:
        return "nothing to add"
    if candidate.label == DEFAULT_SET:
        return "samebits.pin(seed=0)"
    plain = [name for name in candidate.pins if candidate.settings[name].value is None]
    values = {name: candidate.settings[name].value for name in candidate.pins if name not in plain}
    given = f", values={json.dumps(values)}" if values else ""
    return f"samebits.pin(seed=0, factors={json.dumps(plain)}{given})"
