"""Parts of torch that it imports at once and short trainings never use: read when something of one is needed.

They take half of the time of a short process, and the tests start thousands of those. The compiler waits as it does in
the runs that samebits makes. Once one part is needed, all are read, in the order in which torch reads them.
Kernels for tensors without data are read with the first decomposition; a script that has such tensors and nothing of
the kind finds those alone that torch has in C++.
"""

import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path
from types import ModuleType

COMPILER = "torch._dynamo"


class Late(ModuleType):
    def __getattr__(self, name):
        if type(self) is ModuleType or name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        read_all()
        return getattr(self, name)

    def become_real(self):
        self.__class__ = ModuleType
        self.__spec__.loader = self.__loader__ = self.__spec__.loader_state
        self.__loader__.exec_module(self)


class LateKernels(Late):
    """The part of them without which torch.Generator cannot be called is there at once."""

    def __init__(self, name):
        from torch._opaque_base import OpaqueBaseMeta

        super().__init__(name)
        inner = sys.modules["torch._C"]
        inner._set_generator_metaclass(OpaqueBaseMeta)
        # It would be called again when they are read.
        inner._set_generator_metaclass = lambda metaclass: None


KERNELS = "torch._meta_registrations"
# What reads them first.
READS_KERNELS = ("torch._decomp.decompositions", "torch._prims")
# In the order in which torch imports them.
LATE = {
    "torch.distributions": Late,
    "torch.export": Late,
    "torch.quantization": Late,
    KERNELS: LateKernels,
}


def read_all():
    for name in LATE:
        module = sys.modules.get(name)
        if isinstance(module, Late):
            module.become_real()


def can_wait_for_kernels():
    """Whether torch says what a generator wants of them, as older ones do not."""
    # The stand-in asks them for shapes.
    return hasattr(sys.modules["torch._C"], "_set_generator_metaclass") and "STANDIN_AS" not in os.environ


class Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname, path=None, target=None):
        if fullname == COMPILER or isinstance(sys.modules.get(fullname.rpartition(".")[0]), Late):
            read_all()
        kernels = sys.modules.get(KERNELS)
        if fullname in READS_KERNELS and isinstance(kernels, Late):
            kernels.become_real()
        if fullname not in LATE or (fullname == KERNELS and not can_wait_for_kernels()):
            return None
        spec = PathFinder.find_spec(fullname, path)
        spec.loader, spec.loader_state = self, spec.loader
        return spec

    def create_module(self, spec):
        return LATE[spec.name](spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Finder())
# By their paths: nobody has imported samebits yet.
house = find_spec("samebits")
if house is not None:
    imports, compiler = (
        run_path(str(Path(house.origin).parent / one)) for one in ("factors/imports.py", "agent/compiler.py")
    )
    compiler["read_when_needed"](imports["when_loaded"])
