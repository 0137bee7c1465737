"""The C source of a plan: the whole loop over time, forward and backward, for a block of rows.

Rows of a batch do not depend on each other, so each thread takes a block of rows through all time steps and never
waits for another. Within a block the rows are sorted by length: those that have ended simply drop out.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

from weft.nn.native.library import ARITHMETIC, CFile, Library
from weft.nn.recurrent.engine.adjoint import Adjoint, left_states, pure_state
from weft.nn.recurrent.engine.argument import Argument, Kind
from weft.nn.recurrent.engine.attend_source import ATTENTION, BY_SOURCE, SOURCE_STEPS, attend_backward, attend_forward
from weft.nn.recurrent.engine.call import RecurrenceCall, backward_arguments, forward_arguments
from weft.nn.recurrent.engine.expr import Expr, closure
from weft.nn.recurrent.engine.layout import Assignment, BufferLayout
from weft.nn.recurrent.engine.operations import COMPARISONS, OPERATIONS, c_number
from weft.nn.recurrent.engine.program import Program

BASE: Final = Library(ARITHMETIC, CFile("weft.nn.recurrent.engine", "runtime.c", (RecurrenceCall,)))
"""The text before what is generated."""

ATTENDING: Final = Library(*BASE.sources, ATTENTION)
"""The text before what is generated for a step that attends."""


class CSource:
    """The text, the order of its arguments, and the sizes that it names n[0], n[1], …"""

    def __init__(self, program: Program, adjoint: Adjoint, layout: BufferLayout, biased: tuple[int, ...]) -> None:
        self.program, self.adjoint, self.layout, self.biased = program, adjoint, layout, biased
        self.befores = [Argument(Kind.BEFORE, state) for state in left_states(program)]
        """The states that the gradients of weights are made from, as they were before each step."""
        self.columns = layout.columns | {Argument(Kind.SUM_HOISTED, k): program.hoisted[k] for k in biased}
        self.columns |= {argument: program.state[argument.number] for argument in self.befores}
        self.columns |= {Argument(Kind.GRAD_OVER, n): program.products[n].depth for n in program.attends}
        self.sizes: list[int] = []
        self.forward_arguments = forward_arguments(program, layout, biased)
        self.backward_arguments = backward_arguments(program, adjoint, layout, biased)
        self.sums = [argument for argument in self.backward_arguments if argument.is_summed]
        """Buffers that each block adds up over all steps for itself."""

    @cached_property
    def text(self) -> str:
        """The whole file."""
        base = ATTENDING if self.program.attends else BASE
        return "\n".join([base.text(), *self._forward(), *self._backward()]) + "\n"

    def size(self, value: int) -> str:
        """A size by its number, so that the text does not change with the sizes of a model."""
        if value in (0, 1):
            return str(value)
        if value not in self.sizes:
            self.sizes.append(value)
        return f"n[{self.sizes.index(value)}]"

    def _forward(self) -> list[str]:
        program = self.program
        lines = self._head("forward", self.forward_arguments)
        scratch = [(f"product{p}", product.width) for p, product in enumerate(program.products)]
        scratch += [(f"left{p}", program.products[p].depth) for p in self.adjoint.left]
        wide = max([self.layout.saved, *(program.hoisted[k] for k in self.layout.overwritten)])
        scratch += [("unsaved", wide)] if wide else []
        lines += self._scratch(scratch, beside=max((product.depth for product in program.products), default=0))
        lines += ["    for (long s = 0; active && s < call->length[rows[0]]; s++) {"]
        lines += ["        while (call->length[rows[active - 1]] <= s) active--;"]
        for stage, stores in enumerate(self.layout.forward):
            for number, product in enumerate(program.products):
                if product.stage == stage:
                    lines += self._product_forward(number)
            lines += self._rows(stores)
        lines += ["    }"]
        lines += ["    for (long i = 0; i < count; i++) {", "        const long b = rows[i], last = call->length[b];"]
        lines += ["        const long at = call->first[b] + (reverse ? 0 : last - 1);"]
        lines += self._zero_past_end(self.forward_arguments, Kind.HISTORY, Kind.EMITTED, Kind.ATTENTION)
        for state, width in enumerate(program.state):
            w = self.size(width)
            source = f"last ? history{state} + at * {w} : start{state} + b * {w}"
            lines += [f"        memcpy(final{state} + b * {w}, {source}, sizeof(float) * {w});"]
        return [*lines, "    }", *self._tail("forward", self.forward_arguments, transposed=False)]

    def _backward(self) -> list[str]:
        program, adjoint = self.program, self.adjoint
        lines = self._head("backward", self.backward_arguments)
        scratch = [(f"carry{i}", width) for i, width in enumerate(program.state)]
        scratch += [(f"behind{i}", width) for i, width in enumerate(program.state)]
        scratch += [(f"grad_left{p}", product.depth) for p, product in enumerate(program.products)]
        lines += self._scratch(scratch, beside=max((product.width for product in program.products), default=0))
        for argument in self.sums:
            w = self.size(self.columns[argument])
            lines += [f"    memset({argument} + block * {w}, 0, sizeof(float) * {w});"]
        lines += ["    for (long i = 0; i < count; i++) {", "        const long b = rows[i];"]
        for state, width in enumerate(program.state):
            w = self.size(width)
            for carried in (f"carry{state}", f"behind{state}"):
                lines += [
                    f"        memcpy({carried} + i * padded({w}), grad_final{state} + b * {w}, sizeof(float) * {w});"
                ]
        lines += ["    }", "    active = 0;"]
        lines += ["    for (long s = count ? call->length[rows[0]] - 1 : -1; s >= 0; s--) {"]
        lines += ["        while (active < count && call->length[rows[active]] > s) active++;"]
        for stage, stores in enumerate(self.layout.backward):
            for number in range(len(program.products)):
                if adjoint.stages[number] == stage:
                    lines += self._product_backward(number)
            lines += self._rows(stores)
        for argument in self.befores:
            state, w = argument.number, self.size(self.columns[argument])
            source = f"s ? history{state} + before * {w} : start{state} + b * {w}"
            lines += self.each_row(f"memcpy({argument} + at * {w}, {source}, sizeof(float) * {w});")
        for state in range(len(program.state)):
            lines += [f"        {{ float *swap = carry{state}; carry{state} = behind{state}; behind{state} = swap; }}"]
        lines += [
            "    }",
            "    for (long i = 0; i < count; i++) {",
            "        const long b = rows[i], last = call->length[b];",
        ]
        for state, width in enumerate(program.state):
            w = self.size(width)
            lines += [
                f"        memcpy(grad_start{state} + b * {w}, behind{state} + i * padded({w}), sizeof(float) * {w});"
            ]
        made = (Kind.GRAD_HOISTED, Kind.GRAD_PRODUCT, Kind.BEFORE, Kind.LEFTS, Kind.GRAD_SCORES)
        lines += self._zero_past_end(self.backward_arguments, *made)
        return [*lines, "    }", *self._tail("backward", self.backward_arguments, transposed=True)]

    def _zero_past_end(self, among: list[Argument], *kinds: Kind) -> list[str]:
        lines = []
        for argument in among:
            if argument.kind not in kinds:
                continue
            w = SOURCE_STEPS if argument.kind in BY_SOURCE else self.size(self.columns[argument])
            first, steps = (
                ("call->first[b]", "call->room[b]") if argument.is_outside else ("call->base[b]", "call->capacity[b]")
            )
            lines += [
                f"        memset({argument} + ({first} + last) * {w}, 0, sizeof(float) * ({steps} - last) * {w});"
            ]
        return lines

    def _head(self, name: str, given: list[Argument]) -> list[str]:
        lines = [f"static int {name}_block(const packed_call_t *all, long direction, long block) {{"]
        lines += ["    const recurrence_t *call = all->call;"]
        lines += ["    const long *n = call->sizes;"]
        lines += ["    const int reverse = call->reverse[direction];"]
        lines += [f"    float *const *t = call->tensors + direction * {len(given)};"]
        lines += [f"    float *const *packed = all->packed + direction * {2 * len(self.program.products)};"]
        lines += ["    float *const unsaved = 0;"] if name == "backward" else []
        lines += [f"    float *const {argument} = t[{number}];" for number, argument in enumerate(given)]
        lines += ["    long *rows = malloc(sizeof(long) * (call->batch + 1));"]
        lines += ["    const float **left = malloc(sizeof(float *) * (call->batch + 1));"]
        lines += ["    const long count = rows ? take_rows(call, block, rows) : 0;", "    long active = count;"]
        return lines

    def _scratch(self, buffers: list[tuple[str, int]], *, beside: int) -> list[str]:
        """Buffers for each row; `beside` is the width of the widest left side of a product, these are a line apart."""
        widths = {name: f"padded({self.size(width)})" for name, width in buffers}
        widths |= {"beside": f"(padded({self.size(beside)}) + LINE)"} if beside else {}
        lines = [f"    const long size = (count + 1) * ({' + '.join(widths.values()) or '0'}) + PANEL;"]
        lines += [
            "    float *scratch = numbers(size), *place = scratch;",
            "    if (!rows || !left || !scratch) { free(scratch); free(left); free(rows); return 1; }",
            "    memset(scratch, 0, sizeof(float) * size);",
        ]
        for name, width_of_row in widths.items():
            lines += [f"    float *{name} = place; place += count * {width_of_row};"]
        return lines

    def _tail(self, name: str, given: list[Argument], *, transposed: bool) -> list[str]:
        """The end of a block, a block as a task, and the entry point, which packs the weights."""
        products = self.program.products
        count, each = len(given), 2 * len(products)
        lines = ["    free(scratch); free(left); free(rows);", "    return 0;", "}", ""]
        lines += [
            f"static int {name}_task(const job_t *job, long task) {{",
            "    const packed_call_t *all = job->data;",
        ]
        lines += [f"    return {name}_block(all, task / all->call->blocks, task % all->call->blocks);", "}", ""]
        lines += [
            f"static int {name}_pack(const recurrence_t *call, float **packed) {{",
            "    const long *n = call->sizes;",
        ]
        lines += ["    for (long d = 0; d < call->directions; d++) {"]
        lines += [
            f"        float *const *t = call->tensors + d * {count};",
            f"        float **to = packed + d * {each};",
        ]
        lines += [
            f"        const long *strides = call->strides + d * {each};",
            "        (void)n; (void)t; (void)to; (void)strides;",
        ]
        for number, product in enumerate(products):
            if product.attention:
                continue
            down, across = f"strides[{2 * number}]", f"strides[{2 * number + 1}]"
            depth, width = self.size(product.depth), self.size(product.width)
            if transposed:
                depth, width, down, across = width, depth, across, down
            lines += [f"        if (!(to[{number}] = numbers({depth} * padded({width})))) return 1;"]
            weight = f"t[{given.index(Argument(Kind.WEIGHT, number))}]"
            lines += [f"        pack({weight}, {down}, {across}, {depth}, {width}, to[{number}]);"]
            if product.bias is not None and not transposed:
                bias = f"to[{len(products) + number}]"
                lines += [f"        if (!({bias} = numbers(padded({width})))) return 1;"]
                lines += [f"        memset({bias}, 0, sizeof(float) * padded({width}));"]
                lines += [
                    f"        memcpy({bias}, t[{given.index(Argument(Kind.BIAS, number))}], sizeof(float) * {width});"
                ]
        lines += ["    }", "    return 0;", "}", ""]
        return [
            *lines,
            f"int {name}(const recurrence_t *call, long threads, parallel_t parallel) {{",
            f"    const long matrices = call->directions * {each};",
            "    const packed_call_t all = {.call = call, .packed = calloc(matrices + 1, sizeof(float *))};",
            f"    job_t job = {{.work = {name}_task, .tasks = call->directions * call->blocks, .data = &all}};",
            "    if (!all.packed) return 1;",
            f"    const int failed = {name}_pack(call, all.packed) || share(&job, threads, parallel);",
            "    for (long k = 0; k < matrices; k++) free(all.packed[k]);",
            "    free(all.packed);",
            "    return failed;",
            "}",
            "",
        ]

    def _product_forward(self, number: int) -> list[str]:
        product = self.program.products[number]
        if product.attention:
            return attend_forward(self, number)
        depth, width = self.size(product.depth), self.size(product.width)
        state = pure_state(self.program, product.left)
        if state is None:
            left = f"left[i] = left{number} + i * padded({depth});"
        else:
            left = _beside(f"s ? history{state} + before * {depth} : start{state} + b * {depth}", depth)
        bias = f"packed[{len(self.program.products) + number}]" if product.bias is not None else "0"
        return [
            *self.each_row(left),
            f"        product(active, left, packed[{number}], {depth}, {width}, {bias}, product{number});",
        ]

    def _product_backward(self, number: int) -> list[str]:
        product = self.program.products[number]
        depth, width = self.size(product.depth), self.size(product.width)
        if number in self.layout.product_alias:
            hoisted, column = self.layout.product_alias[number]
            pointer = f"grad_hoisted{hoisted} + at * {self.size(self.program.hoisted[hoisted])} + {self.size(column)}"
        else:
            pointer = f"grad_product{number} + at * {width}"
        if product.attention:
            return attend_backward(self, number, pointer)
        return [
            *self.each_row(_beside(pointer, width)),
            f"        product(active, left, packed[{number}], {width}, {depth}, 0, grad_left{number});",
        ]

    def each_row(self, *body: str) -> list[str]:
        return [
            "        for (long i = 0; i < active; i++) {",
            "            const long b = rows[i], step = reverse ? call->length[b] - 1 - s : s;",
            "            const long at = call->base[b] + step, seen = call->first[b] + step;",
            "            const long before = reverse ? seen + 1 : seen - 1;",
            "            (void)at; (void)seen; (void)before;",
            *(f"            {line}" for line in body),
            "        }",
        ]

    def _rows(self, stores: list[Assignment]) -> list[str]:
        """The pointwise part of a stage: for each row, one loop over the columns for each width."""
        pointers: dict[str, str] = {}
        loops: list[str] = []
        for width in dict.fromkeys(store.expr.width for store in stores):
            mine = [store for store in stores if store.expr.width == width]
            names: dict[Expr, str] = {}
            loops += ["#pragma GCC ivdep", f"for (long j = 0; j < {self.size(width)}; j++) {{"]
            for expr in closure(store.expr for store in mine):
                names[expr] = self._value(expr, names, pointers, loops)
            for store in mine:
                sign = "+=" if store.buffer.is_summed else "="
                loops += [f"    {self._place(store, store.buffer, pointers)} {sign} {names[store.expr]};"]
                if store.buffer.kind is Kind.GRAD_HOISTED and store.buffer.number in self.biased:
                    summed = Argument(Kind.SUM_HOISTED, store.buffer.number)
                    loops += [f"    {self._place(store, summed, pointers)} += {names[store.expr]};"]
            loops += ["}"]
        return self.each_row(*pointers.values(), *loops) if stores else []

    def _value(self, expr: Expr, names: dict[Expr, str], pointers: dict[str, str], lines: list[str]) -> str:
        if expr.value is not None:
            return c_number(expr.value)
        name = f"v{expr.number}"
        if expr.leaf:
            kind, index, offset, stride = expr.leaf
            buffer = Argument(kind, index)
            if kind is Kind.SAVED:
                buffer, start = self.layout.kept[index]
                offset += start
            row = self._pointer(buffer, pointers)
            column = self._column(offset) if stride else self.size(offset)
            shift = f" + shift{index}[{column}]" if kind is Kind.HOISTED and index in self.biased else ""
            lines += [f"    const float {name} = {row}[{column}]{shift};"]
            return name
        kind_of = "int" if expr.op in COMPARISONS else "float"
        lines += [f"    const {kind_of} {name} = {OPERATIONS[expr.op].c.format(*(names[arg] for arg in expr.args))};"]
        return name

    def _place(self, store: Assignment, buffer: Argument, pointers: dict[str, str]) -> str:
        return f"{self._pointer(buffer, pointers)}[{self._column(store.offset)}]"

    def _column(self, offset: int) -> str:
        return "j" if offset == 0 else f"j + {self.size(offset)}"

    def _pointer(self, buffer: Argument, pointers: dict[str, str]) -> str:
        """A C variable with the row of a buffer; declared on first use."""
        variable = f"row_{buffer}"
        pointers.setdefault(variable, f"float *const {variable} = {self._row_of(buffer)};")
        return variable

    def _row_of(self, buffer: Argument) -> str:
        """Where the row of a buffer begins in this step."""
        program, number = self.program, buffer.number
        match buffer.kind:
            case Kind.STATE:
                w = self.size(program.state[number])
                return f"s ? history{number} + before * {w} : start{number} + b * {w}"
            case Kind.AFTER:
                return f"history{number} + seen * {self.size(program.state[number])}"
            case Kind.VECTOR:
                return str(buffer)
            case Kind.KEPT | Kind.SAVED:  # where nothing is to be kept, one row takes it all
                return f"{buffer} ? {buffer} + at * {self.size(self.columns[buffer])} : unsaved"
            case Kind.PRODUCT:
                return f"{buffer} + i * padded({self.size(program.products[number].width)})"
            case Kind.LEFT | Kind.GRAD_LEFT:
                return f"{buffer} + i * padded({self.size(program.products[number].depth)})"
            case Kind.GRAD_AFTER:
                return f"behind{number} + i * padded({self.size(program.state[number])})"
            case Kind.CARRY:
                return f"{buffer} + i * padded({self.size(program.state[number])})"
        row = "block" if buffer.is_summed else "seen" if buffer.is_outside else "at"
        return f"{buffer} + {row} * {self.size(self.columns[buffer])}"


def _beside(pointer: str, width: str) -> str:
    """Copy a left side next to those of the other rows.

    Where it stands, they are many time steps apart: rows a power of two apart take each other's place in a cache.
    """
    return f"left[i] = memcpy(beside + i * (padded({width}) + LINE), {pointer}, sizeof(float) * {width});"
