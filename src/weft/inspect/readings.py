"""States and gates of a model while it reads a text, by part and layer: the start of the views of gates and states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from weft.errors import ConfigError, DataError
from weft.inspect.lesson import loss_of, prepare_lesson
from weft.inspect.recurrent_trace import LayerPass, record_layers, run_cell
from weft.models import FittedModel
from weft.models.memory import Decoder, Encoder
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.rnn import RNN
from weft.run import Run

PARTS: Final = ("auto", "encoder", "decoder")
DIRECTIONS: Final = ("forward", "backward")


@dataclass(frozen=True)
class Reading:
    """A part of a model at each position of one text, in the order in which it reads them."""

    part: str
    """ "encoder" or "decoder"; "" for a model that is one network."""
    tokens: tuple[str, ...]
    passes: tuple[LayerPass, ...] = ()
    """The recurrent layers, with one row each."""
    outputs: tuple[Tensor, ...] = ()
    """The outputs (T, D) of each layer, of a part without recurrent layers."""

    @property
    def layers(self) -> int:
        return max((one.layer for one in self.passes), default=len(self.outputs))


def read_all(source: Run | nn.Module, text: Any, target: str | None = None) -> list[Reading]:
    """Let a run read a text, or a network a tensor (T, I), and return what each part did; empty for a model of counts.

    Nothing is left on the model.
    """
    if not isinstance(source, Run):
        return _read_module(source, text)
    if isinstance(source.model, FittedModel):
        return []
    taught = prepare_lesson(source, text, target)
    model, positions = source.model, taught.lesson.positions
    # With gradients, layers run as modules one by one, not in C as a whole.
    with record_layers(model) as passes, _record_outputs(model) as outputs, torch.enable_grad():
        loss_of(source, taught)
    found = []
    for part, tokens in positions.items():
        mine = [one for one in passes if part in one.path.split(".") and one.x.size(1) == len(tokens)]
        if mine:
            encoder = model.get_submodule(mine[0].path.rpartition(".")[0])
            order = encoder.reading_order(len(tokens)) if isinstance(encoder, Encoder) else range(len(tokens))
            found.append(Reading(part, tuple(tokens[place] for place in order), tuple(mine)))
        elif fitting := [one for path, one in outputs if part in path.split(".") and one.size(0) == len(tokens)]:
            found.append(Reading(part, tokens, outputs=tuple(fitting)))
    return found


def choose_reading(readings: Sequence[Reading], part: str) -> Reading:
    """Return the part that is asked for; "auto" is the first."""
    for reading in readings:
        if part in ("auto", reading.part):
            return reading
    parts = ", ".join(reading.part for reading in readings)
    raise ConfigError("the model has no such part with states", where=f'part = "{part}"', cure=f"choose from {parts}")


def choose_pass(reading: Reading, layer: int, direction: str) -> LayerPass:
    """Return the layer that is asked for, counted from 1; 0 is the last."""
    wanted = check_layer(reading, layer)
    found = [one for one in reading.passes if one.layer == wanted]
    for one in found:
        if one.direction == direction:
            return one
    raise ConfigError("it reads in one direction only", where=f'direction = "{direction}"', cure='use "forward"')


def check_layer(reading: Reading, layer: int) -> int:
    """Return the number of a layer from 1; 0 asks for the last."""
    if not 0 <= layer <= reading.layers:
        several = reading.layers > 1
        what = f"there are {reading.layers} layers" if several else "there is one layer"
        cure = f"from 1 to {reading.layers}" if several else "leave it out"
        raise ConfigError(what, where=f"layer = {layer}", cure=cure)
    return layer or reading.layers


def _read_module(model: nn.Module, x: Any) -> list[Reading]:
    """A network alone: an RNN, a cell, or a module around them that takes the tensor."""
    if not isinstance(x, Tensor) or x.dim() not in (2, 3) or (x.dim() == 3 and x.size(0) != 1) or not x.size(-2):
        raise DataError("a network without a run reads a tensor (T, I) of numbers", where="text", cure="give one")
    rows = (x if x.dim() == 3 else x[None]).detach()
    if isinstance(model, Cell):
        passes = [run_cell(model, rows)]
    else:
        training = model.training
        try:
            with record_layers(model.eval()) as passes, torch.no_grad():
                model(rows)
        finally:
            model.train(training)
    paths = list(dict.fromkeys(one.path for one in passes))
    every = {path: tuple(one for one in passes if one.path == path) for path in paths}
    return [
        Reading("" if isinstance(model, RNN | Cell) else path, tuple(map(str, range(1, mine[0].x.size(1) + 1))), mine)
        for path, mine in every.items()
    ]


@contextmanager
def _record_outputs(model: nn.Module) -> Iterator[list[tuple[str, Tensor]]]:
    """Record the outputs (T, D) of the layers of encoders and decoders that have no recurrent layers."""
    found: list[tuple[str, Tensor]] = []
    hooks = []
    for path, stack in model.named_modules():
        if not isinstance(stack, Encoder | Decoder) or any(isinstance(part, RNN) for part in stack.modules()):
            continue
        for layer in stack.each_layer():
            # The last of several parts of a layer has its output.
            module = list(layer)[-1] if isinstance(layer, nn.ModuleList) else layer

            def note(module: nn.Module, inputs: Any, output: Any, path: str = path) -> None:
                tensor = output[0] if isinstance(output, tuple) else output
                if isinstance(tensor, Tensor) and tensor.dim() == 3 and tensor.size(0) == 1:
                    found.append((path, tensor[0].detach()))

            hooks.append(module.register_forward_hook(note))
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
