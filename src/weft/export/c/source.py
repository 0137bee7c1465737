"""The C sources of this package, and the kernels that stand in them, each with those that it needs."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from importlib import resources
from typing import Final, NamedTuple

KERNEL_FILES: Final = ("products.c", "kernels.c")

_HEAD: Final = re.compile(r"^/\*: (\w+)(?: needs ([\w ]+))? \*/$", re.MULTILINE)


class Kernel(NamedTuple):
    text: str
    needs: tuple[str, ...]


@functools.cache
def read(name: str) -> str:
    """A file of this package."""
    return (resources.files("weft.export.c") / name).read_text(encoding="utf-8")


@functools.cache
def kernels() -> dict[str, Kernel]:
    """All kernels in the order of their files: each begins with a comment `/*: name needs others */`."""
    found = {}
    for file in KERNEL_FILES:
        text = read(file)
        heads = list(_HEAD.finditer(text))
        for head, following in zip(heads, [*heads[1:], None], strict=True):
            body = text[head.end() : following.start() if following else len(text)]
            found[head.group(1)] = Kernel(body.strip() + "\n", tuple((head.group(2) or "").split()))
    return found


def chosen(names: Iterable[str]) -> str:
    """The text of some kernels and of all that they need."""
    every, wanted = kernels(), set[str]()
    left = list(names)
    while left:
        name = left.pop()
        if name not in wanted:
            wanted.add(name)
            left += every[name].needs
    return "\n".join(kernel.text for name, kernel in every.items() if name in wanted)
