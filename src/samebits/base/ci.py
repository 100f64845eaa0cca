"""Whether this runs in continuous integration."""

from collections.abc import Mapping


def in_ci(environ: Mapping[str, str]) -> bool:
    """Whether `CI` says so; services set it to true, and people to 0 or false where they do not mean it."""
    return environ.get("CI", "").strip().lower() not in ("", "0", "false", "no")
