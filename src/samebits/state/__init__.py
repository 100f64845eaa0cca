"""The state of a whole training: written whole or not at all, and restored so that it ends in the same bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from samebits.base.lazy import lazily

if TYPE_CHECKING:
    from samebits.base.errors import StateError as StateError
    from samebits.base.errors import StateWarning as StateWarning
    from samebits.state.gradients import WaitingGradients as WaitingGradients
    from samebits.state.modes import preserved as preserved
    from samebits.state.parts import without as without
    from samebits.state.preemption import Preemption as Preemption
    from samebits.state.training import Training as Training

_EXPORTS = {
    "Preemption": "samebits.state.preemption",
    "StateError": "samebits.base.errors",
    "StateWarning": "samebits.base.errors",
    "Training": "samebits.state.training",
    "WaitingGradients": "samebits.state.gradients",
    "preserved": "samebits.state.modes",
    "without": "samebits.state.parts",
}

__all__ = [*_EXPORTS]
__getattr__, __dir__ = lazily(__name__, _EXPORTS)
