"""Optional packages, the features that need them, and the command that installs them."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final, NamedTuple


class Extra(NamedTuple):
    """A feature and its packages as pip takes them; pyproject.toml has the same list."""

    use: str
    packages: tuple[str, ...]

    @property
    def install(self) -> str:
        """The install command. It names the packages, since `weft[…]` cannot be installed from a clone by name."""
        return "pip install " + " ".join(f"'{package}'" for package in self.packages)

    def found(self) -> dict[str, str | None]:
        """The version of each package; None if it is missing."""
        return {name: version_of(name) for name in (re.split(r"[\[>]", package)[0] for package in self.packages)}


EXTRAS: Final = {
    "plot": Extra("learning curves as pictures", ("altair>=5.5", "vl-convert-python>=1.7")),
    "serve": Extra("weft serve", ("fastapi>=0.115", "uvicorn>=0.32", "prometheus-client>=0.21")),
    "studio": Extra("weft studio", ("fastapi>=0.115", "uvicorn>=0.32", "altair>=5.5", "vl-convert-python>=1.7")),
    "track": Extra("TensorBoard logs", ("tensorboard>=2.18",)),
    "tune": Extra("weft sweep", ("optuna>=4.0",)),
    "vision": Extra("pictures, for captions", ("pillow>=11.0",)),
    "data": Extra("Parquet files and Hugging Face data sets", ("datasets>=3.0",)),
    "ray": Extra("batches on a cluster: weft predict --engine ray", ("ray[data]>=2.60",)),
    "hf": Extra("weft export --to huggingface", ("transformers>=5.0",)),
    "onnx": Extra("weft export --to onnx", ("onnx>=1.17", "onnxruntime>=1.20")),
    "ct2": Extra("weft export --to ctranslate2", ("ctranslate2>=4.5",)),
}


def version_of(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
