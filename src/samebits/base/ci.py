"""Detection of continuous integration by its environment variable."""

from collections.abc import Mapping


def in_ci(environ: Mapping[str, str]) -> bool:
    """Whether `CI` is set, and not to 0, false or no: services set it to true, and people switch it off that way."""
    return environ.get("CI", "").strip().lower() not in ("", "0", "false", "no")
