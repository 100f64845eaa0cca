"""What a digest asks of an accelerator: kernels launched and bytes moved, for the tensors of well-known models.

    python benchmarks/launches.py

Counted, not timed, and on no accelerator: the same operations run on the `meta` device, which computes nothing, under a
mode that sees each of them go by. The model of the count: an operation that is no view is one launch. A foreach copy
takes 64 tensors or 320 chunks of 65,536 elements a launch, where all have one dtype and the strides of their places,
else a launch a tensor (ATen/native/cuda/MultiTensorApply.cuh: depth_to_max_tensors, depth_to_max_blocks, kChunkSize;
ForeachBinaryOpList.cu: foreach_tensor_copy_list_kernel_cuda_). A one-dimensional cumsum is two launches, a cat one for
every 128 tensors. Bytes are those of every operand once; what is broadcast counts as large as it lies in memory.
"""

import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from samebits.bits.digest.sums import sums_of

MB = 1e6


def resnet50(channels_last=False):
    """Its parameters, and its buffers."""
    shapes, buffers = [(64, 3, 7, 7), (64,), (64,)], [(64,), (64,), ()]
    inside = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            convolutions = [(width, inside, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1)]
            if block == 0:
                convolutions.append((4 * width, inside, 1, 1))
            for shape in convolutions:
                shapes += [shape, shape[:1], shape[:1]]
                buffers += [shape[:1], shape[:1], ()]
            inside = 4 * width
    shapes += [(1000, 2048), (1000,)]
    return [made(shape, channels_last=channels_last) for shape in shapes], [
        made(shape, torch.float32 if shape else torch.int64) for shape in buffers
    ]


def gpt2_medium():
    """Its parameters; the output layer is the embedding."""
    layer = [(1024,), (1024,), (1024, 3072), (3072,), (1024, 1024), (1024,)]
    layer += [(1024,), (1024,), (1024, 4096), (4096,), (4096, 1024), (1024,)]
    return [made(shape) for shape in [(50257, 1024), (1024, 1024), *24 * layer, (1024,), (1024,)]], []


def made(shape, dtype=torch.float32, channels_last=False):
    tensor = torch.empty(shape, dtype=dtype, device="meta")
    return tensor.to(memory_format=torch.channels_last) if channels_last and len(shape) == 4 else tensor


class Counter(TorchDispatchMode):
    """Launches and bytes of whatever runs inside, and the largest tensor made there."""

    def __init__(self):
        super().__init__()
        self.launches = self.bytes = self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        is_view = any(one.alias_info and not one.alias_info.is_write for one in func._schema.returns)
        if is_view or name.startswith("empty") or name in ("_unsafe_view", "_reshape_alias"):
            if name.startswith("empty"):
                self.largest = max(self.largest, bytes_of(result))
            return result
        operands = list(tensors_in([args, list((kwargs or {}).values())]))
        self.launches += launches_of(name, args)
        known = {id(one) for one in operands}
        made_here = [bytes_of(one) for one in tensors_in(result) if id(one) not in known]
        self.bytes += sum(map(bytes_of, operands)) + sum(made_here)
        self.largest = max([self.largest, *made_here])
        if name.endswith("_") and name not in ("zero_", "fill_", "copy_", "_foreach_copy_", "index_fill_"):
            self.bytes += bytes_of(args[0])
        return result


def launches_of(name, args):
    if name == "_foreach_copy_":
        places, values = args[0], args[1]
        alike = len({t.dtype for t in [*places, *values]}) == 1
        alike &= all(place.stride() == value.stride() for place, value in zip(places, values, strict=True))
        chunks = sum(math.ceil(t.numel() / 65536) for t in values)
        return max(math.ceil(len(values) / 64), math.ceil(chunks / 320)) if alike else len(values)
    if name == "cumsum_" or name == "cumsum":
        return 2
    return math.ceil(len(args[0]) / 128) if name in ("cat", "stack") else 1


def tensors_in(thing):
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, list | tuple):
        for one in thing:
            yield from tensors_in(one)


def bytes_of(tensor):
    lies = [size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride]
    return math.prod(lies) * tensor.itemsize


def counted(*lists):
    """A digest of each list; the second time, since keys are uploaded once."""
    with torch.inference_mode():
        for _ in range(2):
            with Counter() as counter:
                for tensors in lists:
                    sums_of(tensors)
    return counter


def main():
    columns = f"{'tensors':>8}{'MB':>9}{'launches':>10}{'MB moved':>10}{'passes':>8}"
    print(f"{'one step: gradients, parameters, buffers':<44}{columns}")
    models = {
        "ResNet-50": resnet50(),
        "ResNet-50, channels_last": resnet50(channels_last=True),
        "GPT-2 medium": gpt2_medium(),
    }
    for name, (parameters, buffers) in models.items():
        lists = [parameters, parameters, *([buffers] if buffers else [])]
        size = sum(t.nbytes for tensors in lists for t in tensors)
        row(name, sum(map(len, lists)), size, counted(*lists))
    print()
    for name, tensor in (
        ("one result: (128, 256, 56, 56) float32", made((128, 256, 56, 56))),
        ("one result: (64, 1000) bfloat16", made((64, 1000), torch.bfloat16)),
        ("one result: (8, 1024, 1024) bfloat16", made((8, 1024, 1024), torch.bfloat16)),
        ("one result: (8, 16, 1024, 64), transposed", made((8, 1024, 16, 64)).transpose(1, 2)),
    ):
        row(name, 1, tensor.nbytes, counted([tensor]))


def row(name, count, size, counter):
    passes = counter.bytes / size
    print(f"{name:<44}{count:>8}{size / MB:>9.1f}{counter.launches:>10}{counter.bytes / MB:>10.1f}{passes:>8.1f}")


if __name__ == "__main__":
    main()
