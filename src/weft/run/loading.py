"""Loading a run: known file names only, checked against the manifest, nothing executed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_model
from torch import nn

from weft.catalog import TASKS
from weft.config import Config, validate
from weft.config.tree import HEAD
from weft.errors import ConfigError, RunError
from weft.nn import CellClass, UnknownCell
from weft.run.files import read_json
from weft.run.manifest import verify
from weft.run.outline import outlines
from weft.run.run import Run
from weft.run.save import CONFIG, LABELS, WEIGHTS, tokenizer_file
from weft.tasks import Codec
from weft.text import Tokenizer
from weft.training import choose_device


def load(path: str | Path, *, device: str = "auto", cells: Mapping[str, CellClass] | None = None) -> Run:
    """Read a run folder. Every file is checked against the manifest; nothing in it is ever executed.

    The folder only names a cell of your own: give its class again, as in cells={"mine": MyCell}.
    """
    folder = Path(path)
    verify(folder)
    config = load_config(folder, cells=cells)
    kind = TASKS[config.task]
    codec = load_codec(folder, config)
    with outlines():  # no memory is taken before the sizes are known to be those of the weights
        check_shapes(folder / WEIGHTS, kind.build(config.model, codec))
    model = kind.build(config.model, codec)
    load_model(model, str(folder / WEIGHTS))
    return Run(folder, config, kind(codec, config.data), model.to(choose_device(device, where="device")).eval())


def load_config(folder: Path, *, cells: Mapping[str, CellClass] | None = None) -> Config:
    """The configuration of a run, without the words about the format that stand before it."""
    tree = read_json(folder / CONFIG)
    if not isinstance(tree, dict):
        raise RunError("is not a table of settings", where=str(folder / CONFIG))
    tree = {key: value for key, value in tree.items() if key not in HEAD}
    try:
        return validate(tree, cells=cells, keep_unread=True)
    except ConfigError as error:
        if isinstance(error.__cause__, UnknownCell):
            name = error.__cause__.name
            cure = f'give its class: cells={{"{name}": …}}, or --import {name}=FILE.py:CLASS'
            raise RunError(f'has a cell of its own, "{name}"', where=str(folder), cure=cure) from None
        raise RunError(str(error), where=str(folder / CONFIG)) from None


def load_codec(folder: Path, config: Config) -> Codec:
    """Tokenizers and labels of a run."""
    roles = TASKS[config.task].roles(config.text)
    labels = read_json(folder / LABELS) if (folder / LABELS).exists() else []
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise RunError("is not a list of labels", where=str(folder / LABELS))
    tokenizers = {role: Tokenizer.load(folder / tokenizer_file(role), text) for role, text in roles.items()}
    return Codec(tokenizers, tuple(labels))


def check_shapes(path: Path, model: nn.Module) -> None:
    """The file holds tensors of the model's names and shapes; of tied tensors it holds one."""
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    try:
        with safe_open(path, framework="pt") as file:
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise RunError(f"cannot be read: {error}", where=str(path)) from None
    for name, shape in found.items():
        if wanted.get(name) != shape:
            what = f"has {name} {shape}, where the configuration asks for {wanted.get(name, 'no such tensor')}"
            raise RunError(what, where=str(path), cure="the folder mixes files of two runs")
