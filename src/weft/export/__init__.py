"""Export of runs to Hugging Face, CTranslate2, ARPA files and files of vectors; each is compared with the run."""

from weft.export.agreement import Agreement
from weft.export.arpa import ExportedArpa, export_arpa
from weft.export.c.html import ExportedHtml, export_html
from weft.export.export import FORMATS, Exported, export_run
from weft.export.vectors import ExportedVectors, export_vectors

__all__ = [
    "FORMATS",
    "Agreement",
    "Exported",
    "ExportedArpa",
    "ExportedHtml",
    "ExportedVectors",
    "export_arpa",
    "export_html",
    "export_run",
    "export_vectors",
]
