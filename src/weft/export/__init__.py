"""Runs for other software, Hugging Face transformers and CTranslate2, each compared before it is left."""

from weft.export.agreement import Agreement
from weft.export.export import FORMATS, Exported, export_run

__all__ = ["FORMATS", "Agreement", "Exported", "export_run"]
