"""Export of runs to other formats; each is compared with the run. Nothing is imported before it is used: the runner of
exported ONNX folders works without torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.export.agreement import Agreement
    from weft.export.arpa import ExportedArpa, export_arpa
    from weft.export.export import FORMATS, Exported, export_run
    from weft.export.vectors import ExportedVectors, export_vectors

__all__ = [
    "FORMATS",
    "Agreement",
    "Exported",
    "ExportedArpa",
    "ExportedVectors",
    "export_arpa",
    "export_run",
    "export_vectors",
]

_HOMES = {
    "Agreement": "agreement",
    "ExportedArpa": "arpa",
    "export_arpa": "arpa",
    "FORMATS": "export",
    "Exported": "export",
    "export_run": "export",
    "ExportedVectors": "vectors",
    "export_vectors": "vectors",
}
"""The module of each name."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"weft.export.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'weft.export' has no attribute '{name}'")
