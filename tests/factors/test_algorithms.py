"""Factors that choose algorithms: settings arrive, are read back, and cost nothing where they cannot matter.

What they do to bits on a GPU is not shown here; attention on the CPU is.
"""

import os
import sys
from collections import Counter
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

import samebits
from samebits.agent.process_end import features_used
from samebits.base.errors import UsageError
from samebits.factors.catalog import find
from samebits.factors.context import FactorContext, Setting
from samebits.factors.torch_algorithms import FIRST_CALLS
from samebits.factors.triton_autotune import HOME
from tests.factors.contexts import treated, watched


def test_inductor_is_told_before_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Varied it forgets what was measured, and its cache stays; whether it measures is read off its configuration."""
    varied = find("inductor-autotune").environment(Setting("varied"), 0, {})
    assert varied == {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    factor, context = find("inductor-autotune"), FactorContext("inductor-autotune", Setting("pinned"))
    for deterministic, held in ((True, True), (False, False)):
        config: Any = SimpleNamespace(deterministic=deterministic)
        monkeypatch.setitem(sys.modules, "torch._inductor.config", config)
        assert factor.observe(context).held is held
    assert "before" in factor.verify(context)


def test_what_mkl_computes_is_called_by_one_thread_first() -> None:
    """Two that come first at once may be given kernels of different precision (pytorch/pytorch#188792)."""
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, record_shapes=True) as seen, treated("torch-algorithms", "pinned"):
        pass
    calls = Counter(event.name for event in seen.events() or () if event.input_shapes == [[1]])

    assert {calls[f"aten::{name}"] for name in FIRST_CALLS} == {2}


def attended() -> bytes:
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 4, 96, 32) for _ in range(3))
    return torch.nn.functional.scaled_dot_product_attention(query, key, value).numpy().tobytes()


def test_attention_takes_the_backend_that_is_pinned() -> None:
    """On the CPU flash and plain attention have other bits; the choice is given back."""
    free = attended()
    found = {}
    for backend in ("math", "flash"):
        with samebits.pinned(factors=[], values={"attention-backend": backend}, strict=True) as status:
            found[backend] = attended()
            assert status["attention-backend"].observation.value == backend
    with treated("attention-backend", "varied"):
        varied = attended()

    assert found["math"] != found["flash"] == free == attended()
    assert varied == found["math"]
    with pytest.raises(UsageError, match="attention-backend takes"):
        samebits.pin(factors=[], values={"attention-backend": "fast"})


def test_a_triton_kernel_has_one_configuration_to_choose_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pinned, the last varied, all of them left alone; the line that calls is witnessed."""

    class Autotuner:
        def prune_configs(self, kwargs: dict[str, Any]) -> list[str]:
            return ["small", "middle", "large"]

    module: Any = ModuleType(HOME)
    module.Autotuner = Autotuner
    monkeypatch.setitem(sys.modules, HOME, module)
    with watched("triton-autotune") as seen:
        alone = Autotuner().prune_configs({})
    found = []
    for mode in ("pinned", "varied"):
        with treated("triton-autotune", mode):  # type: ignore[arg-type]
            found.append(Autotuner().prune_configs({}))

    assert alone == Autotuner().prune_configs({}) == ["small", "middle", "large"]
    assert found == [["small"], ["large"]]
    assert [one.site is not None and one.site.path for one in seen] == [__file__]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("index_add_cuda_ does not have a deterministic implementation", "=warn lets it pass"),
        (
            "this operation is not deterministic because it uses CuBLAS and you have CUDA",
            "--pin cublas-workspace",
        ),
        ("shapes do not match", ""),
    ],
)
def test_what_the_pin_forbids_is_explained(message: str, told: str) -> None:
    """Both texts that torch has for it, and no other error."""
    why = find("torch-algorithms").explain(RuntimeError(message))

    assert told in why
    assert bool(why) == bool(told)


@pytest.mark.parametrize(("version", "is_set"), [("2.9.1+cu128", True), ("2.10.0", False), ("2.13.0+cpu", False)])
def test_an_older_torch_gets_the_workspace_it_asks_for(
    version: str, is_set: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to 2.9 the first product on a GPU raises without it."""
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setattr(torch, "__version__", version)
    with treated("torch-algorithms"):
        found = os.environ.get("CUBLAS_WORKSPACE_CONFIG")

    assert found == (":4096:8" if is_set else None)
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ


def test_what_a_program_used_is_asked_of_what_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here; ranks where a launcher says so. A device in use is of `tests/gpu`."""
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    plain = features_used()
    monkeypatch.setenv("WORLD_SIZE", "2")

    assert {"cuda", "accelerator", "ranks"}.isdisjoint(plain)
    assert "ranks" in features_used()
