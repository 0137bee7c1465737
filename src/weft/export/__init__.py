"""Export of runs to other software, Hugging Face transformers and CTranslate2; each export is compared first."""

from weft.export.agreement import Agreement
from weft.export.export import FORMATS, Exported, export_run

__all__ = ["FORMATS", "Agreement", "Exported", "export_run"]
