"""The functions that trace for TorchScript and the old ONNX exporter: no dispatch mode may be on within them.

Under any mode, even one that does nothing, a trace of `net(x) + 1` fails: a tensor that stands for a number comes to
the mode as a number, which operators do not take back as a tensor.
"""

from __future__ import annotations

import sys
from typing import Any


def tracers() -> list[tuple[Any, str]]:
    """Return owner and name of each of these functions that the imported torch has."""
    owner: Any = sys.modules["torch"].jit
    return [(owner, name) for name in ("trace", "trace_module", "_get_trace_graph") if hasattr(owner, name)]
