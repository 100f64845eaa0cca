"""Starts a command with mounts of its own, which no other process sees: `python -I -S enter.py PLAN COMMAND...`.

A copy of the working folder then lies at the folder's own path. This program needs the standard library only; the
command replaces it, with the same process number. The system calls are described in unshare(2), mount(2) and
user_namespaces(7).
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import sys

_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
# Flags of a mount that only the system's own root may remove; `statvfs` has the same numbers for them.
_KEPT = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME | os.ST_RELATIME
FAILED = 125
PROGRAM = (sys.executable, "-I", "-S", __file__)


def _call(name: str, *arguments: object) -> None:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _mount(source: str, target: str, flags: int) -> None:
    _call("mount", os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None)


def unshare_mounts() -> None:
    """Give this process mounts of its own.

    Raises:
        OSError: the system does not allow it.
    """
    user, group = os.getuid(), os.getgid()
    try:
        _call("unshare", _NEW_MOUNTS)
    except OSError:
        _call("unshare", _NEW_USER | _NEW_MOUNTS)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    _mount("none", "/", _RECURSIVE | _PRIVATE)


def mount(source: str, target: str, is_read_only: bool) -> None:
    """Make a file or folder appear at another path, too (a bind mount), with all that is mounted in it."""
    _mount(source, target, _BIND | _RECURSIVE)
    # Being read-only is a property of each mount, and not of the tree (mount(2)).
    for point in _mounts_in(target) if is_read_only else ():
        kept = os.statvfs(point).f_flag & _KEPT
        _mount("none", point, _BIND | _REMOUNT | _READ_ONLY | kept)


def _mounts_in(folder: str) -> list[str]:
    """Return the mount points at and below a path, from the list in proc_pid_mountinfo(5)."""
    folder = os.path.realpath(folder)
    with open("/proc/self/mountinfo", "rb") as file:
        points = {line.split(b" ")[4] for line in file}
    named = (re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), point) for point in points)
    return [path for path in map(os.fsdecode, named) if path == folder or path.startswith(folder.rstrip("/") + "/")]


def main() -> None:
    """Make the mounts, and replace this program by the command."""
    plan, *argv = sys.argv[1:]
    try:
        with open(plan, encoding="utf-8") as file:
            content = json.load(file)
        unshare_mounts()
        for source, target, is_read_only in content["mounts"]:
            mount(source, target, is_read_only)
        os.chdir(content["start"])
    except OSError as error:
        sys.stderr.write(f"samebits could not mount a copy of the working folder: {error}\n")
        os._exit(FAILED)
    # Python ignores these two signals, and the program that replaces it would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.stderr.write(f"cannot start {argv[0]!r}: {error.strerror}\n")
        os._exit(127)


if __name__ == "__main__":
    main()
