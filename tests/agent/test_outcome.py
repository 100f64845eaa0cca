"""What a result holds at one path, in words."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import samebits
from samebits.agent.result_digests import digests_of_reachable, digests_of_result, shown_at

ROOT = "what was returned"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (torch.tensor([0.1, -0.0, float("nan")]), "float32 of shape (3,), 0.100000001, -0, nan"),
        (torch.tensor(0.1, dtype=torch.float64), "float64 of shape (), 0.10000000000000001"),
        (torch.arange(6).reshape(2, 3), "int64 of shape (2, 3), 0, 1, 2, 3 …"),
        (torch.tensor([1 + 2j]), "complex64 of shape (1,), 1+2j"),
        (torch.nn.Parameter(torch.ones(1)), "float32 of shape (1,), 1"),
        (torch.eye(2).to_sparse(), "float32 of shape (2, 2)"),
        (torch.zeros(0, 3), "float32 of shape (0, 3)"),
        (np.array([True, False]), "bool of shape (2,), True, False"),
        (np.array([1, 2], dtype=np.longdouble), f"{np.dtype(np.longdouble)} of shape (2,)"),
        (0.1, "0.1"),
        (None, "None"),
        ("a text", ""),
    ],
)
def test_what_is_there_is_shown(value: object, shown: str) -> None:
    """Dtype, shape and the first values, with as many digits as tell each number from its neighbours."""
    if shown.startswith("float64") and isinstance(value, np.ndarray):
        pytest.skip("here a long double is a double")

    assert shown_at([value], f"{ROOT}[0]") == shown


def test_every_path_of_a_result_can_be_asked_for() -> None:
    """Members of sets have a digest there and nothing that could be shown."""
    result = {"model": torch.nn.Linear(2, 1), "set": {1, 2}}
    paths = digests_of_result(result)

    assert {path: shown_at(result, path).partition(",")[0] for path in paths} == {
        f"{ROOT}.model.weight": "float32 of shape (1",
        f"{ROOT}.model.bias": "float32 of shape (1",
        f"{ROOT}.set{{0}}": "",
        f"{ROOT}.set{{1}}": "",
    }
    assert shown_at(result, f"{ROOT}.other") == ""


model = torch.nn.Linear(1, 1)


def test_an_attribute_is_no_global_of_its_name() -> None:
    """Here `args.model` is read, a `model` of the function around, and a global that is read, too."""

    class Arguments:
        model = "a name"

    def outer(model: torch.nn.Module) -> Any:
        return lambda args: (args.model, model)

    def plain(args: Arguments) -> object:
        return args.model, model

    assert list(digests_of_reachable(outer(torch.nn.Linear(2, 1)), [], {})) == ["model.weight", "model.bias"]
    assert list(digests_of_reachable(plain, [], {})) == ["model.weight", "model.bias"]
    assert list(digests_of_reachable(lambda args: args.model, [], {})) == []


def test_looking_is_no_operation_of_the_program(tmp_path: Path) -> None:
    """A recording holds the same with it as without, and another operation is seen."""
    tensor = torch.ones(2, 3)
    for name, look in (("without", str), ("with", lambda one: shown_at(one, ROOT)), ("other", torch.neg)):
        with samebits.record(tmp_path / name, level="op"):
            tensor.mul(2)
            look("" if name == "without" else tensor)

    assert samebits.compare(tmp_path / "without", tmp_path / "with").same
    assert not samebits.compare(tmp_path / "without", tmp_path / "other").same
