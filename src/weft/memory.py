"""The memory that this process can use: the least of the machine's, its control groups' and its own limit.

Limits that cannot be read are ignored; if none can, the result is None and nothing is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

GIBIBYTE: Final = 1 << 30

MEMINFO: Final = Path("/proc/meminfo")
OWN_GROUPS: Final = Path("/proc/self/cgroup")
GROUPS: Final = Path("/sys/fs/cgroup")


class MachineMemory(NamedTuple):
    """Total bytes, and those that are free now; both include swap space."""

    total: int
    free: int


def machine_memory() -> MachineMemory | None:
    """Return the memory that this process can use at most, and that it can use now."""
    machine, swap = _whole_machine()
    found = [memory for memory in (machine, *_control_groups(swap), _own_limit()) if memory is not None]
    return MachineMemory(min(one.total for one in found), min(one.free for one in found)) if found else None


def _whole_machine() -> tuple[MachineMemory | None, int]:
    """Return the memory of the machine, and its swap space."""
    try:
        lines = (line.partition(":") for line in MEMINFO.read_text(encoding="ascii").splitlines())
        size = {name: 1024 * int(value.split()[0]) for name, _, value in lines}
        swap = size.get("SwapTotal", 0)
        return MachineMemory(size["MemTotal"] + swap, size["MemAvailable"] + size.get("SwapFree", 0)), swap
    except (OSError, ValueError, KeyError, IndexError):
        return _from_system(), 0


def _from_system() -> MachineMemory | None:
    """Return the memory of a system without /proc. Not all report how much is free, so all of it counts as free."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf, and a system may not know the name
        return None
    return MachineMemory(total, total) if total > 0 else None


def _control_groups(swap: int) -> Iterator[MachineMemory]:
    """Yield the limits of this process's control group and of its parents; versions 1 and 2 of Linux's cgroups.

    In a container the path of the group may not exist; the limit is then that of the top folder.
    """
    try:
        lines = [line.split(":", 2) for line in OWN_GROUPS.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers == "":
            top, names, cached = GROUPS, ("memory.max", "memory.current"), "inactive_file"
        elif "memory" in controllers.split(","):
            names, cached = ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_inactive_file"
            top = GROUPS / "memory"
        else:
            continue
        own = top / path.lstrip("/")
        for folder in (own, *own.parents):
            if not folder.is_relative_to(top):
                break
            limit, used = (_number(folder / name) for name in names)
            if limit is not None:
                # Cached files count as used, but are evicted when memory is needed.
                used = max(0, (used or 0) - _statistic(folder / "memory.stat", cached))
                yield MachineMemory(limit + swap, max(0, limit - used) + swap)


def _statistic(path: Path, name: str) -> int:
    """Return the number behind a name, in a file with a name and a number on each line; 0 if it is missing."""
    try:
        lines = (line.split() for line in path.read_text(encoding="ascii").splitlines())
        return next((int(words[1]) for words in lines if words[:1] == [name]), 0)
    except (OSError, ValueError, IndexError):
        return 0


def _number(path: Path) -> int | None:
    """Return the number in a file; None if it has none, as in a group without a limit."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _own_limit() -> MachineMemory | None:
    """Return the limit of `ulimit -v`; None without one."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else MachineMemory(limit, limit)


def show_bytes(count: int) -> str:
    """Format a number of bytes in GiB."""
    size = count / GIBIBYTE
    return f"{size:,.0f} GiB" if size >= 10 else f"{size:.1f} GiB"
