"""`torch._dynamo`, read when something of it is needed.

An optimizer imports torch's compiler to mark where it must stop, also where nobody compiles: half of the time that a
short process takes. The tests start thousands of those. Until more is asked of it, this module answers those two calls
as they work while nothing is compiled; then it becomes the real one.
"""

import functools
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from types import ModuleType

NAME = "torch._dynamo"


class Late(ModuleType):
    def graph_break(self, msg=""):
        pass

    def disable(self, fn=None, recursive=True, **options):
        """Out of the compiler's sight, from when there is one."""
        if fn is None:
            return functools.partial(self.disable, recursive=recursive, **options)

        @functools.wraps(fn)
        def disabled(*args, **kwargs):
            if type(self) is Late:
                return fn(*args, **kwargs)
            if not hasattr(disabled, "real"):
                disabled.real = self.disable(fn, recursive, **options)
            return disabled.real(*args, **kwargs)

        return disabled

    def __getattr__(self, name):
        if type(self) is not Late or name.startswith("__"):
            raise AttributeError(f"module {NAME!r} has no attribute {name!r}")
        self.become_real()
        return getattr(self, name)

    def become_real(self):
        self.__class__ = ModuleType
        self.__spec__.loader = self.__loader__ = self.__spec__.loader_state
        self.__loader__.exec_module(self)


class Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname, path=None, target=None):
        if fullname.startswith(f"{NAME}.") and type(sys.modules[NAME]) is Late:
            sys.modules[NAME].become_real()
        if fullname != NAME:
            return None
        spec = PathFinder.find_spec(fullname, path)
        spec.loader, spec.loader_state = self, spec.loader
        return spec

    def create_module(self, spec):
        return Late(NAME)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Finder())
