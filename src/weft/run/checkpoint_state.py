"""What a checkpoint holds besides weights: a tree of plain values and tensors, in a JSON file and a safetensors file.

In the JSON a tensor is `{"$tensor": its name in the other file}`, a tuple is `{"$tuple": [...]}`, and a number that is
not finite `{"$number": "nan"}`. Both files are read as the manifest of the checkpoint lists them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from weft.documents import to_json
from weft.errors import RunError
from weft.run.files import shorten
from weft.run.manifest import RunFiles, read_run
from weft.run.tensors import write_tensors
from weft.run.weights import open_tensors
from weft.tasks import Tree

PLAIN, TENSORS = "state.json", "state.safetensors"
TENSOR, TUPLE, NUMBER = "$tensor", "$tuple", "$number"


class Stateful(Protocol):
    """A part of a training that remembers something from update to update."""

    def state(self) -> Tree:
        """What it remembers: tables, lists, tuples, tensors, plain values."""
        ...

    def restore(self, state: Tree) -> None:
        """Go on from there."""
        ...


def copy_state(value: Any) -> Any:
    """The same tree with every tensor copied to memory that nothing else changes."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
    if isinstance(value, Mapping):
        return {key: copy_state(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(copy_state, value))
    return value


def write_state(folder: Path, state: Tree) -> dict[str, str]:
    """Write a tree whose tensors are in CPU memory; the SHA-256 of the large file, by its name."""
    tensors: dict[str, Tensor] = {}
    text = to_json(_pack(state, "", tensors), indent=2)
    (folder / PLAIN).write_text(text + "\n", encoding="utf-8")
    return {TENSORS: write_tensors(folder / TENSORS, tensors)}


def read_state(folder: Path) -> Tree:
    """All of it. A `RunError` says what is wrong with the files."""

    def read(files: RunFiles) -> Tree:
        plain = _read_plain(files)
        with open_tensors(files, TENSORS) as stored:
            try:
                tensors = {name: stored.read(name) for name in stored.places}
                found: Tree = _unpack(plain, tensors)
                if tensors:
                    raise ValueError(f"nothing names the tensor {min(tensors)}")
            except (KeyError, TypeError, ValueError) as error:
                raise RunError(f"is damaged: {shorten(str(error))}", where=str(folder / PLAIN)) from None
        return found

    return read_run(folder, read)


def read_plain(folder: Path) -> Tree:
    """The plain values alone, with the names of tensors where these stand."""
    return read_run(folder, _read_plain)


def _read_plain(files: RunFiles) -> Tree:
    found = files.read_json(PLAIN, constants=True)  # which stood there before `$number` did
    if not isinstance(found, dict):
        raise RunError("is not a table", where=str(files.folder / PLAIN))
    return found


def _pack(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors[path] = value
        return {TENSOR: path}
    if isinstance(value, Mapping):
        return {str(key): _pack(item, f"{path}/{key}" if path else str(key), tensors) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_pack(item, f"{path}/{number}", tensors) for number, item in enumerate(value)]
        return items if isinstance(value, list) else {TUPLE: items}
    if isinstance(value, float) and not math.isfinite(value):
        return {NUMBER: str(value)}
    return value


def _unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The value with its tensors, each taken out of the table: no two parts may share one."""
    if isinstance(value, dict):
        if TENSOR in value:
            return tensors.pop(value[TENSOR])
        if NUMBER in value:
            return float(value[NUMBER])
        if TUPLE in value:
            return tuple(_unpack(item, tensors) for item in value[TUPLE])
        return {key: _unpack(item, tensors) for key, item in value.items()}
    return [_unpack(item, tensors) for item in value] if isinstance(value, list) else value


LEAST = {"exp_avg_sq": 0.0}
"""The least that an optimizer keeps under a name."""


class Chance:
    """The random numbers of python, numpy, torch and every CUDA device."""

    def state(self) -> Tree:
        version, numbers, gauss = random.getstate()
        kind, keys, *rest = np.random.get_state()
        return {
            "python": (version, torch.tensor(numbers), gauss),
            "numpy": (kind, torch.from_numpy(np.asarray(keys, dtype=np.int64)), *rest),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        }

    def restore(self, state: Tree) -> None:
        version, numbers, gauss = state["python"]
        random.setstate((version, tuple(numbers.tolist()), gauss))
        kind, keys, *rest = state["numpy"]
        np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
        torch.set_rng_state(state["torch"])
        if len(state["cuda"]) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(state["cuda"])


class Moments:
    """What an optimizer keeps for each parameter, by the parameter's name.

    Its settings are not part of it: they are those of the configuration, and the rate is the schedule's.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        names = {parameter: name for name, parameter in model.named_parameters()}
        self.parameters = {
            names[parameter]: parameter for group in optimizer.param_groups for parameter in group["params"]
        }

    def state(self) -> Tree:
        state = self.optimizer.state
        return {name: dict(state[parameter]) for name, parameter in self.parameters.items() if parameter in state}

    def restore(self, state: Tree) -> None:
        """The optimizer reads its tensors at the length of the parameter without a look at theirs, so they are checked
        here. A sum of squares may have become infinite in a training, but nothing becomes NaN."""
        kept = {"exp_avg", "exp_avg_sq", "step"} if "betas" in self.optimizer.defaults else {"momentum_buffer"}
        for name, values in state.items():
            parameter = self.parameters[name]
            if values.keys() != kept or not all(_fits(key, value, parameter) for key, value in values.items()):
                raise ValueError(f"what the optimizer keeps of {name} does not fit it")
        numbers = {name: number for number, name in enumerate(self.parameters)}
        groups = self.optimizer.state_dict()["param_groups"]
        moments = {numbers[name]: values for name, values in state.items()}
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})


def _fits(key: str, value: Any, parameter: Tensor) -> bool:
    """Whether the optimizer may keep this for a parameter under that name."""
    if not isinstance(value, Tensor) or not value.is_floating_point() or bool(value.isnan().any()):
        return False
    if key == "step":
        return value.dim() == 0 and 0 <= float(value) < 2**53
    return (
        value.shape == parameter.shape
        and value.dtype == parameter.dtype
        and bool((value >= LEAST.get(key, -math.inf)).all())
    )
