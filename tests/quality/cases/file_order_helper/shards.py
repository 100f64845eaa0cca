"""Reading a folder of shards, one JSON list of numbers each."""

import json
from pathlib import Path


def read(folder, arrange=list):
    """The shards of a folder, in the order `arrange` gives their paths."""
    paths = arrange(Path(folder).iterdir())  # <- file-order
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]
