"""What a killed run keeps comes back as it was, and saving it is no save of the program's."""

import pickle
import random

import numpy as np
import torch

from samebits.agent.giving_back import _generators, _packed, _unpacked


def test_states_come_back_bit_for_bit() -> None:
    """Tensors of any dtype, also empty and of no dimension, within containers; pickled without `torch.save`."""
    state = {
        "step": torch.tensor(3.0),
        "half": torch.tensor([1.5, -0.0, float("nan")], dtype=torch.bfloat16),
        "empty": torch.zeros(0, 2),
        "betas": (0.9, 0.999),
        "nested": [{"flags": torch.tensor([[True], [False]])}, None],
    }

    back = _unpacked(pickle.loads(pickle.dumps(_packed(state))))

    assert (back["step"], back["betas"], back["nested"][1]) == (3.0, (0.9, 0.999), None)
    assert back["half"].dtype == torch.bfloat16
    assert torch.equal(back["half"].view(torch.int16), state["half"].view(torch.int16))  # type: ignore[union-attr]
    assert back["empty"].shape == (0, 2)
    assert back["nested"][0]["flags"].tolist() == [[True], [False]]


def test_generators_go_on_where_they_were_kept() -> None:
    """Python's, NumPy's and torch's: the next draws are the same again, the half of a Gaussian pair included."""

    def draws() -> list[float]:
        return [random.random(), random.gauss(0, 1), np.random.standard_normal(), float(torch.randn(()))]

    draws()
    kept = {name: _packed(handle.state()) for name, handle in _generators().items()}
    first = draws()
    for name, handle in _generators().items():
        handle.restore(_unpacked(pickle.loads(pickle.dumps(kept[name]))))

    assert {"python", "numpy", "torch"} <= kept.keys()
    assert draws() == first
