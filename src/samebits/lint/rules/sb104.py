"""One library's generator is seeded, and another's is drawn from.

Each library has a generator of its own. With torch seeded alone, augmentations by NumPy or Python differed in each of
six runs.

    torch.manual_seed(0)
    noise = np.random.normal(size=8)
    batch = torch.randn(8)

Seed each that is drawn from:

    torch.manual_seed(0)
    np.random.seed(0)
    noise = np.random.normal(size=8)
    batch = torch.randn(8)
"""

from collections.abc import Iterator

from samebits.lint.findings import Finding
from samebits.lint.project import Project, argument, class_around, draws_in
from samebits.lint.rule import Rule
from samebits.lint.source import Source

_NAMES = {"numpy": "NumPy's global generator", "random": "Python's generator", "torch": "torch's generator"}


def find(project: Project) -> Iterator[Finding]:
    """At the first draw of a file from what none of its scripts seeds, though they seed others."""
    for source in project.sources:
        entries = project.entries_of(source)
        if not entries or not all(project.seeds(entry) and entry in project.trains for entry in entries):
            continue
        for library, name in _NAMES.items():
            draws = draws_in(source, library) if project.lacks_seed(source, library) else []
            if library != "torch" and _has_workers(project, source):
                # Torch seeds both in each worker.
                draws = [one for one in draws if class_around(source, one) is None]
            if draws:
                seeded = " and ".join(sorted(project.seeds(entries[0])))
                yield Finding.at(source, draws[0], f"draws from {name}; only {seeded} is seeded", others=draws[1:])


def _has_workers(project: Project, source: Source) -> bool:
    loaders = [call for one in project.together(source) for call in one.methods.get("DataLoader", ())]
    given = [argument(call, "num_workers", 5) for call in loaders]
    return any(one is not None and getattr(one, "value", 1) != 0 for one in given)


RULE = Rule("error", words=(r"\brandom\b", "torch"), factors=("numpy-rng", "python-rng", "torch-rng"))
