"""One Triton kernel being written: loads and values as they are needed, stores at the end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from weft.nn.recurrent.engine.expr import Expr
from weft.nn.recurrent.engine.operations import OPERATIONS

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.triton_source import TritonSource

HEADER: Final = 3
"""Entries at the head of the table: batch, time, first step of the chunk."""

SINGLE: Final = ("vector", "bias", "shift")
"""What is read by column alone is given in float32, whatever the rest is in."""


class Kernel:
    """`state` says where states before the step are read: as first states, from fixed buffers, or from the history."""

    def __init__(self, source: TritonSource, name: str, *, state: str) -> None:
        self.source, self.name, self.state_from = source, name, state
        self.lines: list[str] = []
        self.stores: list[str] = []
        self.names: dict[object, str] = {}
        self.fixed: dict[str, None] = {}
        self.addresses: dict[str, str] = {}
        self.widths: list[int] = []
        self.ahead: list[str] = []
        self.prefetched: dict[str, str] = {}

    def text(self) -> str:
        """The whole function."""
        self.source.arguments[self.name] = list(self.fixed)
        self.source.widest[self.name] = max(self.widths, default=1)
        options = ("LENGTHS", "KEEP", "PREFETCH", "DTYPE", "START", "BLOCK")
        arguments = ["table", "lengths", *self.fixed, "j", *(f"{option}: tl.constexpr" for option in options)]
        onward = "(reverse == 0)" if self.state_from == "state" else "(reverse > 0)"
        head = [
            '@triton.jit(do_not_specialize=["j"])',
            f"def {self.name}({', '.join(arguments)}):",
            "    b, d, B = tl.program_id(0).to(tl.int64), tl.program_id(2), tl.num_programs(0)",
            "    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)",
            "    r = d * B + b",
            f"    slots = table + {HEADER} + d * SLOTS",
            "    batch, time, s, reverse = tl.load(table), tl.load(table + 1), tl.load(table + 2) + j, tl.load(slots)",
            *(f"    {line}" for line in self.addresses.values()),
            # What stands at a fixed place is asked for before anything waits for the table.
            *(f"    {line}" for line in self.ahead),
            "    if LENGTHS:",
            "        length = tl.load(lengths + b)",
            "    else:",
            "        length = time",
            "    real = b < batch",
            "    alive = real & (s < length)",
            "    at = b * time + tl.where(alive & (reverse > 0), length - 1 - s, s)",
            "    last = at + tl.where(reverse > 0, 1, -1)",
        ]
        lines = list(self.lines)
        if self.prefetched:
            lines += ["if PREFETCH:", f"    onward = at + tl.where({onward}, 1, -1)"]
            lines += [
                "    onward = tl.where((onward >= b * time) & (onward < (b + 1) * time) & real, onward, b * time)"
            ]
            for slot, place in self.prefetched.items():
                lines.append(f"    fetch(p_{slot} + {place})")
        body = [*lines, *self.stores] or ["pass"]
        return "\n".join([*head, *(f"    {line}" for line in body)]) + "\n"

    def store(
        self, expr: Expr, address: str, *, natural: bool, keep: bool = False, otherwise: str = "", zero: bool = False,
        carry: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        """natural: a buffer of the whole pass, zero past the end; otherwise: what a row past its end keeps."""
        value = self.value(expr)
        self.widths.append(expr.width)
        columns = f"(c < {expr.width})"
        if natural and keep:  # past the end nothing is read again
            self._add_keep(f"tl.store({self._address(address)}, {value}, mask=alive & {columns})")
        elif natural:
            self.stores.append(
                f"tl.store({self._address(address)}, tl.where(alive, {value}, 0.0), mask=real & {columns})"
            )
        else:
            self._fix(address)
            if otherwise:
                value = f"tl.where(alive, {value}, {self._load_fixed(otherwise, expr.width)})"
            elif carry is not None:
                value = f"tl.where(alive, {value}, {self.carried(*carry, expr.width)})"
            elif zero:
                value = f"tl.where(alive, {value}, 0.0)"
            self.stores.append(f"tl.store({address}, {value}, mask={columns})")

    def store_text(self, value: str, width: int, address: str) -> None:
        self.widths.append(width)
        self.stores.append(f"tl.store({self._address(address)}, {value}, mask=real & (c < {width}))")

    def store_value(self, value: str, width: int, address: str) -> None:
        self.widths.append(width)
        self._fix(address)
        self.stores.append(f"tl.store({address}, {value}, mask=c < {width})")

    def store_next(self, expr: Expr, address: str) -> None:
        """A left side of the next step: the states in it are those after this one."""
        value = self.value(expr, after=True)
        self.widths.append(expr.width)
        self._fix(address)
        self.stores.append(f"tl.store({address}, {value}, mask=c < {expr.width})")

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
            place = f"behind{number} + r * {source.program.state[number]} + {at} + c"
            self._fix(place)
            text = self._load_fixed(place, width)
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
        if kind == "vector":
            vector = self._address(f"{{vector{index}}} + {offset} + {'c' if stride else 'c * 0'}")
            return f"tl.load({vector}, mask=real & ({columns}), other=0.0)"
        if kind == "product":
            stage = source.program.products[index].stage
            group = source.stages[stage - 1]
            return self._product(f"product{stage}", group.width, group.result_at(index) + offset, expr)
        if kind == "grad_left":
            stage = source.adjoint.stages[index]
            group = source.back[stage - 1]
            if not group.speaks_for_left(index):
                return "0.0"
            row = [f"((d * {group.parts} + {part}) * B + b) * {group.depth}" for part in range(group.parts)]
            places = [f"grad_left{stage} + {start} + {group.left_at(index) + offset} + c" for start in row]
            return f"({' + '.join(self._load_fixed(place, expr.width) for place in places)})"
        if kind == "grad_after":
            return self.carried(index, offset, expr.width)
        if kind == "state":
            return self._state(expr, after=after)
        if kind == "grad_final":
            address = self._address(f"{{grad_final{index}}} + b * {source.program.state[index]} + {offset} + c")
            return f"tl.load({address}, mask=real & ({columns}), other=0.0).to(tl.float32)"
        if kind == "saved":
            buffer, start = source.layout.kept[index]
        else:
            buffer, start = (f"history{index}", 0) if kind == "after" else (f"{kind}{index}", 0)
        address = self._address(f"{{{buffer}}} + at * {source.layout.columns[buffer]} + {start + offset} + c")
        self.prefetched.setdefault(buffer, f"onward * {source.layout.columns[buffer]} + {start + offset} + c")
        text = f"tl.load({address}, mask=alive & ({columns}), other=0.0).to(tl.float32)"
        if kind == "hoisted" and index in source.biased:
            shift = self._address(f"{{shift{index}}} + {offset} + c")
            text += f" + tl.load({shift}, mask=real & ({columns}), other=0.0)"
        return text

    def _product(self, buffer: str, width: int, column: int, expr: Expr) -> str:
        assert expr.leaf is not None
        text = self._load_fixed(f"{buffer} + r * {width} + {column} + c", expr.width)
        if self.source.program.products[expr.leaf.place].bias is not None:
            bias = self._address(f"{{bias{expr.leaf.place}}} + {expr.leaf.offset} + c")
            text += f" + tl.load({bias}, mask=real & (c < {expr.width}), other=0.0)"
        return text

    def _state(self, expr: Expr, *, after: bool) -> str:
        """A state before this step, or after it where the next step is meant; in a backward pass, from its history."""
        assert expr.leaf is not None
        _, index, offset, _ = expr.leaf
        width, columns = self.source.program.state[index], f"c < {expr.width}"
        if self.state_from == "start":
            start = self._address(f"{{start{index}}} + b * {width} + {offset} + c")
            return f"tl.load({start}, mask=real & ({columns}), other=0.0).to(tl.float32)"
        if self.state_from == "state":
            old = self._load_fixed(f"state{index} + r * {width} + {offset} + c", expr.width)
            if not after:
                return old
            (new,) = self.source.program.build.columns(self.source.program.after[index], offset, expr.width)
            return f"tl.where(alive, {self.value(new)}, {old})"
        history = f"{{history{index}}} + {{place}} * {width} + {offset} + c"
        if after:
            address = self._address(history.replace("{place}", "at"))
            return f"tl.load({address}, mask=alive & ({columns}), other=0.0).to(tl.float32)"
        address = self._address(history.replace("{place}", "last"))
        start = self._address(f"{{start{index}}} + b * {width} + {offset} + c")
        return (
            f"tl.load({address}, mask=alive & (s > 0) & ({columns}), other=0.0).to(tl.float32)"
            f" + tl.load({start}, mask=alive & (s == 0) & ({columns}), other=0.0).to(tl.float32)"
        )

    def _load_fixed(self, place: str, width: int) -> str:
        """Columns of a fixed buffer, loaded once, ahead of everything else."""
        key = ("fixed", place, width)
        if key not in self.names:
            self._fix(place)
            name = f"f{len(self.ahead)}"
            self.ahead.append(f"{name} = tl.load({place}, mask=c < {width}, other=0.0).to(tl.float32)")
            self.names[key] = name
        return self.names[key]

    def _add_keep(self, line: str) -> None:
        self.stores += ["if KEEP:", f"    {line}"]

    def _fix(self, place: str) -> None:
        """Take a fixed buffer as an argument."""
        self.fixed.setdefault(place.split(" ", 1)[0])

    def _address(self, text: str) -> str:
        """An address with the slot in braces replaced by a variable that holds the slot's address."""
        slot = text[text.index("{") + 1 : text.index("}")]
        slots = self.source.slots
        if slot not in slots:
            slots.append(slot)
        typed = "DTYPE"
        if slot.startswith(SINGLE):
            typed = "tl.float32"
        elif slot.startswith(("start", "final", "grad_start", "grad_final")):
            typed = "START"
        self.addresses.setdefault(slot, f"p_{slot} = tl.load(slots + {slots.index(slot)}).to(tl.pointer_type({typed}))")
        return text.replace(f"{{{slot}}}", f"p_{slot}")
