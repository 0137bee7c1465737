"""The C source of a step without products: each lane's loop over all of time, and its scan in chunks.

A scan has three parts. For each chunk but the last it computes the product of the slopes and where the chunk ends if it
begins at zero; from these it carries the state from chunk to chunk; then the loop runs in every chunk at once. Pieces
that read others come after them, level by level. Backward it is the same with the gradients, from the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.nn.native.library import ARITHMETIC, CFile, Library
from weft.nn.recurrent.engine.argument import Argument, Kind, arguments
from weft.nn.recurrent.engine.call import LoopCall
from weft.nn.recurrent.engine.expr import Expr, closure
from weft.nn.recurrent.engine.lanes import Lane, Piece
from weft.nn.recurrent.engine.layout import Assignment
from weft.nn.recurrent.engine.linear import Order
from weft.nn.recurrent.engine.operations import COMPARISONS, OPERATIONS, c_number

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.plan import Kernels

BASE: Final = Library(ARITHMETIC, CFile("weft.nn.recurrent.engine", "loop.c", (LoopCall,)))


def loop_arguments(plan: Kernels, *, backward: bool) -> list[Argument]:
    """The tensors of a loop in one direction."""
    program, layout = plan.program, plan.layout
    states = len(program.state)
    emitted = len(program.emitted)
    given = [
        *arguments(Kind.HOISTED, len(program.hoisted)),
        *arguments(Kind.START, states),
        *(Argument(Kind.VECTOR, constant) for constant in program.vectors),
        *(Argument(Kind.SHIFT, number) for number in plan.biased),
        *arguments(Kind.HISTORY, states),
    ]
    if backward:
        given += arguments(Kind.GRAD_EMITTED, emitted) + arguments(Kind.GRAD_FINAL, states)
        given += arguments(Kind.GRAD_HOISTED, len(program.hoisted)) + arguments(Kind.GRAD_START, states)
        given += loop_sums(plan)
    else:
        given += [argument for argument in arguments(Kind.EMITTED, emitted) if argument.number not in layout.history_of]
        given += arguments(Kind.FINAL, states)
    return given + ([] if plan.scans is None else scan_arguments(plan))


def loop_sums(plan: Kernels) -> list[Argument]:
    """The sums over its steps that every chunk of every row makes."""
    sums = [Argument(Kind.SUM_HOISTED, number) for number in plan.biased]
    return sums + arguments(Kind.GRAD_VECTOR, len(plan.layout.vectors))


def scan_arguments(plan: Kernels) -> list[Argument]:
    """The values that a scan carries from chunk to chunk."""
    return [Argument(kind, state) for kind in (Kind.BEGIN, Kind.SLOPE) for state in range(len(plan.program.state))]


def loop_columns(plan: Kernels) -> dict[Argument, int]:
    """The columns of every buffer of a loop."""
    columns = dict(plan.layout.columns)
    columns |= {Argument(Kind.SUM_HOISTED, k): plan.program.hoisted[k] for k in plan.biased}
    kinds = (Kind.START, Kind.FINAL, Kind.GRAD_START, Kind.GRAD_FINAL, Kind.BEGIN, Kind.SLOPE)
    for state, width in enumerate(plan.program.state):
        columns |= {Argument(kind, state): width for kind in kinds}
    return columns


def lane_sums(plan: Kernels, stores: Iterable[Assignment]) -> list[tuple[Argument, int]]:
    """The places of what a lane adds up over all steps."""
    found = []
    for store in stores:
        if store.buffer.is_summed:
            found.append((store.buffer, store.offset))
        elif (summed := sum_beside(plan, store)) is not None:
            found.append(summed)
    return found


def sum_beside(plan: Kernels, store: Assignment) -> tuple[Argument, int] | None:
    """The sum of a gradient of a hoisted value whose bias the loop has added, which is stored at every step too."""
    if store.buffer.kind is not Kind.GRAD_HOISTED or store.buffer.number not in plan.biased:
        return None
    return Argument(Kind.SUM_HOISTED, store.buffer.number), store.offset


class LoopSource:
    """The text, and the sizes that it names n[0], n[1], …"""

    def __init__(self, plan: Kernels) -> None:
        self.plan = plan
        self.columns = loop_columns(plan)
        self.sizes: list[int] = []

    @cached_property
    def text(self) -> str:
        """The whole file."""
        return "\n".join([BASE.text(), *self._pass(backward=False), *self._pass(backward=True)]) + "\n"

    def _pass(self, *, backward: bool) -> list[str]:
        name = "backward" if backward else "forward"
        lanes, scans = self.plan.lanes or [], self.plan.scans
        lines: list[str] = []
        calls: list[str] = []
        for number, lane in enumerate(lanes):
            width = self._size(lane.width)
            run = f"{width}, %s, threads, parallel);"
            if scans is not None and lane.pieces:
                order = scans[number].backward if backward else scans[number].forward
                calls += ["    if (call->chunks > 1) {"]
                for level in range(max(order.levels) + 1):
                    here = f"{name}{number}_level{level}"
                    lines += _LaneSource(self, lane, backward=backward).summary(f"{here}_summary", order, level)
                    lines += _LaneSource(self, lane, backward=backward).carry(f"{here}_carry", order, level)
                    calls += [f"        run_lane(call, {here}_summary, {run % 'call->chunks'}"]
                    calls += [f"        run_lane(call, {here}_carry, {run % '1'}"]
                calls += ["    }"]
            lines += _LaneSource(self, lane, backward=backward).loop(f"{name}{number}")
            calls += [f"    run_lane(call, {name}{number}, {run % 'call->chunks'}"]
        entry = f"int {name}(const loop_t *call, long threads, parallel_t parallel) {{"
        return [*lines, entry, "    const long *n = call->sizes;", "    (void)n;", *calls, "    return 0;", "}", ""]

    def _size(self, value: int) -> str:
        """A size by its number, so that the text does not change with the sizes of a model."""
        if value in (0, 1):
            return str(value)
        if value not in self.sizes:
            self.sizes.append(value)
        return f"n[{self.sizes.index(value)}]"


class _Pointer(NamedTuple):
    """A C variable with the first column of a task in a step."""

    name: str
    declaration: str


class _LaneSource:
    """The functions of one lane in one pass."""

    def __init__(self, source: LoopSource, lane: Lane, *, backward: bool) -> None:
        self.source, self.lane, self.backward = source, lane, backward
        self.size = source._size
        self.given = loop_arguments(source.plan, backward=backward)
        self.pointers: dict[tuple[Argument, int], _Pointer] = {}
        """Each pointer that a step reads or writes through."""

    def loop(self, name: str) -> list[str]:
        """The loop over the steps of a row, or of one chunk of it."""
        lane, stores = self.lane, self.lane.backward if self.backward else self.lane.forward
        news = lane.before if self.backward else lane.after
        step, targets = self._step(stores, dict(enumerate(news)))
        sums = lane_sums(self.source.plan, stores)
        last, end = ("grad_start", "c == 0") if self.backward else ("final", "ends")
        lines = [*self._head(name), *(f"    float sum{k}[COLUMNS] CARRIED;" for k in range(len(sums)))]
        lines += [f"    set(sum{k}, columns, 0.0f);" for k in range(len(sums))]
        lines += [line for k in range(len(lane.pieces)) for line in self._begin(k)]
        lines += [*self._steps(step), f"    if ({end}) {{"]
        for k, piece in enumerate(lane.pieces):
            place = self._place(Argument(Kind(last), piece.state), "b", piece.offset)
            lines += [f"        memcpy({place}, now{k}, sizeof(float) * columns);"]
        lines += ["    }"]
        for k, (argument, offset) in enumerate(sums):
            place = self._place(argument, "(b * call->chunks + c)", offset)
            lines += [f"    memcpy({place}, sum{k}, sizeof(float) * columns);"]
        lines += ["    if (c < call->chunks - 1) return;"]
        for argument, offset in targets:
            first, capacity = (
                ("call->first[b]", "call->room[b]") if argument.is_outside else ("call->base[b]", "call->capacity[b]")
            )
            place, width = self._place(argument, "0", offset), self.size(self.source.columns[argument])
            lines += [f"    clear_rows({place}, {width}, {first} + length, {first} + {capacity}, columns);"]
        return [*lines, "}", ""]

    def summary(self, name: str, order: Order, level: int) -> list[str]:
        """The pieces of one level over a chunk: the product of their slopes, and where they end from zero."""
        news = self.lane.before if self.backward else self.lane.after
        chosen = {k: news[k] for k, at in enumerate(order.levels) if at <= level}
        mine = [k for k in chosen if order.levels[k] == level]
        step, _ = self._step([], chosen, slopes={k: order.slopes[k] for k in mine})
        lines = [*self._head(name), *(f"    float factor{k}[COLUMNS] CARRIED;" for k in mine)]
        needless = "c == 0 || first >= length" if self.backward else "end >= length"
        lines += [f"    if ({needless}) return;"]
        for k in chosen:
            if k in mine:
                lines += [f"    float now{k}[COLUMNS] CARRIED;"]
                lines += [f"    set(now{k}, columns, 0.0f);", f"    set(factor{k}, columns, 1.0f);"]
            else:
                lines += self._begin(k)
        lines += self._steps(step)
        for k in mine:
            for kind, local in ((Kind.BEGIN, f"now{k}"), (Kind.SLOPE, f"factor{k}")):
                place = self._chunk(kind, self.lane.pieces[k])
                lines += [f"    memcpy({place}, {local}, sizeof(float) * columns);"]
        return [*lines, "}", ""]

    def carry(self, name: str, order: Order, level: int) -> list[str]:
        """The state at the beginning of each chunk, or the gradient that reaches it, from what the chunks have made."""
        first = Kind.GRAD_FINAL if self.backward else Kind.START
        lines = [*self._head(name), "    const long last = length ? (length - 1) / call->steps : 0;"]
        for k in (k for k, at in enumerate(order.levels) if at == level):
            piece = self.lane.pieces[k]
            start = self._place(Argument(first, piece.state), "b", piece.offset)
            lines += [f"    float now{k}[COLUMNS] CARRIED;", f"    memcpy(now{k}, {start}, sizeof(float) * columns);"]
            order_of = "c = last; c >= 0; c--" if self.backward else "c = 0; c <= last; c++"
            lines += [f"    for (long {order_of}) {{"]
            lines += [f"        float *const begin = {self._chunk(Kind.BEGIN, piece)};"]
            lines += [f"        const float *const slope = {self._chunk(Kind.SLOPE, piece)};"]
            lines += ["#pragma GCC ivdep", "        for (long j = 0; j < columns; j++) {"]
            lines += [f"            const float before = now{k}[j];"]
            # The chunk that comes last has made nothing, and nothing is read of what is computed from it.
            # A state of zero stays zero, also where the product of many slopes above 1 is no number any more.
            lines += [f"            now{k}[j] = (before == 0.0f ? 0.0f : slope[j] * before) + begin[j];"]
            lines += ["            begin[j] = before;"]
            lines += ["        }", "    }"]
        return [*lines, "}", ""]

    def _head(self, name: str) -> list[str]:
        lines = [f"static void {name}(const loop_t *call, long d, long b, long c, long j0, long columns) {{"]
        lines += ["    const long *n = call->sizes;", "    const long length = call->length[b];"]
        lines += ["    const int reverse = call->reverse[d];"]
        lines += [f"    float *const *t = call->tensors + d * {len(self.given)};"]
        lines += [f"    float *const {argument} = t[{number}];" for number, argument in enumerate(self.given)]
        lines += [f"    (void){argument};" for argument in self.given]
        lines += ["    const long first = c * call->steps, left = length - first;"]
        lines += ["    const long end = left < call->steps ? length : first + call->steps;"]
        lines += ["    const int ends = length ? left > 0 && end == length : c == 0;"]
        return [*lines, "    (void)n; (void)reverse; (void)first; (void)end; (void)ends;"]

    def _begin(self, k: int) -> list[str]:
        """The lines that set the values that a chunk carries when it begins."""
        piece = self.lane.pieces[k]
        argument = Argument(Kind.GRAD_FINAL if self.backward else Kind.START, piece.state)
        source = self._place(argument, "b", piece.offset)
        if self.source.plan.scans is not None:
            source = f"call->chunks > 1 ? {self._chunk(Kind.BEGIN, piece)} : {source}"
        return [f"    float now{k}[COLUMNS] CARRIED;", f"    memcpy(now{k}, {source}, sizeof(float) * columns);"]

    def _chunk(self, kind: Kind, piece: Piece) -> str:
        return self._place(Argument(kind, piece.state), "(b * call->chunks + c)", piece.offset)

    def _place(self, argument: Argument, row: str, offset: int) -> str:
        """The first column of a task in a row of a buffer."""
        start = "" if row == "0" else f" + {row} * {self.size(self.source.columns[argument])}"
        return f"{argument}{start}{self._plus(offset)} + j0"

    def _plus(self, offset: int) -> str:
        return f" + {self.size(offset)}" if offset else ""

    def _steps(self, body: list[str]) -> list[str]:
        order = "s = end - 1; s >= first; s--" if self.backward else "s = first; s < end; s++"
        return [
            f"    for (long {order}) {{",
            "        const long step = reverse ? length - 1 - s : s;",
            "        const long at = call->base[b] + step, seen = call->first[b] + step;",
            "        const long before = reverse ? seen + 1 : seen - 1;",
            "        (void)at; (void)seen; (void)before;",
            *(f"        {pointer.declaration}" for pointer in self.pointers.values()),
            "#pragma GCC ivdep",
            "        for (long j = 0; j < columns; j++) {",
            *(f"            {line}" for line in body),
            "        }",
            "    }",
        ]

    def _step(
        self, stores: list[Assignment], news: dict[int, Expr], slopes: dict[int, Expr] | None = None
    ) -> tuple[list[str], list[tuple[Argument, int]]]:
        """One column of one step; and the places in buffers of all steps that it writes."""
        names: dict[Expr, str] = {}
        lines: list[str] = []
        targets: list[tuple[Argument, int]] = []
        slopes = slopes or {}
        wanted = [*(store.expr for store in stores), *news.values(), *slopes.values()]
        for expr in closure(wanted):
            names[expr] = self._value(expr, names, lines)
        sums = lane_sums(self.source.plan, stores)
        for store in stores:
            value = names[store.expr]
            if store.buffer.is_summed:
                lines += [f"sum{sums.index((store.buffer, store.offset))}[j] += {value};"]
                continue
            lines += [f"{self._pointer(store.buffer, store.offset)}[j] = {value};"]
            targets.append((store.buffer, store.offset))
            if (summed := sum_beside(self.source.plan, store)) is not None:
                lines += [f"sum{sums.index(summed)}[j] += {value};"]
        lines += [f"factor{k}[j] *= {names[expr]};" for k, expr in slopes.items()]
        return [*lines, *(f"now{k}[j] = {names[expr]};" for k, expr in news.items())], targets

    def _value(self, expr: Expr, names: dict[Expr, str], lines: list[str]) -> str:
        if expr.value is not None:
            return c_number(expr.value)
        name = f"v{expr.number}"
        if expr.leaf:
            lines += [f"const float {name} = {self._leaf(expr)};"]
            return name
        kind = "int" if expr.op in COMPARISONS else "float"
        lines += [f"const {kind} {name} = {OPERATIONS[expr.op].c.format(*(names[arg] for arg in expr.args))};"]
        return name

    def _leaf(self, expr: Expr) -> str:
        assert expr.leaf is not None
        kind, number, offset, stride = expr.leaf
        carried = Kind.GRAD_AFTER if self.backward else Kind.STATE
        if kind is carried:
            return f"now{self.lane.pieces.index(Piece(number, offset))}[j]"
        if kind is Kind.VECTOR and not stride:
            return f"{Argument(kind, number)}[{self.size(offset)}]"
        text = f"{self._pointer(Argument(kind, number), offset)}[j]"
        if kind is Kind.HOISTED and number in self.source.plan.biased:
            text += f" + {self._pointer(Argument(Kind.SHIFT, number), offset)}[j]"
        return text

    def _pointer(self, buffer: Argument, offset: int) -> str:
        """A C variable with the first column of a task in this step; declared on first use."""
        if (buffer, offset) in self.pointers:
            return self.pointers[buffer, offset].name
        variable = f"row_{buffer}_part{len(self.pointers)}"  # a size as a name could be that of another offset
        columns, state = self.source.columns, Argument(Kind.HISTORY, buffer.number)
        match buffer.kind:
            case Kind.VECTOR | Kind.SHIFT:
                place = f"{buffer}{self._plus(offset)} + j0"
            case Kind.AFTER:
                place = self._place(state, "seen", offset)
            case Kind.STATE:
                start = self._place(Argument(Kind.START, buffer.number), "b", offset)
                place = f"s ? {self._place(state, 'before', offset)} : {start}"
            case _:
                assert buffer in columns
                place = self._place(buffer, "seen" if buffer.is_outside else "at", offset)
        self.pointers[buffer, offset] = _Pointer(variable, f"float *const {variable} = {place};")
        return variable
