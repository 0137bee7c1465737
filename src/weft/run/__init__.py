"""Training writes a run folder, everything else reads it. Start with `train.py`; `folder/` has the files on disk."""

from weft.run.load import load
from weft.run.run import Run
from weft.run.stored import load_config
from weft.run.train import train, train_run
from weft.run.user_classes import import_classes

__all__ = ["Run", "import_classes", "load", "load_config", "train", "train_run"]
