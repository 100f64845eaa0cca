"""Two listings are paired by their places.

Which image goes with which mask is left to the file system; on another disk they may be paired wrongly, without an
error.

    for image, mask in zip(os.listdir("images"), os.listdir("masks")):
        pairs.append((image, mask))

Put both in order:

    for image, mask in zip(sorted(os.listdir("images")), sorted(os.listdir("masks"))):
        pairs.append((image, mask))
"""

from samebits.lint.findings import Findings
from samebits.lint.listings import NAMES, listings
from samebits.lint.project import Project
from samebits.lint.rule import Rule
from samebits.lint.source import Source


@Rule("error", words=NAMES, factors=("file-order",), fix="safe")
def find(project: Project, source: Source) -> Findings:
    """Listings in one zip()."""
    return listings(project, source, "zip")
