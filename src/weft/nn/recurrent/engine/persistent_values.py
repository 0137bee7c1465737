"""The values of one step in a persistent kernel's text: where each comes from, and the lines that compute it."""

from __future__ import annotations

from weft.nn.recurrent.engine.argument import Argument, Kind
from weft.nn.recurrent.engine.expr import Expr
from weft.nn.recurrent.engine.lanes import Piece
from weft.nn.recurrent.engine.operations import COMPARISONS, OPERATIONS, c_number
from weft.nn.recurrent.engine.persistent_plan import EXCHANGE, MATRIX, PersistentPlan


class StepValues:
    """Writes the lines of a step as its values are asked for, and lists what they need beside it."""

    def __init__(self, persistent: PersistentPlan, *, backward: bool) -> None:
        self.plan, self.lane, self.backward = persistent.plan, persistent.lane, backward
        self.mine = persistent.one(backward=backward)
        self.arguments: list[Argument] = [MATRIX]
        """The tensors of the kernel, in the order of its table."""
        self.names: dict[Expr, str] = {}
        self.head: list[str] = []
        """The lines before the loop, for what is the same in every step."""
        self.reads: dict[tuple[Argument, int, bool], str] = {}
        """The names of what a step reads from memory: columns from an offset on, of this step or of the one before."""
        self.kept = False
        """Whether values are written to arrays, because they are read again after the product."""
        self.arrays: dict[str, str] = {}
        """The arrays with their types."""
        self._lines: list[str] = []
        self._once: dict[object, str] = {}

    def taken(self) -> list[str]:
        """The lines that were written since the last call."""
        lines, self._lines = self._lines, []
        return lines

    def columns(self, argument: Argument) -> int:
        if argument == EXCHANGE:
            return self.mine.depth
        return self.plan.layout.columns[argument]

    def type_of(self, argument: Argument) -> str:
        if argument.is_float32:
            return "float"
        return "start_t" if argument.is_like_start else "half_bits"

    def use(self, argument: Argument) -> str:
        if argument not in self.arguments:
            self.arguments.append(argument)
        return str(argument)

    def state_width(self, piece: Piece) -> int:
        return self.plan.program.state[piece.state]

    def start(self, k: int, kind: Kind) -> str:
        """What a row carries when it begins."""
        piece = self.lane.pieces[k]
        pointer = self.use(Argument(kind, piece.state))
        return f"real[p] ? from_start({pointer}[b[p] * {self.state_width(piece)} + {piece.offset} + unit]) : 0.0f"

    def value(self, expr: Expr) -> str:
        if expr.value is not None:
            return c_number(expr.value)
        if expr in self.names:
            return self.names[expr]
        text = self._leaf(expr) if expr.leaf else self._operation(expr)
        if text.removesuffix("[p]").isidentifier():
            self.names[expr] = text
            return text
        kind = "int" if expr.op in COMPARISONS else "float"
        name = f"v{expr.number}"
        if self.kept:
            self.arrays[name] = kind
            name += "[p]"
        self._lines.append(f"{name} = {text};" if self.kept else f"const {kind} {name} = {text};")
        self.names[expr] = name
        return name

    def _operation(self, expr: Expr) -> str:
        return OPERATIONS[expr.op].c.format(*(self.value(arg) for arg in expr.args))

    def _leaf(self, expr: Expr) -> str:
        assert expr.leaf is not None
        kind, number, offset, stride = expr.leaf
        here = Argument(kind, number)
        if kind is (Kind.GRAD_AFTER if self.backward else Kind.STATE):
            return f"{'carry' if self.backward else 'state'}{self.lane.pieces.index(Piece(number, offset))}[p]"
        if kind is Kind.VECTOR:
            return self._load_once(here, f"{offset} + unit" if stride else str(offset))
        if kind in (Kind.PRODUCT, Kind.GRAD_LEFT):
            if expr not in self.mine.leaves:
                return "0.0f"
            place = list(self.mine.leaves).index(expr)
            text = f"collect(sums, {place} * UNITS + THREAD % UNITS, row[p])"
            if kind is Kind.PRODUCT and self.plan.program.products[number].bias is not None:
                text += f" + {self._load_once(Argument(Kind.BIAS, number), f'{offset} + unit')}"
            return text
        if kind is Kind.SAVED:
            here, start = self.plan.layout.kept[number]
            return f"from_half({self._read(here, start + offset, before=False)})"
        if kind is Kind.AFTER:
            return f"from_half({self._read(Argument(Kind.HISTORY, number), offset, before=False)})"
        if kind is Kind.STATE:
            piece = self.lane.pieces.index(Piece(number, offset))
            key = ("start", piece)
            if key not in self._once:
                self._once[key] = f"begin{piece}[p]"
                begin = f"begin{piece}[p] = {self.start(piece, Kind.START)};"
                self.head += [f"float begin{piece}[PAIRS];", f"EACH_PAIR {begin}"]
            read = self._read(Argument(Kind.HISTORY, number), offset, before=True)
            return f"(s > 0 ? from_half({read}) : {self._once[key]})"
        text = f"from_half({self._read(here, offset, before=False)})"
        if kind is Kind.HOISTED and number in self.plan.biased:
            text += f" + {self._load_once(Argument(Kind.SHIFT, number), f'{offset} + unit')}"
        return text

    def _read(self, buffer: Argument, offset: int, *, before: bool) -> str:
        self.use(buffer)
        return self.reads.setdefault((buffer, offset, before), f"x{len(self.reads)}") + "[p]"

    def _load_once(self, argument: Argument, place: str) -> str:
        key = (argument, place)
        if key not in self._once:
            name = f"once{len(self._once)}"
            self.head.append(f"const float {name} = mine ? {self.use(argument)}[{place}] : 0.0f;")
            self._once[key] = name
        return self._once[key]
