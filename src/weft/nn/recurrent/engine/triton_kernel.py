"""One Triton kernel being written: loads and values as they are needed, stores at the end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.nn.recurrent.engine.argument import Argument, Kind
from weft.nn.recurrent.engine.expr import Expr
from weft.nn.recurrent.engine.operations import OPERATIONS

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.triton_source import TritonSource

HEADER: Final = 4
"""Entries at the head of the table: batch, time, first step of the chunk, positions of the source."""


ATTENDING: Final = {Kind.PRODUCT: Kind.CONTEXT, Kind.GRAD_LEFT: Kind.GRAD_QUERY}
"""The fixed buffers of products that attend, which are in no stage's product."""


class KernelPlace(NamedTuple):
    """Numbers from `offset` on, a text, in the tensor of an argument."""

    argument: Argument
    offset: str


class Kernel:
    """The text of a kernel, which reads the states before the step from START, fixed STATE buffers or HISTORY."""

    def __init__(self, source: TritonSource, name: str, *, state: Kind) -> None:
        self.source, self.name, self.state_from = source, name, state
        self.lines: list[str] = []
        self.stores: list[str] = []
        self.names: dict[object, str] = {}
        self.fixed: dict[Argument, None] = {}
        self.addresses: dict[Argument, str] = {}
        self.widths: list[int] = []
        self.ahead: list[str] = []
        self.prefetched: dict[Argument, str] = {}

    def text(self) -> str:
        """The whole function."""
        self.source.arguments[self.name] = list(self.fixed)
        self.source.widest[self.name] = max(self.widths, default=1)
        options = ("LENGTHS", "SEGMENTS", "KEEP", "PREFETCH", "DTYPE", "START", "BLOCK")
        arguments = [
            "table",
            "lengths",
            "firsts",
            *map(str, self.fixed),
            "j",
            *(f"{option}: tl.constexpr" for option in options),
        ]
        onward = "(reverse == 0)" if self.state_from is Kind.STATE else "(reverse > 0)"
        head = [
            '@triton.jit(do_not_specialize=["j"])',
            f"def {self.name}({', '.join(arguments)}):",
            "    b, d, B = tl.program_id(0).to(tl.int64), tl.program_id(2), tl.num_programs(0)",
            "    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)",
            "    r = d * B + b",
            f"    own = table + {HEADER} + d * ENTRIES",
            "    batch, time, s, reverse = tl.load(table), tl.load(table + 1), tl.load(table + 2) + j, tl.load(own)",
            *(f"    {line}" for line in self.addresses.values()),
            # Fixed buffers are loaded before anything that needs the table.
            *(f"    {line}" for line in self.ahead),
            "    if LENGTHS:",
            "        length = tl.load(lengths + b)",
            "    else:",
            "        length = time",
            "    real = b < batch",
            "    alive = real & (s < length)",
            # What lies past the end of a segment may be another row's, which only that may write.
            "    if SEGMENTS:",
            "        first, place, writes = tl.load(firsts + b), tl.where(alive, s, 0), alive",
            "    else:",
            "        first, place, writes = b * time, s, real",
            "    at = first + tl.where(alive & (reverse > 0), length - 1 - s, place)",
            "    last = at + tl.where(reverse > 0, 1, -1)",
        ]
        lines = list(self.lines)
        if self.prefetched:
            lines += ["if PREFETCH:", f"    onward = at + tl.where({onward}, 1, -1)"]
            lines += ["    onward = tl.where((onward >= first) & (onward < first + length) & real, onward, first)"]
            lines += [f"    fetch(p_{argument} + {offset})" for argument, offset in self.prefetched.items()]
        body = [*lines, *self.stores] or ["pass"]
        return "\n".join([*head, *(f"    {line}" for line in body)]) + "\n"

    def store_step(self, expr: Expr, place: KernelPlace, *, keep: bool = False) -> None:
        """Store into a buffer of the whole pass: zero past the end, where what is kept is not read again."""
        value = self.value(expr)
        self.widths.append(expr.width)
        columns = f"(c < {expr.width})"
        if keep:
            self._add_keep(f"tl.store({self._address(place)}, {value}, mask=alive & {columns})")
        else:
            self.stores.append(
                f"tl.store({self._address(place)}, tl.where(alive, {value}, 0.0), mask=writes & {columns})"
            )

    def store_fixed(
        self, expr: Expr, place: KernelPlace, *, otherwise: KernelPlace | None = None, zero: bool = False,
        carry: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        """Store into a fixed buffer; a row past its end keeps what `otherwise` or `carry` names, or gets zero."""
        value = self.value(expr)
        self.widths.append(expr.width)
        to = self._fix(place)
        if otherwise is not None:
            value = f"tl.where(alive, {value}, {self._load_fixed(otherwise, expr.width)})"
        elif carry is not None:
            value = f"tl.where(alive, {value}, {self.carried(*carry, expr.width)})"
        elif zero:
            value = f"tl.where(alive, {value}, 0.0)"
        self.stores.append(f"tl.store({to}, {value}, mask=c < {expr.width})")

    def store_text(self, value: str, width: int, place: KernelPlace) -> None:
        self.widths.append(width)
        self.stores.append(f"tl.store({self._address(place)}, {value}, mask=real & (c < {width}))")

    def store_value(self, value: str, width: int, place: KernelPlace) -> None:
        self.widths.append(width)
        self.stores.append(f"tl.store({self._fix(place)}, {value}, mask=c < {width})")

    def store_next(self, expr: Expr, place: KernelPlace) -> None:
        """Store a left side of the next step: its states are those after this one."""
        value = self.value(expr, after=True)
        self.widths.append(expr.width)
        self.stores.append(f"tl.store({self._fix(place)}, {value}, mask=c < {expr.width})")

    def value(self, expr: Expr, *, after: bool = False) -> str:
        """The name of an expression's value; with `after`, states are those after this step."""
        key = (expr, after)
        if key in self.names:
            return self.names[key]
        if expr.value is not None:
            return repr(expr.value) if math.isfinite(expr.value) else f'float("{expr.value}")'
        if expr.leaf:
            text = self._leaf(expr, after=after)
        else:
            text = OPERATIONS[expr.op].triton.format(*(self.value(arg, after=after) for arg in expr.args))
        name = f"{'w' if after else 'v'}{expr.number}"
        self.lines.append(f"{name} = {text}")
        self.names[key] = name
        return name

    def carried(self, number: int, at: int, width: int) -> str:
        """The gradient of the state after this step: what the step behind has left, and its last product's share."""
        source = self.source
        key = ("carried", number, at, width)
        if key not in self.names:
            offset = f"r * {source.program.state[number]} + {at} + c"
            text = self._load_fixed(KernelPlace(Argument(Kind.BEHIND, number), offset), width)
            if source.fused_carry:
                row = source.program.build.columns(source.adjoint.state[number], at, width)
                assert len(row) == 1
                terms = [self._late(term) for term in source.late_terms(row[0])]
                text = " + ".join([text, *terms])
            name = f"carried{number}_{at}_{width}"
            self.lines.append(f"{name} = {text}")
            self.names[key] = name
        return self.names[key]

    def _late(self, term: Expr) -> str:
        """A term that waited for the last product of the step behind; its states are those after this step."""
        return self.value(term, after=True)

    def _leaf(self, expr: Expr, *, after: bool) -> str:
        assert expr.leaf is not None
        kind, index, offset, stride = expr.leaf
        source, columns = self.source, f"c < {expr.width}"
        here = Argument(kind, index)
        if kind is Kind.VECTOR:
            vector = self._address(KernelPlace(here, f"{offset} + {'c' if stride else 'c * 0'}"))
            return f"tl.load({vector}, mask=real & ({columns}), other=0.0)"
        if kind in ATTENDING and source.program.products[index].attention:
            product = source.program.products[index]
            width = product.width if kind is Kind.PRODUCT else product.depth
            place = KernelPlace(Argument(ATTENDING[kind], index), f"r * {width} + {offset} + c")
            return self._load_fixed(place, expr.width)
        if kind is Kind.PRODUCT:
            stage = source.program.products[index].stage
            group = source.stages[stage - 1]
            return self._product(Argument(kind, stage), group.width, group.result_at(index) + offset, expr)
        if kind is Kind.GRAD_LEFT:
            stage = source.adjoint.stages[index]
            group = source.back[stage - 1]
            if not group.speaks_for_left(index):
                return "0.0"
            row = [f"((d * {group.parts} + {part}) * B + b) * {group.depth}" for part in range(group.parts)]
            offsets = [f"{start} + {group.left_at(index) + offset} + c" for start in row]
            parts = [self._load_fixed(KernelPlace(Argument(kind, stage), text), expr.width) for text in offsets]
            return f"({' + '.join(parts)})"
        if kind is Kind.GRAD_AFTER:
            return self.carried(index, offset, expr.width)
        if kind is Kind.STATE:
            return self._state(expr, after=after)
        if kind is Kind.GRAD_FINAL:
            address = self._address(KernelPlace(here, f"b * {source.program.state[index]} + {offset} + c"))
            return f"tl.load({address}, mask=real & ({columns}), other=0.0).to(tl.float32)"
        start = 0
        if kind is Kind.SAVED:
            here, start = source.layout.kept[index]
        elif kind is Kind.AFTER:
            here = Argument(Kind.HISTORY, index)
        column = f"{source.layout.columns[here]} + {start + offset} + c"
        address = self._address(KernelPlace(here, f"at * {column}"))
        self.prefetched.setdefault(here, f"onward * {column}")
        text = f"tl.load({address}, mask=alive & ({columns}), other=0.0).to(tl.float32)"
        if kind is Kind.HOISTED and index in source.biased:
            shift = self._address(KernelPlace(Argument(Kind.SHIFT, index), f"{offset} + c"))
            text += f" + tl.load({shift}, mask=real & ({columns}), other=0.0)"
        return text

    def _product(self, buffer: Argument, width: int, column: int, expr: Expr) -> str:
        assert expr.leaf is not None
        text = self._load_fixed(KernelPlace(buffer, f"r * {width} + {column} + c"), expr.width)
        if self.source.program.products[expr.leaf.place].bias is not None:
            bias = self._address(KernelPlace(Argument(Kind.BIAS, expr.leaf.place), f"{expr.leaf.offset} + c"))
            text += f" + tl.load({bias}, mask=real & (c < {expr.width}), other=0.0)"
        return text

    def _state(self, expr: Expr, *, after: bool) -> str:
        """A state before this step, or after it where the next step is meant; in a backward pass, from its history."""
        assert expr.leaf is not None
        _, index, offset, _ = expr.leaf
        width, columns = self.source.program.state[index], f"c < {expr.width}"
        start = KernelPlace(Argument(Kind.START, index), f"b * {width} + {offset} + c")
        if self.state_from is Kind.START:
            return f"tl.load({self._address(start)}, mask=real & ({columns}), other=0.0).to(tl.float32)"
        if self.state_from is Kind.STATE:
            old = self._load_fixed(KernelPlace(Argument(Kind.STATE, index), f"r * {width} + {offset} + c"), expr.width)
            if not after:
                return old
            (new,) = self.source.program.build.columns(self.source.program.after[index], offset, expr.width)
            return f"tl.where(alive, {self.value(new)}, {old})"
        history = Argument(Kind.HISTORY, index)
        if after:
            address = self._address(KernelPlace(history, f"at * {width} + {offset} + c"))
            return f"tl.load({address}, mask=alive & ({columns}), other=0.0).to(tl.float32)"
        address = self._address(KernelPlace(history, f"last * {width} + {offset} + c"))
        return (
            f"tl.load({address}, mask=alive & (s > 0) & ({columns}), other=0.0).to(tl.float32)"
            f" + tl.load({self._address(start)}, mask=alive & (s == 0) & ({columns}), other=0.0).to(tl.float32)"
        )

    def _load_fixed(self, place: KernelPlace, width: int) -> str:
        """Columns of a fixed buffer, loaded once, ahead of everything else."""
        key = ("fixed", place, width)
        if key not in self.names:
            name = f"f{len(self.ahead)}"
            self.ahead.append(f"{name} = tl.load({self._fix(place)}, mask=c < {width}, other=0.0).to(tl.float32)")
            self.names[key] = name
        return self.names[key]

    def _add_keep(self, line: str) -> None:
        self.stores += ["if KEEP:", f"    {line}"]

    def _fix(self, place: KernelPlace) -> str:
        """The text of a place in a fixed buffer, which becomes an argument of the kernel."""
        self.fixed.setdefault(place.argument)
        return f"{place.argument} + {place.offset}"

    def _address(self, place: KernelPlace) -> str:
        """The text of a place in a tensor that the table names, whose address a variable holds."""
        argument = place.argument
        typed = "tl.float32" if argument.is_float32 else "START" if argument.is_like_start else "DTYPE"
        address = f"p_{argument} = tl.load(own + {self.source.entry(argument)}).to(tl.pointer_type({typed}))"
        self.addresses.setdefault(argument, address)
        return f"p_{argument} + {place.offset}"
