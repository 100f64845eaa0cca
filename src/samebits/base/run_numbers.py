"""Log folders and files whose names contain a number or a time that is new in every run."""

from __future__ import annotations

import re

_VERSIONED = (
    # Lightning: `lightning_logs/version_3`, and `v_num: 3.000` in its progress bar.
    (re.compile(r"\bversion_\d+"), "version_*"),
    # Lightning writes `last-v1.ckpt` where `last.ckpt` exists.
    (re.compile(r"-v\d+(?=\.ckpt\b)"), ""),
    (re.compile(r"\bv_num(\W+)[\d.e+-]+"), r"v_num\1*"),
    # TensorBoard's files in transformers' folders: `runs/Nov22_14-32-47_host/events.out.tfevents.1795….host.71.0`.
    (re.compile(r"\b[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_[\w.-]+"), "*"),
    (re.compile(r"\bevents\.out\.tfevents\.[\w.-]+"), "events.out.tfevents.*"),
)


def without_run_number(text: str) -> str:
    """Return a text in which the numbers and times that are new in every run are replaced by `*` or removed.

    >>> without_run_number("lightning_logs/version_3/metrics.csv")
    'lightning_logs/version_*/metrics.csv'
    """
    for pattern, replacement in _VERSIONED:
        text = pattern.sub(replacement, text)
    return text
