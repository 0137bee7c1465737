"""The C sources of this package, and the kernels that stand in them, each with those that it needs."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Final, NamedTuple

KERNEL_FILES: Final = ("products.c", "kernels.c")

WHOLE: Final = ("reduce_sum", "reduce_max", "cumulate_sum", "cumulate_max")
"""Kernels that are there for whole numbers too, as NAME_whole."""

TARGETS: Final = {"f8": "avx2,fma", "f16": "avx512f"}
"""Wider vectors of the product of matrices, and what a processor of x86-64 must have for them."""

_TARGET: Final = """#if defined(__GNUC__) && defined(__x86_64__)
#if defined(__clang__)
#define WEFT_{name} __attribute__((target("{features}")))
#else
#define WEFT_{name} __attribute__((target("{features}"), optimize("fp-contract=fast")))
#endif"""

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
    for name in WHOLE:
        text = found[name].text.replace(f" {name}(", f" {name}_whole(").replace("float", "int32_t").replace("0.0f", "0")
        found[f"{name}_whole"] = Kernel(text, ())
    for name, features in TARGETS.items():
        text = found["linear_f4"].text.replace("f4", name).replace("static ", f"WEFT_{name.upper()} static ")
        text = text.replace("#if defined(__GNUC__)", f"{_TARGET}".format(name=name.upper(), features=features), 1)
        found[f"linear_{name}"] = Kernel(text, found["linear_f4"].needs)
    order = [
        *(name for name in found if not name.startswith("linear_f")),
        *(n for n in found if n.startswith("linear_f")),
    ]
    first = order.index("linear")
    wide = [name for name in order if name.startswith("linear_f")]
    order = [*order[:first], *wide, *[name for name in order[first:] if name not in wide]]
    return {name: found[name] for name in order}


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


def resolve(text: str, defines: Mapping[str, str | int]) -> str:
    """A source in which each `#if NAME` of one of these definitions is decided."""
    kept: list[str] = []
    blocks: list[bool | None] = []  # None: one that stays
    for line in text.split("\n"):
        word, _, name = line.partition(" ")
        if word in ("#if", "#ifdef", "#ifndef"):
            blocks.append(str(defines[name]) != "0" if word == "#if" and name in defines else None)
            decides = blocks[-1] is not None
        elif word == "#else" and blocks[-1] is not None:
            blocks[-1], decides = not blocks[-1], True
        elif word == "#endif":
            decides = blocks.pop() is not None
        else:
            decides = False
        if not decides and all(block is not False for block in blocks):
            kept.append(line)
    return "\n".join(kept)


_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_FUNCTION: Final = re.compile(r"^(?:WEFT_F\d+ )?static [^;={]*?\b(\w+)\(")


def only_used(text: str) -> str:
    """A source without the static functions that nothing in it calls, and without the comments above them.

    A function of ours begins with a line `static …(` and ends with the next line that is one closing brace.
    """
    chunks: list[tuple[str | None, list[str]]] = [(None, [])]
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        found = _FUNCTION.match(lines[at])
        if found is None or _declares(lines, at):
            chunks[-1][1].append(lines[at])
            at += 1
            continue
        end = lines.index("}", at)
        chunks.append((found.group(1), [*_comment_above(chunks[-1][1]), *lines[at : end + 1]]))
        chunks.append((None, []))
        at = end + 1
    counts = [Counter(_NAME.findall("\n".join(body))) for _, body in chunks]
    total = sum(counts, Counter())
    alive = [True] * len(chunks)
    changed = True
    while changed:
        changed = False
        for number, (name, _) in enumerate(chunks):
            if name is not None and alive[number] and total[name] == counts[number][name]:
                alive[number], changed = False, True
                total.subtract(counts[number])
    kept = "\n".join(line for (_, body), wanted in zip(chunks, alive, strict=True) if wanted for line in body)
    return re.sub(r"\n{3,}", "\n\n", kept)


def _declares(lines: list[str], at: int) -> bool:
    """Whether a function is only declared there."""
    while not lines[at].endswith(("{", ";", ")")):
        at += 1
    return lines[at].endswith(";")


def _comment_above(lines: list[str]) -> list[str]:
    """Take the comment that ends a list of lines from it."""
    if not lines or not lines[-1].endswith("*/"):
        return []
    first = len(lines) - 1
    while first > 0 and "/*" not in lines[first]:
        first -= 1
    if not lines[first].startswith("/*"):
        return []
    comment = lines[first:]
    del lines[first:]
    return comment
