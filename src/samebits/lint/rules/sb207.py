"""A listing is dealt out to ranks or shards by its places.

Each process lists the folder itself. Where two machines list it in other orders, some files are trained on twice and
others never.

    paths = glob.glob("shards/*.tar")[rank::world_size]

Put it in order first:

    paths = sorted(glob.glob("shards/*.tar"))[rank::world_size]
"""

from samebits.lint.listings import listings
from samebits.lint.rule import Findings, Project, Rule, Source


@Rule("error", factors=("file-order",), fix="safe")
def find(project: Project, source: Source) -> Findings:
    """Unsorted listings that a slice with a start and a step deals out."""
    return listings(project, source, "slice")
