"""Copies the weights of other runs into a new model, part by part, and notes what was taken, left and new.

A tensor is taken under the same name within its part. Shapes must be the same, with two exceptions:

    an input layer that also reads the characters of a word    the columns of the other features become 0
    a table of embeddings with more tokens, for languages      the other rows stay as they are

So an encoder computes the states of the run that it starts from, until it learns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from weft.errors import ConfigError, counted
from weft.models import stacks_of
from weft.run.load import load
from weft.run.run import Run
from weft.run.start import Start, StartRun
from weft.tasks import Task

WIDENED: Final = re.compile(r"rnn\.layers\.0\.cells\.\d+\.\w+\.weight|placed\.widen\.weight")
"""The matrices of a stack that read the embedded tokens, which other features may join."""

TABLE: Final = "embedding.weight"

MAX_PARTS: Final = 6
"""Parts that a note names."""

WIDEN, WIDEN_BIAS = "placed.widen.weight", "placed.widen.bias"
"""The map of a transformer from wider inputs to its width; without other features there is none."""


class Taken(NamedTuple):
    """The parameters of a model that no run gave a value, and notes for the user."""

    new: frozenset[str]
    notes: tuple[str, ...] = ()


def take_weights(model: nn.Module, task: Task, start: Start) -> Taken:
    """Copy the weights of the runs into the model."""
    if start.resumed is not None:  # a checkpoint has all weights
        return Taken(frozenset(start.resumed["new"]))
    runs = {source.run.path: source.run for source in start.sources.values()}
    loaded = {path: load(run.folder, device="cpu", cells=start.cells) for path, run in runs.items()}
    new, notes = {name for name, _ in model.named_parameters()}, []
    stacks = stacks_of(model)
    for path, run in runs.items():
        taken: set[str] = set()
        used: set[str] = set()
        for stack, source in start.sources.items():
            if source.run is run:
                names = copy_stack(stacks[stack], stacks_of(loaded[path].model)[source.stack], run)
                taken |= {f"{stack}.{name}" for name in names}
                used |= {f"{source.stack}.{name}" for name in names}
        if run.config.task == task.name:
            others = copy_others(model, loaded[path], same_labels=loaded[path].task.codec.labels == task.codec.labels)
            taken |= others
            used |= others
        if not taken:
            raise ConfigError("has no weights for this model", where=run.where, cure="start from another run")
        notes.append(_describe(run, model, loaded[path].model, taken, used))
        new -= taken
    tied = {id(parameter) for name, parameter in model.named_parameters(remove_duplicate=False) if name not in new}
    new = {name for name, parameter in model.named_parameters() if name in new and id(parameter) not in tied}
    if new:
        notes.append(f"new: {_parts(new, {name for name, _ in model.named_parameters()} - new)}")
    return Taken(frozenset(new), tuple(notes))


@torch.no_grad()
def copy_stack(stack: nn.Module, source: nn.Module, run: StartRun) -> set[str]:
    """Copy the weights of an encoder or a decoder; returns the names of what was taken."""
    weights, taken = source.state_dict(), set()
    for name, tensor in stack.state_dict().items():
        if name in weights:
            fill(tensor, weights[name], name, run)
            taken.add(name)
    if WIDEN in stack.state_dict() and WIDEN not in weights:
        own, size = stack.state_dict(), weights[TABLE].size(1) if TABLE in weights else 0
        if own[WIDEN].size(0) == size:
            own[WIDEN].zero_()
            own[WIDEN][:, :size] = torch.eye(size)
            own[WIDEN_BIAS].zero_()
    return taken


def fill(tensor: Tensor, value: Tensor, name: str, run: StartRun) -> None:
    """Copy a value into a tensor of its shape, or of a wider one where that is allowed."""
    if tensor.shape == value.shape:
        tensor.copy_(value)
    elif WIDENED.fullmatch(name) and tensor.size(0) == value.size(0) and tensor.size(1) > value.size(1):
        tensor.zero_()
        tensor[:, : value.size(1)] = value
    elif name == TABLE and tensor.size(1) == value.size(1) and tensor.size(0) > value.size(0):
        tensor[: value.size(0)] = value
    else:
        what = f"has {name} of {_shape(value)}, and this model has it of {_shape(tensor)}"
        raise ConfigError(what, where=run.where, cure="give both models the same sizes")


@torch.no_grad()
def copy_others(model: nn.Module, source: Run, *, same_labels: bool) -> set[str]:
    """Copy the parts beside the stacks from a run of the same task, by name, where the shapes are the same; scores of
    labels only if the labels are the same. Returns the names of what was taken."""
    own, weights, stacks = model.state_dict(), source.model.state_dict(), stacks_of(model)
    taken = set()
    for name, tensor in own.items():
        labelled = bool(source.task.codec.labels) and source.task.label_column is not None
        if name.split(".")[0] in stacks or name not in weights or weights[name].shape != tensor.shape:
            continue
        if labelled and not same_labels and name.split(".")[0] in ("scores", "crf", "thresholds"):
            continue
        tensor.copy_(weights[name])
        taken.add(name)
    return taken


def _describe(run: StartRun, model: nn.Module, source: nn.Module, taken: set[str], used: set[str]) -> str:
    own, theirs = model.state_dict(), source.state_dict()
    numbers = sum(tensor.numel() for name, tensor in own.items() if name in taken)
    kept = {tensor.data_ptr() for name, tensor in theirs.items() if name in used}  # also under other names, if tied
    left = {name for name, tensor in theirs.items() if tensor.data_ptr() not in kept}
    parts = dict.fromkeys(sorted(name.split(".")[0] for name in taken))
    whole = {name.split(".")[0] for name in own} - {name.split(".")[0] for name in own if name not in taken}
    shown = ", ".join(part if part in whole else f"{part} in part" for part in parts)
    rest = f"; left there: {_parts(left, used)}" if left else ""
    return f"starts from {run.path} ({run.config.task}): {shown} ({counted(numbers, 'number')}){rest}"


def _parts(names: set[str], others: Iterable[str]) -> str:
    """The parts that some tensors belong to: "encoder" if none of the others is in the encoder, else its modules."""
    mixed = {name.split(".")[0] for name in others}
    shown = [_module(name) if name.split(".")[0] in mixed else name.split(".")[0] for name in sorted(names)]
    found = list(dict.fromkeys(shown))
    return ", ".join(found[:MAX_PARTS]) + f" and {len(found) - MAX_PARTS} more" * (len(found) > MAX_PARTS)


def _module(name: str) -> str:
    """The module of a tensor; one name for those of all layers."""
    return re.sub(r"\.\d+(?=\.|$)", ".*", name.rpartition(".")[0] or name)


def _shape(tensor: Tensor) -> str:
    return " × ".join(map(str, tensor.shape))
