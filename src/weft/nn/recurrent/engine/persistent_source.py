"""The CUDA source of a step with one product: the loop over all of time in one kernel, which persistent.cu describes.

A thread has one unit of some rows and carries its states in registers. In a step it publishes its columns of the
product's left side, waits for those of all others, and computes the rest of the step from its columns of the product.
What the next step reads from memory is loaded meanwhile.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from weft.nn.native.compiler import read_source
from weft.nn.recurrent.engine.argument import Argument, Kind
from weft.nn.recurrent.engine.expr import Expr, closure
from weft.nn.recurrent.engine.layout import Assignment
from weft.nn.recurrent.engine.persistent_plan import EXCHANGE, PersistentPlan
from weft.nn.recurrent.engine.persistent_values import StepValues


class Tiling(NamedTuple):
    """The units and rows of a block of threads, and the warps that share the depth and the columns of a product."""

    units: int
    rows: int
    k_split: int
    n_split: int

    @property
    def threads(self) -> int:
        return 32 * self.k_split * self.n_split


class PersistentSource:
    """The text of one pass, and its tensors in the order of the kernel's table."""

    def __init__(self, persistent: PersistentPlan, *, backward: bool) -> None:
        self.lane, self.backward = persistent.lane, backward
        self.mine = persistent.one(backward=backward)
        self.values = StepValues(persistent, backward=backward)
        self.exchange, self.exchange_at = self.mine.exchange or (EXCHANGE, 0)

    @property
    def arguments(self) -> list[Argument]:
        """The tensors of the kernel, in the order of its table."""
        _ = self.text
        return self.values.arguments

    @cached_property
    def text(self) -> str:
        """The kernel, which the sizes of a tiling complete."""
        body = self._body()
        pointers = []
        for number, argument in enumerate(self.values.arguments):
            kind, table = self.values.type_of(argument), "call.tensors"
            pointers.append(f"{kind} *const {argument} = ({kind} *)(d ? {table}[1][{number}] : {table}[0][{number}]);")
        starts = ", ".join(map(str, self.mine.leaves.values()))
        width = self.values.columns(self.exchange)
        name = "backward" if self.backward else "forward"
        structure = [
            "typedef struct {",
            "    place_t batch, time, positions, keep, reverse;",
            "    const place_t *lengths, *firsts;",
            f"    void *tensors[2][{len(self.values.arguments)}];",
            "} call_t;",
        ]
        lines = [
            "const int d = BLOCK(z), lane = THREAD % 32, k_warp = THREAD / 32 % K_SPLIT;",
            "const int unit = BLOCK(x) * UNITS + THREAD % UNITS, mine = THREAD < ROWS * UNITS;",
            "const int reverse = (int)(call.reverse >> d & 1);",
            "const place_t ahead = reverse ? -1 : 1, row0 = (place_t)BLOCK(y) * ROWS;",
            *pointers,
            "SHARED(partial);",
            f"const int starts[LEAVES] = {{{starts}}};",
            "word weights[BLOCKS][2][TILES][4];",
            "load_weights(weights, weight0, starts, BLOCK(x) * UNITS);",
            "int row[PAIRS], real[PAIRS], length[PAIRS];",
            "place_t b[PAIRS], first[PAIRS];",
            "EACH_PAIR {",
            "    row[p] = THREAD / UNITS + p * (THREADS / UNITS);",
            "    b[p] = row0 + row[p];",
            "    real[p] = mine && b[p] < call.batch;",
            "    length[p] = real[p] ? (int)(call.lengths ? call.lengths[b[p]] : call.time) : 0;",
            "    first[p] = real[p] ? (call.firsts ? call.firsts[b[p]] : b[p] * call.time) : 0;",
            "}",
            "const half_bits *from[ROW_TILES], *here[ROW_TILES];",
            "int ends[ROW_TILES], alive[ROW_TILES], count = 0;",
            "#pragma unroll",
            "for (int n = 0; n < ROW_TILES; n++) {",
            "    const place_t other = row0 + n * 8 + lane / 4;",
            "    const int there = other < call.batch;",
            "    ends[n] = there ? (int)(call.lengths ? call.lengths[other] : call.time) : 0;",
            "    const place_t begin = there ? (call.firsts ? call.firsts[other] : other * call.time) : 0;",
            f"    from[n] = {self.exchange} + (begin + (reverse ? ends[n] - 1 : 0)) * {width} + {self.exchange_at}",
            "        + k_warp * BLOCKS * 32 + lane % 4 * 8;",
            "}",
            "for (place_t k = 0; k < ROWS && row0 + k < call.batch; k++) {",
            "    const int end = (int)(call.lengths ? call.lengths[row0 + k] : call.time);",
            "    count = end > count ? end : count;",
            "}",
            *body,
        ]
        return "\n".join([*structure, f"KERNEL({name})(const call_t call) {{", *(f"    {x}" for x in lines), "}", ""])

    def _body(self) -> list[str]:
        self.values.use(self.exchange)
        return self._backward() if self.backward else self._forward()

    def _forward(self) -> list[str]:
        lane, mine = self.lane, self.mine
        starts = [f"state{k}[p] = {self.values.start(k, Kind.START)};" for k in range(len(lane.pieces))]
        # Of the states alone, so the text of the first step serves every other.
        publish = self._published()
        news = [self.values.value(expr) for expr in lane.after]
        stores = self._stores([(store, self.values.value(store.expr)) for store in mine.stores])
        step = self.values.taken()
        names = list(self.values.reads.values())
        return [
            *self._declare(names, "state"),
            *self.values.head,
            "EACH_PAIR {",
            *self._inside(starts),
            "}",
            *self._load_ahead("0"),
            *self._advance(names),
            "if (mine) EACH_PAIR {",
            "    const int publishes = 0 < length[p];",
            "    const place_t to = first[p] + (reverse ? length[p] - 1 : 0);",
            *self._inside(publish),
            "}",
            "for (int s = 0; s < count; s++) {",
            *self._inside(self._wait("s + 1")),
            "    if (mine) EACH_PAIR {",
            "        const int now = s < length[p], publishes = s + 1 < length[p];",
            "        const place_t at = first[p] + (reverse ? length[p] - 1 - s : s), to = at + ahead;",
            *self._inside(step, 2),
            *(f"        const float next{k} = {new};" for k, new in enumerate(news)),
            *(f"        state{k}[p] = now ? next{k} : state{k}[p];" for k in range(len(news))),
            "        {",
            *self._inside(publish, 3),
            "        }",
            "        if (now) {",
            *self._inside(stores, 3),
            "        }",
            "    }",
            *self._inside(self._advance(names)),
            "}",
            *self._finish(Kind.FINAL, "state"),
        ]

    def _backward(self) -> list[str]:
        lane, mine = self.lane, self.mine
        starts = [f"carry{k}[p] = {self.values.start(k, Kind.GRAD_FINAL)};" for k in range(len(lane.pieces))]
        early = [store for store in mine.stores if not self._is_late(store.expr)]
        late = [store for store in mine.stores if self._is_late(store.expr)]
        self.values.kept = True
        publish = self._published()
        stores = self._stores([(store, self.values.value(store.expr)) for store in early])
        for part in closure([*lane.before, *(store.expr for store in late)]):
            if not self._is_late(part):
                self.values.value(part)
        first, self.values.kept = self.values.taken(), False
        news = [self.values.value(expr) for expr in lane.before]
        lates = self._stores([(store, self.values.value(store.expr)) for store in late])
        step = self.values.taken()
        names = list(self.values.reads.values())
        return [
            *self._declare(names, "carry"),
            *self.values.head,
            "EACH_PAIR {",
            *self._inside(starts),
            "}",
            *self._load_ahead("count - 1"),
            *self._advance(names),
            "for (int s = count - 1; s >= 0; s--) {",
            *(f"    {kind} {name}[PAIRS];" for name, kind in self.values.arrays.items()),
            "    if (mine) EACH_PAIR {",
            "        const int now = s < length[p], publishes = now;",
            "        const place_t at = first[p] + (reverse ? length[p] - 1 - s : s), to = at;",
            *self._inside(first, 2),
            *self._inside(publish, 2),
            "        if (now) {",
            *self._inside(stores, 3),
            "        }",
            "    }",
            *self._inside(self._wait("s - 1")),
            "    if (mine) EACH_PAIR {",
            "        const int now = s < length[p];",
            "        const place_t at = first[p] + (reverse ? length[p] - 1 - s : s);",
            *self._inside(step, 2),
            "        if (now) {",
            *self._inside(lates, 3),
            *(f"            const float next{k} = {new};" for k, new in enumerate(news)),
            *(f"            carry{k}[p] = next{k};" for k in range(len(news))),
            "        }",
            "    }",
            *self._inside(self._advance(names)),
            "}",
            *self._finish(Kind.GRAD_START, "carry"),
        ]

    def _declare(self, names: list[str], carried: str) -> list[str]:
        """What a thread carries from step to step: states, and what the next step reads."""
        arrays = [f"{carried}{k}[PAIRS]" for k in range(len(self.lane.pieces))]
        lines = [f"float {', '.join(arrays)};"]
        reads = ", ".join(f"{name}[PAIRS], {name}_next[PAIRS]" for name in names)
        return [*lines, f"half_bits {reads};"] if names else lines

    def _finish(self, kind: Kind, carried: str) -> list[str]:
        """The last states, or the gradients of the first, and zeros past the end of each row."""
        lines = []
        for k, piece in enumerate(self.lane.pieces):
            place = f"b[p] * {self.values.state_width(piece)} + {piece.offset} + unit"
            lines.append(f"{self.values.use(Argument(kind, piece.state))}[{place}] = start_of({carried}{k}[p]);")
        return ["EACH_PAIR if (real[p]) {", *self._inside([*lines, *self._zeros()]), "}"]

    def _inside(self, lines: list[str], depth: int = 1) -> list[str]:
        return ["    " * depth + line for line in lines]

    def _is_late(self, expr: Expr) -> bool:
        return any(part.leaf and part.leaf.kind is Kind.GRAD_LEFT for part in closure([expr]))

    def _published(self) -> list[str]:
        """Store this unit's columns of the left side. Forward they are made of the states, in a scope of their own."""
        width, lines = self.values.columns(self.exchange), []
        kept = dict(self.values.names)
        values = [(at, self.values.value(expr)) for at, expr in self.mine.published]
        if not self.backward:
            lines, self.values.names = self.values.taken(), kept
        for at, value in values:
            place = f"{self.exchange} + to * {width} + {self.exchange_at + at} + unit"
            lines.append(f"publish({place}, {value}, publishes);")
        return lines

    def _wait(self, next_step: str) -> list[str]:
        """Wait for the left side, multiply, and leave the result in shared memory; load what another step reads."""
        return [
            "word left[ROW_TILES][BLOCKS][4];",
            "#pragma unroll",
            "for (int n = 0; n < ROW_TILES; n++) {",
            "    alive[n] = s < ends[n];",
            f"    here[n] = from[n] + s * ahead * {self.values.columns(self.exchange)};",
            "}",
            *self._load_ahead(next_step),
            "await_left(left, here, alive);",
            "float *const sums = partial + (s & 1) * PARTIAL;",
            "multiply(sums, weights, left);",
            "meet();",
        ]

    def _load_ahead(self, step: str) -> list[str]:
        """Load what a step reads, while there is something else to do."""
        lines = []
        for (buffer, offset, before), name in self.values.reads.items():
            place = f"{'(at - ahead)' if before else 'at'} * {self.values.columns(buffer)} + {offset} + unit"
            condition = "if (q > 0) " if before else ""
            lines.append(f"{condition}{name}_next[p] = {self.values.use(buffer)}[{place}];")
        if not lines:
            return []
        return [
            "EACH_PAIR {",
            *(f"    {name}_next[p] = 0;" for name in self.values.reads.values()),
            f"    const int q = {step};",
            "    if (mine && q >= 0 && q < length[p]) {",
            "        const place_t at = first[p] + (reverse ? length[p] - 1 - q : q);",
            *self._inside(lines, 2),
            "    }",
            "}",
        ]

    def _advance(self, names: list[str]) -> list[str]:
        return ["EACH_PAIR {", *(f"    {name}[p] = {name}_next[p];" for name in names), "}"] if names else []

    def _stores(self, stores: list[tuple[Assignment, str]]) -> list[str]:
        lines = []
        for store, value in stores:
            if store.buffer.kind is Kind.CARRY or (store.buffer == self.exchange and self._is_published(store)):
                continue
            kind = "store_float" if store.buffer.is_float32 else "store_half"
            place = (
                f"{self.values.use(store.buffer)} + at * {self.values.columns(store.buffer)} + {store.offset} + unit"
            )
            keep = "if (call.keep) " if store.buffer.is_kept else ""
            lines.append(f"{keep}{kind}({place}, {value});")
        return lines

    def _is_published(self, store: Assignment) -> bool:
        return any(store.offset == self.exchange_at + at for at, _ in self.mine.published)

    def _zeros(self) -> list[str]:
        """Zeros past the end of a row, in every buffer that is read there."""
        places = [
            (store.buffer, store.offset)
            for store in self.mine.stores
            if store.buffer.kind is not Kind.CARRY and not store.buffer.is_kept
        ]
        end = "(b[p] + 1 < call.batch ? call.firsts[b[p] + 1] : call.positions)"
        lines = ["if (call.lengths) {", f"    const place_t room = call.firsts ? {end} - first[p] : call.time;"]
        lines += ["    for (place_t past = length[p]; past < room; past++) {"]
        for buffer, offset in places:
            kind = "store_float" if buffer.is_float32 else "store_half"
            lines.append(
                f"        {kind}({buffer} + (first[p] + past) * {self.values.columns(buffer)} + {offset} + unit, 0.0f);"
            )
        return [*lines, "    }", "}"]


def whole_text(source: PersistentSource, tiling: Tiling, *, bfloat16: bool, start_float: bool) -> str:
    """The text that is compiled."""
    sizes = {
        "UNITS": tiling.units,
        "ROWS": tiling.rows,
        "K_SPLIT": tiling.k_split,
        "N_SPLIT": tiling.n_split,
        "DEPTH": source.mine.depth,
        "LEAVES": max(1, len(source.mine.leaves)),
        "BFLOAT16": int(bfloat16),
        "START_FLOAT": int(start_float),
    }
    defines = "".join(f"#define {name} {value}\n" for name, value in sizes.items())
    return defines + read_source("weft.nn.recurrent.engine", "persistent.cu") + source.text
