"""A listing is dealt out to ranks or shards by its places.

Each process lists the folder itself. Where two machines list it in other orders, some files are trained on twice and
others never.

    paths = glob.glob("shards/*.tar")[rank::world_size]

Put it in order first:

    paths = sorted(glob.glob("shards/*.tar"))[rank::world_size]
"""

from samebits.lint.findings import Findings
from samebits.lint.listings import NAMES, listings
from samebits.lint.project import Project
from samebits.lint.rule import Rule
from samebits.lint.source import Source


@Rule("error", words=NAMES, factors=("file-order",), fix="safe")
def find(project: Project, source: Source) -> Findings:
    """Listings under a slice with a start and a step."""
    return listings(project, source, "slice")
