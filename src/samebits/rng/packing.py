"""A state as plain data: tensors, numbers, strings, lists and dicts, which any loader of tensors reads back.

`torch.load(weights_only=True)` takes nothing else, and `torch.distributed.checkpoint` turns every key into a string. So
any other value is packed into a dict whose first key says what it was: `{"<tuple>": [1, 2]}`.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from samebits.bits.raw import memory

Functions = Mapping[str, Callable[..., object]]

_PLAIN = (bool, float, str, type(None))
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)
# Integers below it are no long ones in a pickle, and fit into 64 bits for other readers.
_SMALL = 1 << 63


class PackingError(ValueError):
    """A value that cannot be packed or unpacked.

    Attributes:
        way: the path to the value, such as `state.0.momentum`.
        reason: why it cannot.
    """

    def __init__(self, way: str, reason: str) -> None:
        super().__init__(f"{way}: {reason}" if way else reason)
        self.way, self.reason = way, reason


def pack(value: Any, way: str = "") -> Any:
    """Return a value as plain data; tensors are not copied.

    Args:
        value: tensors, numbers, text, NumPy's arrays, and lists, tuples, dicts, sets and the like of them. Functions
            are code, so they are packed as their names, by which `unpack` finds them again.
        way: the path to the value, for the error.

    Raises:
        PackingError: the value contains anything else.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, torch.Tensor):
        return value.detach() if isinstance(value, torch.nn.Parameter) else value
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value) if -_SMALL <= value < _SMALL else {"<int>": str(int(value))}
    if kind is list:
        return [pack(item, f"{way}.{number}") for number, item in enumerate(value)]
    if isinstance(value, Mapping):
        return _packed_mapping(value, way)
    return _packed_rest(value, way)


def unpack(plain: object, functions: Functions | None = None, copies: bool = False) -> Any:
    """Return the value that `pack` turned into plain data.

    Args:
        plain: the data.
        functions: name → function, for the functions that the data may contain.
        copies: whether to copy tensors, so that the caller may write to them.

    Raises:
        PackingError: a function is unknown, or the data was not made by `pack`.
    """
    if isinstance(plain, torch.Tensor):
        return plain.clone() if copies else plain
    if isinstance(plain, list):
        return [unpack(item, functions, copies) for item in plain]
    if not isinstance(plain, dict):
        return plain
    tag = next(iter(plain), "")
    if not tag.startswith("<"):
        return {key: unpack(item, functions, copies) for key, item in plain.items()}
    if tag == "<function>":
        return _found(plain[tag], functions or {})
    reader = _READERS.get(tag)
    if reader is None:
        raise PackingError("", f"{tag} is unknown to this version of samebits")
    return reader(plain, lambda item: unpack(item, functions, copies))


def leaves(plain: object, way: str = "") -> Iterator[tuple[str, Any]]:
    """The paths and values of all leaves of packed data, which are neither dict nor list, or an empty one."""
    if isinstance(plain, dict) and plain:
        for key, item in plain.items():
            yield from leaves(item, f"{way}.{key}" if way else key)
    elif isinstance(plain, list) and plain:
        for number, item in enumerate(plain):
            yield from leaves(item, f"{way}.{number}")
    else:
        yield way, plain


def functions_in(value: object) -> dict[str, Callable[..., object]]:
    """Return the functions in a state, by name."""
    if isinstance(value, Mapping):
        items: Iterable[object] = value.values()
    elif isinstance(value, (list, tuple)):
        items = value
    else:
        return {_name_of(value): value} if isinstance(value, _FUNCTIONS) else {}
    return {name: function for item in items for name, function in functions_in(item).items()}


def _packed_mapping(value: Mapping[Any, object], way: str) -> dict[str, object]:
    if isinstance(value, Counter):
        return {"<counter>": _pairs(value, way)}
    kinds = set(map(type, value))
    if kinds <= {str} and not any(key.startswith("<") for key in value):
        return {key: pack(item, f"{way}.{key}" if way else key) for key, item in value.items()}
    if kinds == {int}:
        return {"<int keys>": {str(key): pack(item, f"{way}.{key}") for key, item in value.items()}}
    return {"<dict>": _pairs(value, way)}


def _pairs(value: Mapping[object, object], way: str) -> list[object]:
    return [[pack(key, f"{way} key"), pack(item, f"{way}.{key}")] for key, item in value.items()]


def _packed_rest(value: object, way: str) -> dict[str, object]:
    if isinstance(value, torch.Size):
        return {"<size>": list(value)}
    if isinstance(value, tuple):
        return {"<tuple>": pack(list(value), way)}
    if isinstance(value, deque):
        return {"<deque>": pack(list(value), way), "maxlen": value.maxlen}
    if isinstance(value, (set, frozenset)):
        return {"<set>": pack(sorted(value, key=repr), way)}
    if isinstance(value, (bytes, bytearray)):
        return {"<bytes>": _tensor_of(bytes(value))}
    if isinstance(value, complex):
        return {"<complex>": [value.real, value.imag]}
    if isinstance(value, (torch.dtype, torch.device)):
        return {f"<{type(value).__name__}>": str(value).removeprefix("torch.")}
    if isinstance(value, _FUNCTIONS):
        return {"<function>": _name_of(value)}
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _packed_array(numpy, value, way)
    if isinstance(value, float):
        return {"<float>": float(value)}
    raise PackingError(way, f"a {type(value).__module__}.{type(value).__qualname__} is neither tensor, number nor text")


def _packed_array(numpy: ModuleType, value: Any, way: str) -> dict[str, object]:
    if value.dtype.hasobject:
        raise PackingError(way, f"an array of dtype {value.dtype} holds objects")
    data = _tensor_of(numpy.ascontiguousarray(value).tobytes())
    is_scalar = isinstance(value, numpy.generic)
    return {"<array>": data, "dtype": value.dtype.str, "shape": list(value.shape), "scalar": is_scalar}


def _tensor_of(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


def bytes_of(tensor: torch.Tensor) -> bytes:
    """Return the bytes of a tensor on any device."""
    host = tensor.cpu().contiguous()
    return bytes(memory(host.data_ptr(), host.nbytes)) if host.nbytes else b""


def _array_of(plain: dict[str, Any], _: object) -> object:
    import numpy

    array = numpy.frombuffer(bytes_of(plain["<array>"]), dtype=plain["dtype"]).reshape(plain["shape"])
    return array[()] if plain["scalar"] else array.copy()


def _name_of(function: Callable[..., object]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _found(name: str, functions: Functions) -> Callable[..., object]:
    if name not in functions:
        raise PackingError("", f"it was saved with the function {name}, which is not in use here")
    return functions[name]


Reader = Callable[[dict[str, Any], Callable[[object], Any]], object]
_READERS: dict[str, Reader] = {
    "<int>": lambda plain, _: int(plain["<int>"]),
    "<float>": lambda plain, _: plain["<float>"],
    "<int keys>": lambda plain, inner: {int(key): inner(item) for key, item in plain["<int keys>"].items()},
    "<dict>": lambda plain, inner: {inner(key): inner(item) for key, item in plain["<dict>"]},
    "<counter>": lambda plain, inner: Counter({inner(key): inner(item) for key, item in plain["<counter>"]}),
    "<size>": lambda plain, _: torch.Size(plain["<size>"]),
    "<tuple>": lambda plain, inner: tuple(map(inner, plain["<tuple>"])),
    "<deque>": lambda plain, inner: deque(map(inner, plain["<deque>"]), plain["maxlen"]),
    "<set>": lambda plain, inner: set(map(inner, plain["<set>"])),
    "<bytes>": lambda plain, _: bytes_of(plain["<bytes>"]),
    "<complex>": lambda plain, _: complex(*plain["<complex>"]),
    "<dtype>": lambda plain, _: getattr(torch, plain["<dtype>"]),
    "<device>": lambda plain, _: torch.device(plain["<device>"]),
    "<array>": _array_of,
}
