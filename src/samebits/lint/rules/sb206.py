"""Two listings are paired by their places.

Which image goes with which mask is left to the file system; on another disk they may be paired wrongly, without an
error.

    for image, mask in zip(os.listdir("images"), os.listdir("masks")):
        pairs.append((image, mask))

Put both in order:

    for image, mask in zip(sorted(os.listdir("images")), sorted(os.listdir("masks"))):
        pairs.append((image, mask))
"""

from samebits.lint.listings import listings
from samebits.lint.rule import Findings, Project, Rule, Source


@Rule("error", factors=("file-order",), fix="safe")
def find(project: Project, source: Source) -> Findings:
    """Unsorted listings that are paired by one zip()."""
    return listings(project, source, "zip")
