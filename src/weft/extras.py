"""Packages that a part beyond the core needs, and the line that installs them wherever weft came from."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final, NamedTuple


class Extra(NamedTuple):
    """What it is for, and its packages as pip takes them; the list is that of pyproject.toml."""

    use: str
    packages: tuple[str, ...]

    @property
    def install(self) -> str:
        """A command that works from a clone too, where no package of weft's name can be found."""
        return "pip install " + " ".join(f"'{package}'" for package in self.packages)

    def found(self) -> dict[str, str | None]:
        """The version of each package; None where it is missing."""
        return {name: version_of(name) for name in (package.partition(">=")[0] for package in self.packages)}


EXTRAS: Final = {
    "plot": Extra("learning curves as pictures", ("altair>=5.5", "vl-convert-python>=1.7")),
    "track": Extra("TensorBoard logs", ("tensorboard>=2.18",)),
    "tune": Extra("weft sweep", ("optuna>=4.0",)),
    "hf": Extra("weft export --to huggingface", ("transformers>=5.0",)),
    "ct2": Extra("weft export --to ctranslate2", ("ctranslate2>=4.5",)),
}


def version_of(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
