"""The text of one Triton kernel of a lane: the loop over time, or a part of its scan.

A step depends on the one before it, but what it reads from memory does not. So the text holds several steps, and the
loads of the next such block are issued before the arithmetic of this one, which hides their latency.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.nn.recurrent.engine.argument import Argument, Kind
from weft.nn.recurrent.engine.expr import Expr, closure
from weft.nn.recurrent.engine.lanes import Lane, Piece
from weft.nn.recurrent.engine.layout import Assignment
from weft.nn.recurrent.engine.linear import Order
from weft.nn.recurrent.engine.loop_source import lane_sums, sum_beside
from weft.nn.recurrent.engine.operations import OPERATIONS

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.loop_triton_source import TritonLoopSource

MAX_BLOCK_STEPS: Final = 8
"""Steps whose loads are issued together, at most."""

MAX_BLOCK_LOADS: Final = 32
"""Numbers that a thread loads together, at most: they stand in registers twice."""

MAX_BLOCK_OPERATIONS: Final = 320
"""Operations of a block of steps, at most: more take long to compile."""

ROW_ARGUMENTS: Final = ("lengths", "firsts", "rows", "time", "positions", "chunks", "steps")
"""What every kernel is given beside its tensors: of each row (B,) its length and, of segments, where it begins; B, T,
the steps of a buffer of all steps; the chunks of a row and the steps of each."""

COUNTS: Final = ROW_ARGUMENTS[2:]
"""Numbers for whose values no kernel is compiled anew."""

OPTIONS: Final = ("ROWS", "REVERSE", "SCAN", "BLOCK")
"""ROWS: 0 of equal length, 1 with lengths, 2 segments. REVERSE: bit d says whether direction d reads rows from their
end. SCAN: whether time is cut into chunks. BLOCK: columns of a program."""


class Read(NamedTuple):
    """Columns from `offset` on of a buffer, in the row of a step, or of the step before it."""

    buffer: Argument
    offset: int
    before: bool


class LaneKernel:
    """One kernel of a lane in one pass."""

    def __init__(self, source: TritonLoopSource, lane: Lane, *, backward: bool) -> None:
        self.source, self.lane, self.backward = source, lane, backward
        self.used: set[Argument] = set()
        self.reads: dict[Read, int] = {}
        """What a step loads, by number."""
        self.writes: dict[tuple[Argument, int], int] = {}
        """The places in buffers of all steps that a step stores to, by number."""
        self.fixed: dict[object, str] = {}
        """The names of what is the same in every step."""
        self.head: list[str] = []
        """The lines that make it."""

    def loop(self, name: str) -> str:
        """The loop over the steps of a row, or of one chunk of it."""
        lane, stores = self.lane, self.lane.backward if self.backward else self.lane.forward
        news = dict(enumerate(lane.before if self.backward else lane.after))
        sums = lane_sums(self.source.plan, stores)
        steps = self._steps(stores, news, {})
        lines = [f"sum{k} = tl.zeros([BLOCK], tl.float32)" for k in range(len(sums))]
        lines += [line for k in news for line in self._begin(k)] + steps
        last, ends = (Kind.GRAD_START, "k == 0") if self.backward else (Kind.FINAL, "ends")
        for k, piece in enumerate(lane.pieces):
            place = self._place(Argument(last, piece.state), "b", piece.offset)
            lines.append(f"tl.store({place}, now{k}, mask=fits & ({ends}))")
        for k, (buffer, offset) in enumerate(sums):
            lines.append(f"tl.store({self._place(buffer, 'chunk', offset)}, sum{k}, mask=fits)")
        if self.writes:
            lines += ["if ROWS > 0:", "    if k == chunks - 1:", "        for past in range(length, room):"]
            for buffer, offset in self.writes:
                place = self._place(buffer, "(first + past)", offset)
                lines.append(f"            tl.store({place}, tl.zeros([BLOCK], tl.float32), mask=fits)")
        return self._text(name, lines)

    def summary(self, name: str, order: Order, level: int) -> str:
        """The pieces of one level over a chunk: the product of their slopes, and where they end from zero."""
        news = self.lane.before if self.backward else self.lane.after
        chosen = {k: news[k] for k, at in enumerate(order.levels) if at <= level}
        mine = [k for k in chosen if order.levels[k] == level]
        steps = self._steps([], chosen, {k: order.slopes[k] for k in mine})
        # Nothing is carried on from the chunk that comes last.
        lines = [f"count = tl.where({'k == 0' if self.backward else 'left <= steps'}, 0, count)"]
        for k in chosen:
            if k in mine:
                lines += [f"now{k} = tl.zeros([BLOCK], tl.float32)", f"factor{k} = now{k} + 1.0"]
            else:
                lines += self._begin(k)
        lines += steps
        for k in mine:
            for kind, local in ((Kind.BEGIN, "now"), (Kind.SLOPE, "factor")):
                lines.append(f"tl.store({self._chunk(kind, k, 'chunk')}, {local}{k}, mask=fits)")
        return self._text(name, lines)

    def carry(self, name: str, order: Order, level: int) -> str:
        """The state at the beginning of each chunk, or the gradient that reaches it, from what the chunks have made."""
        mine = [k for k, at in enumerate(order.levels) if at == level]
        lines = ["last = tl.maximum(length - 1, 0) // steps", *(self._first(k) for k in mine)]
        lines.append(f"for i in range(0, last + 1, {MAX_BLOCK_STEPS}):")
        block = range(MAX_BLOCK_STEPS)
        for u in block:
            at = f"last - i - {u}" if self.backward else f"i + {u}"
            lines += [f"    here{u} = fits & (i + {u} <= last)", f"    at{u} = b * chunks + {at}"]
            for kind, k in ((kind, k) for k in mine for kind in (Kind.SLOPE, Kind.BEGIN)):
                place = self._chunk(kind, k, f"at{u}")
                lines.append(f"    {kind.value}_of{k}_{u} = tl.load({place}, mask=here{u}, other=0.0)")
        for u, k in ((u, k) for u in block for k in mine):
            lines.append(f"    tl.store({self._chunk(Kind.BEGIN, k, f'at{u}')}, now{k}, mask=here{u})")
            # The chunk that comes last has made nothing, and nothing is read of what is computed from it.
            # A state of zero stays zero, also where the product of many slopes above 1 is no number any more.
            lines.append(f"    now{k} = tl.where(now{k} == 0.0, 0.0, slope_of{k}_{u} * now{k}) + begin_of{k}_{u}")
        return self._text(name, lines, each_chunk=False)

    def _text(self, name: str, lines: list[str], *, each_chunk: bool = True) -> str:
        """The whole function."""
        given, directions = self.source.given[self.backward], self.source.directions
        used = [argument for argument in given if argument in self.used]
        tensors = [f"{argument}_{d}" for d in range(directions) for argument in given]
        chosen = [f"{argument} = {argument}_0" for argument in used]
        if directions == 2:
            chosen = ["if d == 0:", *(f"    {line}" for line in chosen), "else:"]
            chosen += [f"    {argument} = {argument}_1" for argument in used]
        head = [
            "d, task = tl.program_id(1), tl.program_id(0)",
            f"blocks = ({self.lane.width} + BLOCK - 1) // BLOCK",
            "c = task % blocks * BLOCK + tl.arange(0, BLOCK)",
            f"fits = c < {self.lane.width}",
            "chunk = (task // blocks).to(tl.int64)",
            "b, k = chunk // chunks, (chunk % chunks).to(tl.int32)" if each_chunk else "b, k = chunk, 0",
            *chosen,
            "first, length, room = b * time, time, time",
            "if ROWS > 0:",
            "    length = tl.load(lengths + b).to(tl.int32)",
            "if ROWS > 1:",
            "    first = tl.load(firsts + b)",
            "    room = (tl.load(firsts + b + 1, mask=b + 1 < rows, other=positions) - first).to(tl.int32)",
            "begin = k * steps",
            "left = length - begin",
            "count = tl.maximum(tl.minimum(left, steps), 0)",
            "ends = ((left > 0) & (left <= steps)) | ((length == 0) & (k == 0))",
            "reverse = (REVERSE >> d) & 1",
            "ahead = (1 - 2 * reverse).to(tl.int64)",
        ]
        body = [*head, *self.head, *lines]
        signature = ", ".join([*tensors, *ROW_ARGUMENTS, *(f"{option}: tl.constexpr" for option in OPTIONS)])
        # A thread loads one number at a time, for which no alignment helps.
        unaligned = [*tensors, *ROW_ARGUMENTS[:2]]
        decorator = f"@triton.jit(do_not_specialize={list(COUNTS)}, do_not_specialize_on_alignment={unaligned})"
        return "\n".join([decorator, f"def {name}({signature}):", *(f"    {line}" for line in body)]) + "\n"

    def _first(self, k: int) -> str:
        """What a row carries when it begins."""
        piece = self.lane.pieces[k]
        argument = Argument(Kind.GRAD_FINAL if self.backward else Kind.START, piece.state)
        place = self._place(argument, "b", piece.offset)
        return f"now{k} = tl.load({place}, mask=fits, other=0.0).to(tl.float32)"

    def _begin(self, k: int) -> list[str]:
        """What a chunk carries when it begins."""
        if self.source.plan.scans is None:
            return [self._first(k)]
        of_chunk = f"    now{k} = tl.load({self._chunk(Kind.BEGIN, k, 'chunk')}, mask=fits, other=0.0)"
        return ["if SCAN:", of_chunk, "else:", f"    {self._first(k)}"]

    def _chunk(self, kind: Kind, k: int, row: str) -> str:
        piece = self.lane.pieces[k]
        return self._place(Argument(kind, piece.state), row, piece.offset)

    def _place(self, argument: Argument, row: str, offset: int) -> str:
        """The columns of a program in a row of a buffer."""
        self.used.add(argument)
        return f"{argument} + {row} * {self.source.columns[argument]} + {offset} + c"

    def _steps(self, stores: list[Assignment], news: dict[int, Expr], slopes: dict[int, Expr]) -> list[str]:
        """All steps of a program, several at a time."""
        wanted = closure([*(store.expr for store in stores), *news.values(), *slopes.values()])
        for expr in wanted:
            if (read := self._read(expr)) is not None:
                self.reads.setdefault(read, len(self.reads))
        for store in stores:
            if not store.buffer.is_summed:
                self.writes.setdefault((store.buffer, store.offset), len(self.writes))
        operations = sum(1 for expr in wanted if expr.args)
        most = min(MAX_BLOCK_LOADS // max(1, len(self.reads)), MAX_BLOCK_OPERATIONS // max(1, operations))
        size = max(1, min(MAX_BLOCK_STEPS, 1 << (most.bit_length() - 1) if most else 1))
        body = [line for u in range(size) for line in self._step(wanted, stores, news, slopes, u)]
        step = "begin + count - 1" if self.backward else "begin"
        lines = [
            f"at = first + tl.where(reverse > 0, length - 1 - ({step}), {step})",
            f"way = {'-ahead' if self.backward else 'ahead'}",
        ]
        for read, n in self.reads.items():
            lines.append(f"p{n} = {self._place(read.buffer, '(at - ahead)' if read.before else 'at', read.offset)}")
        for (buffer, offset), n in self.writes.items():
            lines.append(f"q{n} = {self._place(buffer, 'at', offset)}")
        lines += [f"x{n}_{u} = {self._load(read, n, u, '')}" for read, n in self.reads.items() for u in range(size)]
        lines.append(f"for i in range(0, count, {size}):")
        inside = [f"p{n} += {size} * way * {self._row(read.buffer)}" for read, n in self.reads.items()]
        for read, n in self.reads.items():
            inside += [f"y{n}_{u} = {self._load(read, n, u, f'i + {size} + ')}" for u in range(size)]
        inside += body
        inside += [f"q{n} += {size} * way * {self._row(buffer)}" for (buffer, _), n in self.writes.items()]
        inside += [f"x{n}_{u} = y{n}_{u}" for n in self.reads.values() for u in range(size)]
        return lines + [f"    {line}" for line in inside]

    def _row(self, buffer: Argument) -> int:
        return self.source.columns[buffer]

    def _load(self, read: Read, n: int, u: int, block: str) -> str:
        """The load of step `block` + u of a program; before the first step of a row stands nothing."""
        real = f"({block}{u} < count)"
        if read.before:
            real += f" & (begin + count - 1 > {block}{u})"
        return f"tl.load(p{n} + {u} * way * {self._row(read.buffer)}, mask=fits & {real}, other=0.0)"

    def _step(
        self, wanted: list[Expr], stores: list[Assignment], news: dict[int, Expr], slopes: dict[int, Expr], u: int
    ) -> list[str]:
        """Step u of a block."""
        names: dict[Expr, str] = {}
        lines = [f"real{u} = i + {u} < count"]
        for expr in wanted:
            names[expr] = self._value(expr, names, lines, u)
        sums = lane_sums(self.source.plan, stores)

        def add(place: tuple[Argument, int], value: str) -> None:
            lines.append(f"sum{sums.index(place)} += tl.where(real{u}, {value}, 0.0)")

        for store in stores:
            value, place = names[store.expr], (store.buffer, store.offset)
            if store.buffer.is_summed:
                add(place, value)
                continue
            target = f"q{self.writes[place]} + {u} * way * {self._row(store.buffer)}"
            lines.append(f"tl.store({target}, {value}, mask=fits & real{u})")
            if (summed := sum_beside(self.source.plan, store)) is not None:
                add(summed, value)
        lines += [f"factor{k} = tl.where(real{u}, factor{k} * {names[expr]}, factor{k})" for k, expr in slopes.items()]
        return lines + [f"now{k} = tl.where(real{u}, {names[expr]}, now{k})" for k, expr in news.items()]

    def _value(self, expr: Expr, names: dict[Expr, str], lines: list[str], u: int) -> str:
        if expr.value is not None:
            return repr(expr.value) if math.isfinite(expr.value) else f'float("{expr.value}")'
        if expr in self.fixed:
            return self.fixed[expr]
        if expr.leaf:
            text = self._leaf(expr, u)
        else:
            text = OPERATIONS[expr.op].triton.format(*(names[arg] for arg in expr.args))
        if all(part.leaf is None or part.leaf.kind is Kind.VECTOR for part in closure([expr])):
            self.head.append(f"v{expr.number} = {text}")
            self.fixed[expr] = f"v{expr.number}"
            return self.fixed[expr]
        lines.append(f"v{expr.number}_{u} = {text}")
        return f"v{expr.number}_{u}"

    def _read(self, expr: Expr) -> Read | None:
        """What a step loads for a leaf, unless the leaf is carried or the same in every step."""
        if expr.leaf is None or expr.leaf.kind in (self._carried, Kind.VECTOR):
            return None
        kind, number, offset, _ = expr.leaf
        if kind in (Kind.STATE, Kind.AFTER):
            return Read(Argument(Kind.HISTORY, number), offset, before=kind is Kind.STATE)
        return Read(Argument(kind, number), offset, before=False)

    @property
    def _carried(self) -> Kind:
        return Kind.GRAD_AFTER if self.backward else Kind.STATE

    def _leaf(self, expr: Expr, u: int) -> str:
        assert expr.leaf is not None
        kind, number, offset, stride = expr.leaf
        if kind is self._carried:
            return f"now{self.lane.pieces.index(Piece(number, offset))}"
        if kind is Kind.VECTOR:
            self.used.add(Argument(kind, number))
            if not stride:
                return f"tl.load({Argument(kind, number)} + {offset}).to(tl.float32)"
            return f"tl.load({Argument(kind, number)} + {offset} + c, mask=fits, other=0.0).to(tl.float32)"
        read = self._read(expr)
        assert read is not None
        text = f"x{self.reads[read]}_{u}.to(tl.float32)"
        if kind is Kind.STATE:
            start = self._once(Argument(Kind.START, number), f"b * {self.source.columns[read.buffer]} + {offset} + c")
            return f"tl.where(begin + count - 1 == i + {u}, {start}, {text})"
        if kind is Kind.HOISTED and number in self.source.plan.biased:
            return f"{text} + {self._once(Argument(Kind.SHIFT, number), f'{offset} + c')}"
        return text

    def _once(self, argument: Argument, place: str) -> str:
        """Columns that are loaded before the loop."""
        key = (argument, place)
        if key not in self.fixed:
            name = f"{argument}_once{len(self.fixed)}"
            self.used.add(argument)
            self.head.append(f"{name} = tl.load({argument} + {place}, mask=fits, other=0.0).to(tl.float32)")
            self.fixed[key] = name
        return self.fixed[key]
