"""How much memory this process can have: that of the machine, of its control group, of its own limit.

What is not known is left out; where nothing is known, the answer is None and nothing is refused.
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


class Memory(NamedTuple):
    """Bytes: all that there are, and those that are free now; disk space for swapping is among them."""

    total: int
    free: int


def machine_memory() -> Memory | None:
    """What this process can have at most, and what it can have now."""
    machine, swap = _whole_machine()
    found = [memory for memory in (machine, *_control_groups(swap), _own_limit()) if memory is not None]
    return Memory(min(one.total for one in found), min(one.free for one in found)) if found else None


def _whole_machine() -> tuple[Memory | None, int]:
    """The memory of the machine, and what of it is disk space."""
    try:
        lines = (line.partition(":") for line in MEMINFO.read_text(encoding="ascii").splitlines())
        size = {name: 1024 * int(value.split()[0]) for name, _, value in lines}
        swap = size.get("SwapTotal", 0)
        return Memory(size["MemTotal"] + swap, size["MemAvailable"] + size.get("SwapFree", 0)), swap
    except (OSError, ValueError, KeyError, IndexError):
        return _from_system(), 0


def _from_system() -> Memory | None:
    """Systems without /proc tell the size of the memory; how much of it is free, not all do."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf, and a system may not know the name
        return None
    return Memory(total, total) if total > 0 else None


def _control_groups(swap: int) -> Iterator[Memory]:
    """The limits of the group of this process and of those above it; of version 2, or 1, of Linux's control groups.

    In a container the group's own path may not be there; the limit then stands at the top.
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
                # Files that were read count as used, and make room where it is needed.
                used = max(0, (used or 0) - _statistic(folder / "memory.stat", cached))
                yield Memory(limit + swap, max(0, limit - used) + swap)


def _statistic(path: Path, name: str) -> int:
    """A number of a file with a name and a number in each line."""
    try:
        lines = (line.split() for line in path.read_text(encoding="ascii").splitlines())
        return next((int(words[1]) for words in lines if words[:1] == [name]), 0)
    except (OSError, ValueError, IndexError):
        return 0


def _number(path: Path) -> int | None:
    """A number in a file; None where there is none, as in a group without a limit."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _own_limit() -> Memory | None:
    """What `ulimit -v` allows."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else Memory(limit, limit)


def show_bytes(count: int) -> str:
    """In gibibytes."""
    size = count / GIBIBYTE
    return f"{size:,.0f} GiB" if size >= 10 else f"{size:.1f} GiB"
