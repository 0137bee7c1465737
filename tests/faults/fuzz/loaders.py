"""Everything that reads a file from outside, as a function of a folder with that file in it; for a fork.

Exit code 0: it was read. 2: it was refused with an error of weft's. Anything else is a fault.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.hostile.change import sign
from tests.faults.hostile.commands import plainly

CPU_SECONDS = 10


def _table(name: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Iterable[object]:
        from weft.data import BadLines, read_labelled

        return list(read_labelled(str(folder / name), bad=BadLines(skip=False)))

    return read


def _pairs(folder: Path) -> Any:
    from weft.data import BadLines, read_pairs

    return list(read_pairs(str(folder / "pairs.tsv"), bad=BadLines(skip=False)))


def _tagged(name: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        from weft.data import BadLines, read_tagged

        return list(read_tagged(str(folder / name), bad=BadLines(skip=False)))

    return read


def _texts(folder: Path) -> Any:
    from weft.data import BadLines, read_stream, read_texts

    name = str(folder / "texts.txt")
    return [*read_texts(name, bad=BadLines(skip=False)), *read_stream(name, bad=BadLines(skip=False))]


def _folder_of_labels(folder: Path) -> Any:
    """The file is one of the texts of a folder per label."""
    from weft.data import BadLines, read_labelled

    for label in ("animal", "plant"):
        (folder / "all" / label).mkdir(parents=True)
    (folder / "all" / "plant" / "1.txt").write_text("a tree", encoding="utf-8")
    (folder / "1.txt").rename(folder / "all" / "animal" / "1.txt")
    return list(read_labelled(str(folder / "all"), bad=BadLines(skip=False)))


def _config(name: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        from weft.config import read_config

        return read_config(folder / name)

    return read


def _run(folder: Path) -> Any:
    """A run with the file in it, signed if it is not the manifest itself."""
    import weft

    if (folder / "signed").exists():
        sign(folder / "run")
    return weft.load(folder / "run").predict(["the red", "the cat"])


def _checkpoint(folder: Path) -> Any:
    """A run that goes on from a checkpoint with the file in it."""
    sign(folder / "run" / "checkpoints" / "6")
    words = (folder / "words").read_text(encoding="utf-8").split("\n")
    code = plainly([*words, str(folder / "run"), "--resume"])
    if code not in (0, 2):
        sys.exit(70)


class Loader(NamedTuple):
    """What reads a file, the path of the file in the folder, and a good one, by its path in a folder of samples."""

    read: Callable[[Path], Any]
    path: str
    base: str = ""
    """The run around the file, if there is one."""


LOADERS = {
    "labelled.tsv": Loader(_table("labelled.tsv"), "labelled.tsv"),
    "labelled.csv": Loader(_table("labelled.csv"), "labelled.csv"),
    "labelled.json": Loader(_table("labelled.json"), "labelled.json"),
    "labelled.jsonl": Loader(_table("labelled.jsonl"), "labelled.jsonl"),
    "pairs.tsv": Loader(_pairs, "pairs.tsv"),
    "tagged.conllu": Loader(_tagged("tagged.conllu"), "tagged.conllu"),
    "tagged.txt": Loader(_tagged("tagged.txt"), "tagged.txt"),
    "texts.txt": Loader(_texts, "texts.txt"),
    "folder of labels": Loader(_folder_of_labels, "1.txt"),
    "config.toml": Loader(_config("config.toml"), "config.toml"),
    "config.json": Loader(_config("config.json"), "config.json"),
    "manifest": Loader(_run, "run/manifest.json", "classify"),
    "config of a run": Loader(_run, "run/config.json", "classify"),
    "weights": Loader(_run, "run/model.safetensors", "classify"),
    "tokenizer": Loader(_run, "run/tokenizer.json", "classify"),
    "labels": Loader(_run, "run/labels.json", "classify"),
    "state of a checkpoint": Loader(_checkpoint, "run/checkpoints/6/state.json", "halfway"),
    "tensors of a checkpoint": Loader(_checkpoint, "run/checkpoints/6/state.safetensors", "halfway"),
}


def load(name: str) -> int:
    """In a fork, in the folder with the file: read it within a limit of processor time."""
    import resource

    from weft.errors import WeftError

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    try:
        LOADERS[name].read(Path.cwd())
    except WeftError as error:
        said = str(error)
        os.write(2, said[:400].encode("utf-8", "backslashreplace"))
        return 2
    return 0
