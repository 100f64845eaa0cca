"""How Sphinx makes the site: `make docs`. Nothing here is asked of the network, neither to build nor to read."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import reference_pages  # noqa: E402

reference_pages.write(HERE / "reference")

project = "samebits"
copyright = "2026, the samebits authors"
extensions = ["myst_parser"]
exclude_patterns = ["pictures"]
nitpicky = True

# `--pin` is two hyphens.
smartquotes = False
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
# What shell sessions and made-up files show is not always code in the language of their fence.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = "samebits"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
