"""What a killed run keeps comes back as it was, and saving it is no save of the program's."""

import pickle
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from samebits.agent.giving_back import _read, _write
from samebits.rng.handles import handle_of, process_generators
from samebits.rng.packing import PackingError


class Touches:
    """Runs when it is unpickled."""

    def __reduce__(self) -> object:
        return Path.touch, (Path("canary"),)


def test_states_come_back_bit_for_bit(tmp_path: Path) -> None:
    """Tensors of any dtype, also empty and of no dimension, within containers."""
    state = {
        "step": torch.tensor(3.0),
        "half": torch.tensor([1.5, -0.0, float("nan")], dtype=torch.bfloat16),
        "complex": torch.tensor([1j, 2.0]),
        "empty": torch.zeros(0, 2),
        "betas": (0.9, 0.1 + 0.2, float("inf")),
        "nested": [{"flags": torch.tensor([[True], [False]])}, None],
        0: -(2**70),
    }

    _write(tmp_path / "kept.json", state)
    back = _read(tmp_path / "kept.json")

    assert (back["step"], back["betas"], back["nested"][1], back[0]) == (3.0, state["betas"], None, -(2**70))
    assert back["half"].dtype == torch.bfloat16
    assert torch.equal(back["half"].view(torch.int16), state["half"].view(torch.int16))  # type: ignore[attr-defined]
    assert back["complex"].tolist() == [1j, 2.0]
    assert back["empty"].shape == (0, 2)
    assert back["nested"][0]["flags"].tolist() == [[True], [False]]


def test_generators_go_on_where_they_were_kept(tmp_path: Path) -> None:
    """Python's, NumPy's and torch's: the next draws are the same again, the half of a Gaussian pair included."""

    def draws() -> list[float]:
        return [random.random(), random.gauss(0, 1), np.random.standard_normal(), float(torch.randn(()))]

    draws()
    _write(tmp_path / "kept.json", {name: handle_of(one).state() for name, one in process_generators().items()})
    first = draws()
    kept = _read(tmp_path / "kept.json")
    for name, one in process_generators().items():
        handle_of(one).restore(kept[name])

    assert {"python", "numpy", "torch"} <= kept.keys()
    assert draws() == first


def test_nothing_that_was_kept_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file lies where others can write; a pickle there is no state, and an object of the program's is not kept."""
    monkeypatch.chdir(tmp_path)
    _write(tmp_path / "kept.json", {"step": 1})
    (tmp_path / "kept.json").write_bytes(pickle.dumps(Touches()))

    with pytest.raises(ValueError, match=r"decode|Expecting"):
        _read(tmp_path / "kept.json")
    with pytest.raises(PackingError):
        _write(tmp_path / "kept.json", {"step": Touches()})
    assert not (tmp_path / "canary").exists()
