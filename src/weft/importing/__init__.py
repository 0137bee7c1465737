"""Runs made of models that other software has trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from weft.errors import ConfigError, DataError
from weft.importing.arpa import import_arpa
from weft.importing.huggingface import import_huggingface
from weft.run import Run
from weft.run.folder.files import check_path

CHECKPOINT_FILES: Final = (".json", ".safetensors", ".bin", ".pt", ".h5", ".msgpack", ".spm")
"""The ends of names of files in the folder of a checkpoint."""

__all__ = ["import_arpa", "import_huggingface", "import_run"]


def import_run(
    path: str | Path,
    out: str | Path | None = None,
    *,
    pair: bool = False,
    text: Mapping[str, Any] = MappingProxyType({}),
    note: Callable[[str], None] | None = None,
) -> Run:
    """Make a run in the folder `out` of a Hugging Face checkpoint, which is a folder, or of an ARPA file.

    With `pair` the inputs of a classifier are pairs of texts. `text` are settings by which texts become the words of an
    ARPA file. `note` is called with a sentence about what was left out of a checkpoint.
    """
    check_path(path, "path")
    if Path(path).is_dir():
        for name in text:
            raise ConfigError("is for an ARPA file: a checkpoint has its tokenizer", where=f"text.{name}")
        return import_huggingface(path, out=out, pair=pair, note=note)
    if not Path(path).exists():
        cure = "a checkpoint of the hub is downloaded first: huggingface-cli download NAME --local-dir FOLDER"
        raise DataError("no such file or folder", where=str(path), cure=cure)
    if Path(path).suffix in CHECKPOINT_FILES:
        cure = f"give the folder: {Path(path).parent}"
        raise DataError("is a file of a checkpoint, which is a folder", where=str(path), cure=cure)
    return import_arpa(path, out=out, text=text)
