"""Modules within a module."""

import torch

from samebits.base.modules import inner_modules


def test_modules_are_walked_as_torch_walks_them() -> None:
    """Each once, under its first name, also where one is shared or missing."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    model.add_module("again", model[1][0])
    model.add_module("none", None)
    found = inner_modules(model)

    assert [(name, id(one)) for name, one in found] == [(name, id(one)) for name, one in model.named_modules()]
