"""data-workers: how many processes a DataLoader fetches with."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from samebits.base.ranks import ALONE
from samebits.base.seeds import derive
from samebits.base.sites import Site, user_site
from samebits.factors.base import CallFactor
from samebits.factors.context import FactorContext, SiteKey, Witness, import_if_installed


class DataWorkers(CallFactor):
    """Another `num_workers` gives every sample other random numbers, and sometimes other bits without any.

    Workers have generators of their own, keep them from epoch to epoch when they are persistent, draw ahead by
    `prefetch_factor`, and compute with one thread. Pinned, every DataLoader gives each sample the generators that
    belong to (seed, epoch, index), and the order to (seed, epoch), as `samebits.data.DataLoader` does: the batches are
    the same bits for any number of workers, other ones than without the pin. The seed is that of the loader's
    `generator`, else of torch's global one, when the loader is first iterated; a script that never seeds torch needs
    `torch-rng` pinned as well. What a dataset itself carries from sample to sample no key can hold; `check` names the
    line. Varied, the number of workers is different. A loader of a class with an `__iter__` of its own that never
    asks torch's is left as it is.
    """

    name = "data-workers"
    summary = "a different num_workers gives augmentation different random numbers, so the batches change"
    explanation = "{what} fetches with a different number of workers"
    fix = "use samebits.data.DataLoader(..., seed=0) at {place}, which keys each sample by its index"
    pinned_by_default = False
    varies_between_runs = False
    priced = ("pinned",)
    needs = ("loader",)
    effects = ("as each DataLoader asks", "each sample keyed by its index", "another number of workers")
    library = "torch", "torch"

    def treat(self, context: FactorContext) -> None:
        context.when_loaded("torch.utils.data", lambda data: _Loaders(context).install(data.DataLoader))


_PINNED = "_pinned_by_samebits"


class _Loaders:
    """The DataLoaders that the program makes, each treated as the line that makes it."""

    def __init__(self, context: FactorContext) -> None:
        self.context = context
        self.made = itertools.count()
        self.tracers: dict[tuple[SiteKey, int], Callable[..., object]] = {}

    def install(self, loader: Any) -> None:
        """Replace the constructor and the iteration of DataLoader."""
        signature = inspect.signature(loader.__init__)

        def make(original: Callable[..., None], *args: object, **kwargs: object) -> None:
            if _is("epochs", "TorchLoader", args):
                original(*args, **kwargs)
                return
            mode = self.context.enter("DataLoader(...)")
            given = signature.bind(*args, **kwargs)
            if mode == "varied" or (mode == "pinned" and self.context.setting.probed):
                workers = _other_count(given.arguments.get("num_workers", 0), self.context.setting.variant)
                given.arguments |= {"num_workers": workers, **(_NO_WORKERS if workers == 0 else {})}
            original(*given.args, **given.kwargs)
            if mode == "pinned" and not _is("loader", "DataLoader", args):
                args[0].__dict__[_PINNED] = _Pinned(self, user_site(), next(self.made))

        def iterate(original: Callable[..., object], own: object) -> object:
            pinned = own.__dict__.get(_PINNED)
            if pinned is None or pinned.by is not self or self.context.ended:
                return original(own)
            return pinned.epochs_of(own).begin(own, ALONE)

        self.context.replace_method(loader, "__init__", make)
        self.context.replace_method(loader, "__iter__", iterate)
        if self.context.report is not None and self.context.mode == "pinned":
            self.context.set(_data("fetching").Fetcher, "tracer", staticmethod(self._look_on))

    def _look_on(self, fetcher: Any, fetch: Callable[[], object]) -> object:
        """Witness the program's own lines by which a sample depends on more than its index."""
        made_at: SiteKey | None = fetcher.label
        if made_at is None or self.context.ended:
            return fetch()
        # A line may make loaders of several datasets, each of which needs a tracer of its own.
        key = made_at, id(fetcher.dataset)
        if key not in self.tracers:
            self.tracers[key] = _data("line_tracer").SampleTracer(partial(self._seen, made_at))
        return self.tracers[key](fetch, fetcher.states, fetcher.dataset)

    def _seen(self, made_at: SiteKey, site: Site, changed: str | None) -> None:
        if self.context.report is None:
            return
        what = "drawn for a sample" if changed is None else f"{changed} changed from sample to sample"
        fix = "" if changed is None else f"make samples independent of {changed}"
        self.context.report(Witness(self.context.factor, site, what, within=made_at, fix=fix))


class _Pinned:
    """The state of one of the program's loaders while pinned; kept in the loader, so that both are freed together."""

    def __init__(self, by: _Loaders, site: Site | None, number: int) -> None:
        self.by, self.site, self.number = by, site, number
        self.epochs: object = None

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        # A loader that is pickled to another process is a plain one there.
        return type(None), ()

    def __deepcopy__(self, _: object) -> _Pinned:
        # A copy is another loader, with an order of its own.
        return _Pinned(self.by, self.site, next(self.by.made))

    def epochs_of(self, loader: Any) -> object:
        """Return the loader's epochs, made from the seed that is in effect when it is first iterated."""
        if self.epochs is None:
            generator = loader.generator
            root = sys.modules["torch"].initial_seed() if generator is None else generator.initial_seed()
            seed = derive(root, "loader", self.number) >> 1
            tail, label = "drop" if loader.drop_last else "keep", self.site and self.site.key
            self.epochs = _data("epochs").Epochs(loader.dataset, seed, tail, label=label)
        return self.epochs


def _data(module: str) -> Any:
    """Import and return a module of `samebits.data`, only when it is needed, because it imports torch."""
    return import_if_installed(f"samebits.data.{module}")


def _is(module: str, name: str, args: tuple[object, ...]) -> bool:
    """Whether the loader that is being made is one of ours."""
    loaded = sys.modules.get(f"samebits.data.{module}")
    return bool(args) and loaded is not None and isinstance(args[0], getattr(loaded, name))


# The defaults of options that torch refuses without workers.
_NO_WORKERS = {"prefetch_factor": None, "persistent_workers": False, "timeout": 0, "multiprocessing_context": None}


def _other_count(workers: int, variant: int) -> int:
    """Return another number of workers: for variant 1, 2 instead of 0 and else 0; for later variants, more."""
    if variant > 2 or (workers and variant == 2):
        return workers + variant
    return 0 if workers else 1 + variant
