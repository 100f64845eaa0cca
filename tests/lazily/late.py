"""Parts of torch that it imports at once and short trainings never use: read when something of one is needed.

They are half of the time that a short process takes, and the tests start thousands of those. An optimizer imports the
compiler to mark where it must stop, also where nobody compiles: until more is asked of it, those two calls are answered
as they work while nothing is compiled. Once one part is needed, all are read, in the order in which torch reads them.
Kernels for tensors without data are read with the first decomposition; a script that has such tensors and nothing of
the kind finds those alone that torch has in C++.
"""

import functools
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from types import ModuleType


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


class LateCompiler(Late):
    def graph_break(self, msg=""):
        pass

    def disable(self, fn=None, recursive=True, **options):
        """Out of the compiler's sight, from when there is one."""
        if fn is None:
            return functools.partial(self.disable, recursive=recursive, **options)

        @functools.wraps(fn)
        def disabled(*args, **kwargs):
            if isinstance(self, Late):
                return fn(*args, **kwargs)
            if not hasattr(disabled, "real"):
                disabled.real = self.disable(fn, recursive, **options)
            return disabled.real(*args, **kwargs)

        return disabled


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
    "torch._dynamo": LateCompiler,
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
        if isinstance(sys.modules.get(fullname.rpartition(".")[0]), Late):
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
