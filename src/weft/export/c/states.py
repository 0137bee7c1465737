"""The state of a decoder in C: its fields, their memory, and the functions that begin it and make one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weft.export.c.sizes import elements, identifier, length, names_of
from weft.export.graph import Graph, Program, StateField

PAST: Final = "past"
GIVEN: Final = {
    **dict.fromkeys(("tokens", "features", "picture"), "WEFT_INPUT(m)"),
    "series": "&m->series",
    "static": "m->static_",
}
"""Where a graph that begins finds its inputs; others lie in the field of their name."""


def state_types(fields: Sequence[StateField]) -> list[str]:
    """The type of a state."""
    return [
        "/* What a decoder knows after some tokens. Fields that are shared belong to the sentence. */",
        f"#define WEFT_FIELDS {max(1, len(fields))}",
        "typedef struct {",
        "    float *field[WEFT_FIELDS];",
        "} weft_state;",
        "",
    ]


def write_states(program: Program, *, start: str) -> list[str]:
    """The functions that search.c calls. `start` is the name of the graph that makes the first state."""
    fields = program.state
    growing = {field.grows for field in fields if field.grows}
    lines = [
        *(
            f"/* field[{number}]: {one.name} ({', '.join(map(str, one.shape))})"
            f"{', shared' * one.shared}{', grows' * bool(one.grows)} */"
            for number, one in enumerate(fields)
        ),
        "",
        "/* Give a state its memory. The shared fields, and with `follows` those that grow, are those of `first`. */",
        "static void state_arrange(weft_model *m, weft_state *s, const weft_state *first, long longest, int follows)",
        "{",
        *(f"    const long {length(name)} = longest;" for name in dict.fromkeys(_names(fields))),
    ]
    for number, one in enumerate(fields):
        size = f"weft_take(m, 4 * (uint64_t)({elements(one.shape)}))"
        if one.shared:
            size = f"first ? first->field[{number}] : {size}"
        elif one.grows:
            size = f"first && follows ? first->field[{number}] : {size}"
        lines.append(f"    s->field[{number}] = {size};")
    lines += ["    (void)m, (void)s, (void)first, (void)longest, (void)follows;", "}", ""]
    lines += [
        "/* Let a state have the growing fields of another one: a step then adds to them in place. */",
        "static void state_share(const weft_state *from, weft_state *to)",
        "{",
        *(f"    to->field[{number}] = from->field[{number}];" for number, one in enumerate(fields) if one.grows),
        "    (void)from, (void)to;",
        "}",
        "",
    ]
    lines += [
        f"#define WEFT_STATE_FIELDS {len(fields)}",
        "/* The numbers of a field. */",
        "static size_t state_numbers(int field, long n_source, long n_past)",
        "{",
        "    (void)n_source, (void)n_past;",
        "    switch (field) {",
        *(f"    case {number}: return (size_t)({_counted(one)});" for number, one in enumerate(fields)),
        "    default: return 0;",
        "    }",
        "}",
        "",
    ]
    return [*lines, *_begin(program, start), *_step(program.graphs["step"], fields, growing)]


def _begin(program: Program, start: str) -> list[str]:
    graph = program.graphs[start]
    numbers = {field.name: number for number, field in enumerate(program.state)}
    outputs = [f"s->field[{numbers[value.name]}]" for value in graph.outputs]
    lengths = ["m->source"] * len(dict.fromkeys(name for value in graph.inputs for name in names_of(value.shape)))
    inputs = [GIVEN.get(value.name, f"m->{value.name}") for value in graph.inputs]
    call = ", ".join(["m", *lengths, *inputs, *outputs])
    return [
        "/* The state before the first token. */",
        "static int state_begin(weft_model *m, weft_state *s)",
        "{",
        "    (void)s;",
        f"    return graph_{identifier(graph.name)}({call});",
        "}",
        "",
    ]


def _step(graph: Graph, fields: tuple[StateField, ...], growing: set[str]) -> list[str]:
    """The function for one token: the state before it and the state after it lie in different memory, but for fields
    that grow."""
    numbers = {field.name: number for number, field in enumerate(fields)}
    lengths = dict.fromkeys(name for value in graph.inputs for name in names_of(value.shape))
    given = ["m->source" if name not in growing else PAST for name in lengths]
    inputs = [f"before->field[{numbers[value.name]}]" if value.name in numbers else "&token" for value in graph.inputs]
    outputs = []
    for value in graph.outputs:
        if value.name.startswith("next_"):
            outputs.append(f"after->field[{numbers[value.name.removeprefix('next_')]}]")
        else:
            outputs.append("m->attention" if value.name == "attention" else "logits")
    call = ", ".join(["m", *given, *inputs, *outputs])
    return [
        "/* Read a token after `past` others: logits of the next one, and the state after it. */",
        "static int state_step(weft_model *m, const weft_state *before, weft_state *after, int32_t token, long past,",
        "                      float *logits)",
        "{",
        "    (void)past, (void)before, (void)after;",
        f"    return graph_step({call});",
        "}",
        "",
    ]


def _counted(field: StateField) -> str:
    shape = [PAST if size == field.grows else size for size in field.shape]
    return elements(shape)


def _names(fields: tuple[StateField, ...]) -> list[str]:
    return [name for field in fields for name in names_of(field.shape)]
