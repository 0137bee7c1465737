"""The files of an export: model.c, model.h and weights.bin from a program, tokenizers and the constants of a task."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from weft.export.c.constants import ALIGNMENT, Constants
from weft.export.c.graph_writer import GraphWriter
from weft.export.c.sizes import identifier
from weft.export.c.source import chosen, only_used, read, resolve
from weft.export.c.storage import estimated
from weft.export.c.text_source import text_header, text_source
from weft.export.graph import Program

VERSION: Final = 1
HEADER: Final = 128
MAX_BEAM: Final = 64
LINE_BYTES: Final = 65536
"""The default limit of a line."""
SCRATCH_BYTES: Final = 1 << 26
"""The most scratch memory with the default limit of tokens."""


@dataclass
class Plan:
    """All parts of a model in C; `describe` is the comment at the top of its files.

    sections are the parts of weights.bin after the weights; the first `texts` of them are tokenizers.
    limits are the lengths of graphs in terms of m->limits, by their names. fields and arrange are lines of the
    structure and of the function that gives it memory.
    """

    describe: str
    defines: dict[str, str | int]
    sources: Sequence[str]
    sections: list[bytes] = field(default_factory=list)
    texts: int = 0
    graphs: Sequence[str] = ()
    kernels: set[str] = field(default_factory=set)
    declared: list[str] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)
    arrange: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    header: str = ""
    limits: Mapping[str, str] = field(default_factory=dict)
    longest: int = 1 << 20


@dataclass
class Sources:
    """The content of the files."""

    model_c: str
    model_h: str
    weights: bytes


def write_sources(plan: Plan, program: Program | None, constants: Constants) -> Sources:
    """Write the graphs of a program, which may be None for a model of counts, and all around them."""
    functions: list[str] = []
    kernels, scratch, tokens = set(plan.kernels), [], 8192
    for name in plan.graphs:
        assert program is not None
        writer = GraphWriter(program.graphs[name], constants, name=f"graph_{identifier(name)}")
        written = writer.write()
        functions += [f"/* The graph {name}. */", *written.text]
        kernels |= written.kernels
        scratch.append(f"graph_{identifier(name)}_bytes({', '.join(plan.limits[one] for one in written.lengths)})")
        while tokens > 256 and estimated(writer.slots, tokens) > SCRATCH_BYTES:
            tokens //= 2
    weights = constants.bytes() or bytes(ALIGNMENT)
    sections = [weights, *plan.sections]
    defines = {
        "WEFT_VERSION": VERSION,
        "WEFT_SECTIONS": len(sections),
        "WEFT_SECTION_BYTES": ", ".join(str(len(one)) for one in sections),
        "WEFT_TEXTS": plan.texts,
        "WEFT_MAX_BEAM": MAX_BEAM,
        "WEFT_TOKENS": min(tokens, plan.longest),
        "WEFT_LINE_BYTES": LINE_BYTES,
        "WEFT_READS_FILES": 0,
        "WEFT_LANGUAGES": 0,
        "WEFT_NUMBERS_HELP": '"the line is not what the model reads"',
        "WEFT_PICTURE_HELP": '"the file is no picture"',
        **plan.defines,
    }
    body = [
        read("frame.c"),
        read("runtime.c"),
        _structure(plan),
        read("model_open.c"),
        *constants.macros(),
        "",
        chosen(kernels),
        *functions,
        *plan.before,
        *_arrange(plan, scratch, constants),
        *(resolve(one, defines) for one in plan.sources),
        resolve(read("model_close.c"), defines),
    ]
    text = text_source().replace('#include "text.h"', "") if plan.texts else ""
    number = int.from_bytes(hashlib.sha256("\n".join([*map(str, defines.items()), *body]).encode()).digest()[:8], "big")
    top = [
        f"/* {plan.describe} */",
        '#include "model.h"',
        "",
        "#include <math.h>",
        "#include <stdio.h>",
        "#include <string.h>",
        "",
        f"#define WEFT_NUMBER {number}u",
        *(f"#define {name} {value}" for name, value in defines.items()),
        "",
        *plan.declared,
        "",
    ]
    header = [f"/* {plan.describe} */", read("model_head.h"), plan.header, _END]
    lines = "\n".join([*top, text_header() if plan.texts else "", text, *body])
    return Sources(only_used(lines), "\n".join(header), _container(sections, number))


_END: Final = "#ifdef __cplusplus\n}\n#endif\n#endif\n"


def _structure(plan: Plan) -> str:
    texts = ["    weft_text text[WEFT_TEXTS];", "    void *text_workspace;", "    size_t text_workspace_bytes;"]
    lines = [
        "struct weft_model {",
        "    const unsigned char *weights, *section[WEFT_SECTIONS];",
        "    size_t section_bytes[WEFT_SECTIONS];",
        "    weft_limits limits;",
        "    unsigned char *memory, *scratch;",
        "    uint64_t taken, scratch_bytes;",
        *(texts if plan.texts else []),
        *(f"    {line}" for line in plan.fields),
        "};",
    ]
    return "\n".join([*plan.types, *lines, ""])


def _arrange(plan: Plan, scratch: Sequence[str], constants: Constants) -> list[str]:
    """The function that checks the numbers of the weights and places everything in memory."""
    lines = [
        "/* Place everything in memory: what is needed from call to call, and one scratch memory for all graphs. */",
        "static int weft_arrange(weft_model *m)",
        "{",
        "    const uint64_t tokens = (uint64_t)m->limits.tokens;",
        "    (void)tokens;",
        *(f"    if (!{one}) return WEFT_DAMAGED;" for one in constants.checks()),
    ]
    if plan.texts:
        lines += [
            "    for (int n = 0; n < WEFT_TEXTS; n++) {",
            "        static const int32_t entries[] = {WEFT_ENTRIES};",
            "        if (weft_text_open(&m->text[n], m->section[1 + n], m->section_bytes[1 + n]) < 0)",
            "            return WEFT_DAMAGED;",
            "        if (weft_text_size(&m->text[n]) != entries[n]) return WEFT_DAMAGED;",
            "        const size_t bytes = weft_text_workspace(&m->text[n], m->limits.line_bytes);",
            "        if (bytes > m->text_workspace_bytes) m->text_workspace_bytes = bytes;",
            "    }",
            "    m->text_workspace = weft_take(m, m->text_workspace_bytes);",
        ]
    lines += [f"    {line}" for line in plan.arrange]
    for one in scratch:
        lines.append(f"    m->scratch_bytes = weft_larger(m->scratch_bytes, {one});")
    lines += ["    m->scratch = weft_take(m, m->scratch_bytes);", "    return 0;", "}", ""]
    return lines


def _container(sections: Sequence[bytes], number: int) -> bytes:
    """weights.bin, as runtime.c reads it."""
    sizes = struct.pack(f"<{len(sections)}Q", *map(len, sections))
    body = sizes + bytes(64 - len(sizes)) + b"".join(one + bytes(-len(one) % ALIGNMENT) for one in sections)
    head = b"WEFTC\0\0\0" + struct.pack("<IIQQQ", VERSION, len(sections), number, 64 + len(body), zlib.crc32(body))
    return head + bytes(64 - len(head)) + body
