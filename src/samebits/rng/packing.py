"""A state as plain data: tensors, numbers, strings, lists and dicts, which any loader of tensors reads back.

`torch.load(weights_only=True)` takes nothing else, and `torch.distributed.checkpoint` turns every key into a string. So
any other value is packed into a dict whose first key says what it was: `{"<tuple>": [1, 2]}`.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from samebits.bits.raw import memory

_PLAIN = (bool, float, str, type(None))
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)
_FACTORIES = {
    kind.__name__: kind for kind in (bool, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)
}
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
            are code, so they are packed as their names, by which `unpack` knows them again.
        way: the path to the value, for the error.

    Raises:
        PackingError: the value contains anything else, a subclass for example, which would come back as another type.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, torch.Tensor):
        return value.detach() if isinstance(value, torch.nn.Parameter) else value
    if kind is int:
        return value if -_SMALL <= value < _SMALL else {"<int>": str(value)}
    if kind is list:
        return [pack(item, f"{way}.{number}") for number, item in enumerate(value)]
    if kind is dict:
        return _packed_dict(value, way)
    return _packed_rest(value, way)


def unpack(plain: object, live: object = None, copies: bool = False) -> Any:
    """Return the value that `pack` turned into plain data.

    Args:
        plain: the data.
        live: the present value, which holds each function of the data where the packed one did.
        copies: whether to copy tensors, so that the caller may write to them.

    Raises:
        PackingError: a function or a class is not here, or the data was not made by `pack`.
    """
    if isinstance(plain, torch.Tensor):
        return plain.clone() if copies else plain
    if isinstance(plain, list):
        here = live if isinstance(live, (list, tuple, deque)) else ()
        return [unpack(item, one, copies) for item, one in zip(plain, chain(here, repeat(None)), strict=False)]
    if not isinstance(plain, dict):
        return plain
    tag = next(iter(plain), "")
    held = live if isinstance(live, dict) else {}
    if not tag.startswith("<"):
        return {key: unpack(item, held.get(key), copies) for key, item in plain.items()}
    content = plain[tag]
    if tag == "<function>":
        return _found(content, live)
    if tag == "<int keys>":
        return {int(key): unpack(item, held.get(int(key)), copies) for key, item in content.items()}
    if tag == "<dict>":
        return {(key := unpack(packed)): unpack(item, held.get(key), copies) for packed, item in content}
    reader = _READERS.get(tag)
    if reader is None:
        raise PackingError("", f"{tag} is unknown to this version of samebits")
    return reader(unpack(content, live, copies), plain)


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


def _packed_dict(value: dict[Any, object], way: str) -> dict[str, object]:
    kinds = set(map(type, value))
    if kinds <= {str} and not any(key.startswith("<") for key in value):
        return {key: pack(item, f"{way}.{key}" if way else key) for key, item in value.items()}
    if kinds == {int}:
        return {"<int keys>": {str(key): pack(item, f"{way}.{key}") for key, item in value.items()}}
    return {"<dict>": [[_without_place(key, way), pack(item, f"{way}.{key}")] for key, item in value.items()]}


def _without_place(value: object, way: str) -> Any:
    """Pack a key or the items of a set; PackingError for a function in it, which could not be found again."""
    packed = pack(value, f"{way} key")
    if any(inner.endswith("<function>") for inner, _ in leaves(packed)):
        raise PackingError(way, "a function is a key of a dict or an item of a set, where it cannot be found again")
    return packed


def _packed_rest(value: Any, way: str) -> dict[str, object]:
    kind = type(value)
    if kind in (tuple, torch.Size):
        return {"<size>" if kind is torch.Size else "<tuple>": pack(list(value), way)}
    if kind is deque:
        return {"<deque>": pack(list(value), way), "maxlen": value.maxlen}
    if kind in (set, frozenset):
        return {f"<{kind.__name__}>": _without_place(sorted(value, key=repr), way)}
    if kind is Counter:
        return {"<counter>": [[_without_place(key, way), pack(item, f"{way}.{key}")] for key, item in value.items()]}
    if kind is OrderedDict:
        return {"<ordered>": pack(dict(value), way)}
    if kind is defaultdict:
        return {"<defaultdict>": pack(dict(value), way), "factory": _factory_name(value.default_factory, way)}
    if kind in (bytes, bytearray):
        return {f"<{kind.__name__}>": _tensor_of(bytes(value))}
    if kind is complex:
        return {"<complex>": [value.real, value.imag]}
    if kind in (torch.dtype, torch.device):
        return {f"<{kind.__name__}>": str(value).removeprefix("torch.")}
    if kind in _FUNCTIONS:
        return {"<function>": _name_of(value)}
    if issubclass(kind, tuple) and _named_tuple(_name_of(kind)) is kind:
        return {"<named tuple>": pack(list(value), way), "class": _name_of(kind)}
    numpy = sys.modules.get("numpy")
    if numpy is not None and (kind is numpy.ndarray or isinstance(value, numpy.generic)):
        return _packed_array(numpy, value, way)
    raise PackingError(way, f"a {kind.__module__}.{kind.__qualname__} is neither tensor, number nor text")


def _factory_name(factory: Any, way: str) -> str | None:
    name = None if factory is None else getattr(factory, "__name__", "")
    if name is not None and _FACTORIES.get(name) is not factory:
        raise PackingError(way, f"a defaultdict that calls {factory!r}, which is no type of Python's own")
    return name


def _packed_array(numpy: ModuleType, value: Any, way: str) -> dict[str, object]:
    if value.dtype.hasobject:
        raise PackingError(way, f"an array of dtype {value.dtype} holds objects")
    if numpy.dtype(value.dtype.str) != value.dtype:
        raise PackingError(way, f"an array of dtype {value.dtype} would come back as {value.dtype.str}")
    data = _tensor_of(numpy.ascontiguousarray(value).tobytes())
    is_scalar = isinstance(value, numpy.generic)
    return {"<array>": data, "dtype": value.dtype.str, "shape": list(value.shape), "scalar": is_scalar}


def _tensor_of(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


def bytes_of(tensor: torch.Tensor) -> bytes:
    """Return the bytes of a tensor on any device."""
    host = tensor.cpu().contiguous()
    return bytes(memory(host.data_ptr(), host.nbytes)) if host.nbytes else b""


def _array_of(data: torch.Tensor, plain: dict[str, Any]) -> object:
    import numpy

    array = numpy.frombuffer(bytes_of(data), dtype=plain["dtype"]).reshape(plain["shape"])
    return array[()] if plain["scalar"] else array.copy()


def _name_of(code: Any) -> str:
    return f"{code.__module__}.{code.__qualname__}"


def _found(name: str, live: Any) -> object:
    if not isinstance(live, _FUNCTIONS) or _name_of(live) != name:
        raise PackingError("", f"it was saved with the function {name}, which is not in use here")
    return live


def _named_tuple(name: str) -> Any:
    """Return the class of named tuples that a loaded module has under a name; None if there is none. No code runs."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        found: Any = sys.modules.get(".".join(parts[:count]))
        if found is not None:
            for part in parts[count:]:
                found = getattr(found, "__dict__", {}).get(part)
            return found if isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields") else None
    return None


def _tuple_of(items: list[object], plain: dict[str, Any]) -> object:
    kind = _named_tuple(plain["class"])
    if kind is None or len(kind._fields) != len(items):
        raise PackingError("", f"it was saved with the named tuple {plain['class']}, which is not here")
    # No code of the class runs.
    return tuple.__new__(kind, items)


# Tag → what makes the value of its content, which is unpacked already, and of the whole of the data.
_READERS: dict[str, Callable[[Any, dict[str, Any]], object]] = {
    "<int>": lambda text, _: int(text),
    "<float>": lambda number, _: number,
    "<counter>": lambda pairs, _: Counter(dict(pairs)),
    "<ordered>": lambda items, _: OrderedDict(items),
    "<defaultdict>": lambda items, plain: defaultdict(_FACTORIES.get(plain["factory"]), items),
    "<size>": lambda items, _: torch.Size(items),
    "<tuple>": lambda items, _: tuple(items),
    "<named tuple>": _tuple_of,
    "<deque>": lambda items, plain: deque(items, plain["maxlen"]),
    "<set>": lambda items, _: set(items),
    "<frozenset>": lambda items, _: frozenset(items),
    "<bytes>": lambda data, _: bytes_of(data),
    "<bytearray>": lambda data, _: bytearray(bytes_of(data)),
    "<complex>": lambda parts, _: complex(*parts),
    "<dtype>": lambda name, _: getattr(torch, name),
    "<device>": lambda name, _: torch.device(name),
    "<array>": _array_of,
}
