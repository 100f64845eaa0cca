"""Names that programs number anew in every run: of folders for logs, and of the files in them."""

from __future__ import annotations

import re

_VERSIONED = (
    # Lightning: `lightning_logs/version_3`, and `v_num: 3.000` in its progress bar.
    (re.compile(r"\bversion_\d+"), "version_*"),
    # `last-v1.ckpt` where there is a `last.ckpt`.
    (re.compile(r"-v\d+(?=\.ckpt\b)"), ""),
    (re.compile(r"\bv_num(\W+)[\d.e+-]+"), r"v_num\1*"),
    # TensorBoard's, and what transformers puts them in: `runs/Nov22_14-32-47_host/events.out.tfevents.1795….host.71.0`.
    (re.compile(r"\b[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_[\w.-]+"), "*"),
    (re.compile(r"\bevents\.out\.tfevents\.[\w.-]+"), "events.out.tfevents.*"),
)


def without_version(text: str) -> str:
    """The text without what makes each run's names its own.

    >>> without_version("lightning_logs/version_3/metrics.csv")
    'lightning_logs/version_*/metrics.csv'
    """
    for pattern, instead in _VERSIONED:
        text = pattern.sub(instead, text)
    return text
