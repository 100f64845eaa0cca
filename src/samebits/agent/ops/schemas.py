"""The schema of an operation, and facts that some schemas leave out."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from samebits.runfolder.ops import BUILTIN

# Operations that make memory without writing to it: what it holds is no result.
_UNINITIALIZED = ("empty", "new_empty", "resize", "_empty", "_efficientzerotensor")
# Operations that write to their first argument without reading it.
_WRITE_ONLY = {
    f"aten::{name}"
    for name in (
        *("copy_", "fill_", "zero_", "bernoulli_", "normal_", "uniform_", "random_", "exponential_", "geometric_"),
        *("cauchy_", "log_normal_", "_foreach_copy_", "_foreach_zero_"),
    )
}
# Views whose schema does not say so. `set_` makes its tensor a view of other memory, which may never have been written:
# only those who use the tensor read it. So does cuDNN with the weights of its recurrent nets, before they have values
# (torch/nn/modules/rnn.py: RNNBase.__init__).
_VIEWS = {
    "aten::_unsafe_view",
    "aten::_reshape_alias",
    "aten::lift_fresh",
    "aten::set_",
    "aten::_cudnn_rnn_flatten_weight",
}
# Running statistics, which are updated in place although the schema does not say so.
_HIDDEN_WRITES = {
    "aten::native_batch_norm": ("running_mean", "running_var"),
    "aten::cudnn_batch_norm": ("running_mean", "running_var"),
    "aten::miopen_batch_norm": ("running_mean", "running_var"),
}
# Results, by position, that may be memory that was never written: what kernels keep for their backward. Without
# dropout the seeds of attention are never written (flash_api.cpp: mha_fwd; attention.cu:
# _efficient_attention_forward; cudnn/MHA.cpp: run_cudnn_SDP_fprop); cuDNN and MIOpen promise nothing about the
# space that they reserve (cudnn/RNN.cpp: _cudnn_rnn; cudnn/BatchNorm.cpp: cudnn_batch_norm).
_SCRATCH_RESULTS = {
    "aten::_flash_attention_forward": (2, 3),
    "aten::_scaled_dot_product_flash_attention": (6, 7),
    "aten::_efficient_attention_forward": (2, 3),
    "aten::_scaled_dot_product_efficient_attention": (2, 3),
    "aten::_cudnn_attention_forward": (6, 7),
    "aten::_scaled_dot_product_cudnn_attention": (6, 7),
    "aten::_scaled_dot_product_fused_attention_overrideable": (6, 7),
    "aten::_cudnn_rnn": (3,),
    "aten::miopen_rnn": (3,),
    "aten::mkldnn_rnn_layer": (3,),
    "aten::cudnn_batch_norm": (3,),
    "aten::_batch_norm_with_update": (3,),
    "aten::_batch_norm_with_update_functional": (3,),
    "flash_attn::_flash_attn_forward": (3,),
    "flash_attn::_flash_attn_varlen_forward": (3,),
}
# Arguments by which these results are given to the backward.
_SCRATCH_ARGUMENTS = {"rng_state", "unused", "philox_seed", "philox_offset", "reserve", "reserveSpace"}
# Operations that neither make nor read bits: profiler marks, questions about sizes, wrapping of Python values.
_SILENT = ("profiler::", "prim::", "aten::sym_", "aten::is_", "aten::_has_compatible", "aten::record_stream")
# Operations that only give a tensor another name; autograd calls them for every gradient that it keeps.
_ONLY_NAMES = ("aten::detach", "aten::alias")


@dataclass(frozen=True)
class OpSchema:
    """The facts about one overload that recording needs."""

    name: str  # `aten::add_.Tensor`; the default overload has no suffix
    short: str  # `add_`
    arguments: tuple[str, ...]  # names of all arguments, in the order of positions
    writes: frozenset[str]  # arguments that it changes
    write_only: frozenset[str]  # arguments that it changes without reading them
    is_view: bool  # its results are views of its input
    is_random: bool  # it draws from a generator
    is_uninitialized: bool  # its results hold no values yet
    is_collective: bool  # its results are complete only after somebody waited for them
    is_silent: bool  # nothing to record
    is_builtin: bool  # torch itself has it, so it can be replayed in another process
    scratch: tuple[int, ...]  # results, by position, that may be memory that was never written: never compared
    non_blocking: int | None  # position of the argument that lets it return before it is done; None if it has none


# By id of the operation, which is kept with it: an operation's own hash is slow, being computed in Python.
_met: dict[int, tuple[object, OpSchema]] = {}


def schema_of(func: torch._ops.OpOverload) -> OpSchema:
    """Return the facts about an overload such as `torch.ops.aten.add.Tensor`."""
    met = _met.get(id(func))
    if met is None:
        met = _met[id(func)] = func, _read_schema(func)
    return met[1]


def _read_schema(func: torch._ops.OpOverload) -> OpSchema:
    schema = func._schema
    base, overload = schema.name, schema.overload_name
    short = base.partition("::")[2]
    arguments = schema.arguments
    names = tuple(argument.name for argument in arguments)
    writes = {a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write}
    write_only = {a.name for a in arguments if a.name in writes and a.kwarg_only and a.is_out}
    if base in _WRITE_ONLY:
        write_only.add(names[0])
    if base.startswith(("aten::", "flash_attn::")):
        write_only.update(_SCRATCH_ARGUMENTS.intersection(names))
    if base == "aten::mkldnn_rnn_layer_backward":
        write_only.add("workspace")
    if base == "fsdp::all_gather_copy_in":
        writes.add("all_gather_output")
        write_only.add("all_gather_output")
    writes.update(_HIDDEN_WRITES.get(base, ()))
    collective = base.startswith(("c10d::", "_c10d_functional::", "_c10d_functional_autograd::", "fsdp::"))
    collective = collective and short not in ("wait_tensor", "split_with_sizes_copy", "chunk_cat", "all_gather_copy_in")
    if collective and base.startswith("c10d::"):
        # Their schemas name no writes; an argument that is called an output holds nothing before the call.
        writes.update(name for name in names if "tensor" in name or name in ("output", "input"))
        write_only.update(name for name in names if "output" in name or (short.startswith("recv") and "tensor" in name))
    aliases = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    return OpSchema(
        name=f"{base}.{overload}" if overload else base,
        short=short,
        arguments=names,
        writes=frozenset(writes),
        write_only=frozenset(write_only),
        is_view=(aliases and not writes) or base in _VIEWS,
        is_random=torch.Tag.nondeterministic_seeded in func.tags,
        is_uninitialized=base.startswith("aten::") and short.startswith(_UNINITIALIZED),
        is_collective=collective,
        is_silent=base.startswith(_SILENT) or base in _ONLY_NAMES,
        is_builtin=base.partition("::")[0] in BUILTIN,
        scratch=_SCRATCH_RESULTS.get(base, ()),
        non_blocking=names.index("non_blocking") if "non_blocking" in names else None,
    )
