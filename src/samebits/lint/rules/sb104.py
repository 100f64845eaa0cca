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

from samebits.lint.project import class_around, draws_in
from samebits.lint.rule import Finding, Findings, Project, Rule, Source

_NAMES = {"numpy": "NumPy's global generator", "random": "Python's generator", "torch": "torch's generator"}


@Rule("error", factors=("numpy-rng", "python-rng", "torch-rng"), fix="safe", cure="another seed")
def find(project: Project, source: Source) -> Findings:
    """The first draw of a file from a generator that none of its scripts seeds, though each seeds another one."""
    entries = project.entries_of(source)
    if not entries or not all(project.seeds(entry) and entry in project.trains for entry in entries):
        return
    for library, name in _NAMES.items():
        draws = draws_in(source, library) if project.lacks_seed(source, library) else []
        if library != "torch" and project.has_workers(source):
            # In each worker, torch seeds NumPy and Python.
            draws = [draw for draw in draws if class_around(source, draw) is None]
        if draws:
            seeded = " and ".join(sorted(project.seeds(entries[0])))
            yield Finding.at(source, draws[0], f"draws from {name}; only {seeded} is seeded", others=draws[1:])
