"""Export of runs to Hugging Face transformers, CTranslate2 and ARPA files; each export is compared with the run."""

from weft.export.agreement import Agreement
from weft.export.arpa import ExportedArpa, export_arpa
from weft.export.export import FORMATS, Exported, export_run

__all__ = ["FORMATS", "Agreement", "Exported", "ExportedArpa", "export_arpa", "export_run"]
