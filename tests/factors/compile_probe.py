"""torch.jit and torch.compile in a process of their own, because they look torch's functions up once."""

import warnings

import torch

import samebits
from samebits.factors.context import Setting, Witness
from samebits.factors.pinning import treat

warnings.simplefilter("ignore")


def make(n: int):  # type: ignore[no-untyped-def]
    return torch.empty(n), torch.empty_like(torch.ones(2)), torch.ones(2).new_empty([2])


def scripted() -> None:
    assert torch.jit.script(make)(3)[0].shape == (3,)
    torch.jit._state._clear_class_state()
    torch._C._jit_clear_class_registry()
    torch.jit._state._jit_caching_layer.clear()


def compiled(backend: str) -> None:
    def add(x: torch.Tensor) -> torch.Tensor:
        return torch.empty(3).fill_(2) + torch.empty_like(x).zero_() + x.new_empty(3).zero_() + x

    torch._dynamo.reset()
    assert torch.compile(add, backend=backend, fullgraph=True)(torch.ones(3)).tolist() == [3, 3, 3]


def watched() -> None:
    def drop(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x)

    seen: list[Witness] = []
    treatment = treat({"torch-rng": Setting("pinned")}, 0, report=seen.append)
    torch._dynamo.reset()
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    torch.compile(drop, backend="aot_eager", fullgraph=True)(torch.ones(3))
    treatment.undo()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before + 1
    # Compiled code has one line: that of its function.
    assert [w.site and w.site.line for w in seen if w.factor == "torch-rng"] == [drop.__code__.co_firstlineno]


with samebits.pinned(factors=["uninitialized-memory"]):
    scripted()
    compiled("aot_eager")
    with samebits.pinned(factors=["uninitialized-memory"]):
        scripted()
        compiled("eager")
scripted()
compiled("eager")
with samebits.pinned(factors=["uninitialized-memory"]):
    scripted()
    compiled("eager")
watched()
