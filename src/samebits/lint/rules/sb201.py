"""The order in which a folder is listed becomes data.

`os.listdir`, `glob` and their kin give names in the order of the file system: it is the same twice on one disk, and
another after a copy, on another machine, or once files were written anew. With the files made in reverse, every case
split otherwise.

    paths = glob.glob("data/*.png")
    training, held_out = paths[:count], paths[count:]

Put it in order:

    paths = sorted(glob.glob("data/*.png"))
    training, held_out = paths[:count], paths[count:]
"""

from samebits.lint.listings import listings
from samebits.lint.rule import Findings, Project, Rule, Source


@Rule("error", factors=("file-order",), fix="safe")
def find(project: Project, source: Source) -> Findings:
    """Unsorted listings that reach a dataset, a split, a stack, numbers or a training loop."""
    return listings(project, source, "order")
