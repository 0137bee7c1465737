"""weft trains, measures and exports sequence models from a file of examples.

import weft

run = weft.train({"task": "translate", "data": {"train": "pairs.tsv"}})
run.predict(["the small cat"])
weft.load("runs/translate-1").evaluate("test.tsv")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.forking import compute_alone_after_fork
from weft.spinning import bound_spinning
from weft.version import __version__

if TYPE_CHECKING:
    from weft import grammar, inspect, nn
    from weft.batch import predict_files
    from weft.importing import import_run
    from weft.run.load import load
    from weft.run.run import Run
    from weft.run.train import train

__all__ = [
    "Run",
    "WeftError",
    "__version__",
    "grammar",
    "import_run",
    "inspect",
    "load",
    "nn",
    "predict_files",
    "train",
]

bound_spinning()
compute_alone_after_fork()

_HOMES = {
    "Run": "weft.run",
    "import_run": "weft.importing",
    "load": "weft.run",
    "predict_files": "weft.batch",
    "train": "weft.run",
}


def __getattr__(name: str) -> Any:
    """Import heavy parts when they are first used, so that `import weft` and `weft --help` are quick."""
    if name in ("grammar", "inspect", "nn"):
        return import_module(f"weft.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'weft' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
