"""Checkpoints that somebody else has made or changed: resuming refuses each in one line, and the files name it."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import weft as package
from weft.errors import RunError
from weft.run.folder.checkpoint import read_plain, read_state
from weft.run.folder.manifest import hash_file, write_manifest

ROWS = [(f"the {word} {number}", label) for number in range(20) for word, label in (("cat", "a"), ("red", "b"))]
TRAIN = {"steps": 9, "evaluate_every": 2, "checkpoint_every": 3, "average": 2, "patience": 99}
MODEL = {"embedding": 8, "hidden": 8}
TREE = {"task": "classify", "data": {"train": ROWS, "valid": ROWS}, "model": MODEL, "train": TRAIN}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished training whose last checkpoint is all there is of it, so that a longer one goes on from there."""
    folder = tmp_path_factory.mktemp("checkpoint") / "run"
    package.train(TREE, out=folder, quiet=True)
    return folder


@pytest.fixture
def run(stopped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "run"))


def checkpoint(run: Path) -> Path:
    (found,) = (run / "checkpoints").iterdir()
    return found


def resume(run: Path) -> package.Run:
    return package.train(TREE | {"train": TRAIN | {"steps": 10}}, out=run, resume=True, quiet=True)


def seal(folder: Path) -> None:
    names = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["sha256"]
    write_manifest(folder, {name: hash_file(folder / name) for name in names})


def tensors(path: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    found = {name: tensor.clone() for name, tensor in load_file(path).items()}
    change(found)
    save_file(found, path)


def plain(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    tree = json.loads(path.read_text(encoding="utf-8"))
    change(tree)
    path.write_text(json.dumps(tree), encoding="utf-8")


def test_an_unchanged_one_goes_on(run: Path) -> None:
    assert resume(run).report["steps"] == 10


def drop(part: str) -> Callable[[dict[str, torch.Tensor]], Any]:
    """Without the first tensor whose name has this in it."""
    return lambda found: found.pop(next(name for name in sorted(found) if part in name))


def nan(found: dict[str, torch.Tensor]) -> None:
    found[min(found)].view(-1)[:1] = float("nan")


def reshape(part: str) -> Callable[[dict[str, torch.Tensor]], Any]:
    def change(found: dict[str, torch.Tensor]) -> None:
        name = next(name for name in sorted(found) if part in name and found[name].dim() == 2)
        found[name] = found[name][:1].clone()

    return change


def replace_all(part: str, by: torch.Tensor) -> Callable[[dict[str, torch.Tensor]], Any]:
    return lambda found: found.update({name: by.clone() for name in found if name.endswith(part)})


def fill(part: str, value: float) -> Callable[[dict[str, torch.Tensor]], Any]:
    """The first number of one tensor, changed."""

    def change(found: dict[str, torch.Tensor]) -> None:
        found[next(name for name in sorted(found) if part in name)].view(-1)[:1] = value

    return change


def moments(tree: dict[str, Any]) -> dict[str, Any]:
    """What the optimizer keeps of one parameter."""
    kept: dict[str, dict[str, Any]] = tree["learning"]["parts"]["optimizer"]
    return kept[min(kept)]


UNFIT = "what the optimizer keeps of .* does not fit it"
UNFIT_OR_UNNAMED = f"{UNFIT}|nothing names the tensor"


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("model.safetensors", nan, r"model\.safetensors: has numbers in .* that are not finite"),
        ("model.safetensors", drop(""), r"model\.safetensors: lacks the tensor"),
        ("model.safetensors", reshape(""), r"model\.safetensors: has .* where the configuration asks for"),
        ("best.safetensors", nan, r"best\.safetensors: has numbers in .* that are not finite"),
        ("best.safetensors", drop(""), r"best\.safetensors: lacks the tensor"),
        ("state.safetensors", drop("exp_avg"), r"state\.json: is damaged: '.*exp_avg"),
        ("state.safetensors", reshape("exp_avg"), UNFIT),
        ("state.safetensors", replace_all("exp_avg", torch.ones(())), UNFIT),
        ("state.safetensors", replace_all("exp_avg_sq", torch.ones(1)), UNFIT),
        ("state.safetensors", fill("exp_avg", math.nan), UNFIT),
        ("state.safetensors", fill("exp_avg_sq", -1.0), UNFIT),
        ("state.safetensors", fill("/step", -1.0), UNFIT),
        ("state.safetensors", fill("/step", 1e30), UNFIT),
        ("state.safetensors", fill("chance/python", -5), "is of another training, or damaged: OverflowError"),
        ("state.safetensors", lambda found: found.update(more=torch.ones(2)), "nothing names the tensor more"),
        ("state.json", lambda tree: moments(tree).popitem(), UNFIT_OR_UNNAMED),
        ("state.json", lambda tree: moments(tree).update(exp_avg=7), UNFIT_OR_UNNAMED),
        ("state.json", lambda tree: moments(tree).update(exp_avg=moments(tree)["step"]), r"state\.json: is damaged"),
        ("state.json", lambda tree: tree["best"].update(step=17), "best.step is an update that was not made yet"),
        ("state.json", lambda tree: tree["best"].update(since="x"), "best.since is no count"),
        ("state.json", lambda tree: tree["best"].update(score=None), "best.score is no number"),
        ("state.safetensors", reshape("average"), "is of another shape or type"),
        ("state.safetensors", drop("chance"), r"state\.json: is damaged"),
        ("state.json", lambda tree: tree["learning"].pop("parts"), r"state\.json: is damaged: nothing names"),
        ("state.json", lambda tree: tree["average"].append(3), "is of another training, or damaged: TypeError"),
        ("state.json", lambda tree: tree.update(tokens={"$number": "many"}), r"state\.json: is damaged"),
    ],
)
def test_a_checkpoint_of_something_else(run: Path, name: str, change: Callable[[Any], Any], said: str) -> None:
    folder = checkpoint(run)
    (plain if name.endswith(".json") else tensors)(folder / name, change)
    seal(folder)
    with pytest.raises(RunError, match=said) as caught:
        resume(run)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.name == "nt", reason="it has no pipes with names")
@pytest.mark.parametrize("name", ["state.json", "state.safetensors", "best.safetensors"])
def test_nothing_is_opened_through_a_link_or_a_pipe(run: Path, name: str) -> None:
    path = checkpoint(run) / name
    path.symlink_to(path.rename(run / "elsewhere"))
    with pytest.raises(RunError, match=f"no checkpoint is whole: .*{name} cannot be read: is a link"):
        resume(run)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(RunError, match=f"no checkpoint is whole: .*{name} cannot be read: is no regular file"):
        resume(run)


def test_what_the_manifest_does_not_list_is_not_read(run: Path) -> None:
    folder = checkpoint(run)
    plain(folder / "manifest.json", lambda manifest: manifest["sha256"].pop("best.safetensors"))
    with pytest.raises(RunError, match=r"best\.safetensors: is not listed in manifest\.json"):
        resume(run)
    plain(folder / "manifest.json", lambda manifest: manifest["sha256"].clear())
    for read in (read_plain, read_state):
        with pytest.raises(RunError, match=r"state\.json: is not listed in manifest\.json"):
            read(folder)


def test_numbers_that_are_not_finite_are_read_as_they_once_were_written(run: Path) -> None:
    folder = checkpoint(run)
    plain(folder / "state.json", lambda tree: tree["best"].update(lowest=float("inf"), loss=float("nan")))
    assert "Infinity" in (folder / "state.json").read_text(encoding="utf-8")
    seal(folder)
    assert read_state(folder)["best"]["lowest"] == float("inf")


def test_a_carried_state_of_other_sizes(tmp_path: Path) -> None:
    """A running text goes on from the state that a checkpoint holds, which the kernels read at the model's sizes."""
    text = tmp_path / "text.txt"
    text.write_text("the cat sleeps and the dog runs\n" * 60, encoding="utf-8")
    train = TRAIN | {"truncate": 8, "batch_tokens": 32}
    tree = {"task": "lm", "data": {"train": str(text), "unit": "stream"}, "model": MODEL, "train": train}
    run = tmp_path / "run"
    package.train(tree, out=run, quiet=True)
    longer = tree | {"train": train | {"steps": 10}}
    shutil.copytree(run, tmp_path / "good")
    assert package.train(longer, out=tmp_path / "good", resume=True, quiet=True).report["steps"] == 10

    def cut(found: dict[str, torch.Tensor]) -> None:
        name = next(name for name in sorted(found) if "leaves" in name)
        found[name] = found[name][..., :1].clone()

    tensors(checkpoint(run) / "state.safetensors", cut)
    seal(checkpoint(run))
    with pytest.raises(RunError, match="the state that a checkpoint carries over is not of this model"):
        package.train(longer, out=run, resume=True, quiet=True)
