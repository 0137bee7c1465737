"""ONNX: programs written as graphs (`weft export --to onnx`), and the `Runner` of the folders, which needs no torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.export.onnx.folder import export_onnx
    from weft.export.onnx.runner import Runner

__all__ = ["Runner", "export_onnx"]

_HOMES = {"Runner": "weft.export.onnx.runner", "export_onnx": "weft.export.onnx.folder"}


def __getattr__(name: str) -> Any:
    """Import each part when it is first used: one imports torch, and the other must not."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'weft.export.onnx' has no attribute '{name}'")
