"""Answers the rows of files in parts, on one machine or a cluster; a part that is finished is never computed again."""

from weft.batch.job import Answered, Progressed, predict_files

__all__ = ["Answered", "Progressed", "predict_files"]
