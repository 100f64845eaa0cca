"""A listing is dealt out to ranks or shards by its places.

Each process lists the folder itself. Where two machines list it in other orders, some files are trained on twice and
others never.

    paths = glob.glob("shards/*.tar")[rank::world_size]

Put it in order first:

    paths = sorted(glob.glob("shards/*.tar"))[rank::world_size]
"""

from collections.abc import Iterator

from samebits.lint.findings import Finding
from samebits.lint.listings import listings
from samebits.lint.project import Project
from samebits.lint.rule import Rule


def find(project: Project) -> Iterator[Finding]:
    """Listings under a slice with a start and a step."""
    return listings(project, "slice")


RULE = Rule(
    "error",
    words=("listdir", "scandir", "walk", "glob", "iterdir"),
    factors=("file-order",),
    fix="safe",
    cure="file-order",
)
