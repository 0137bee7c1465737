"""Many runs over a configuration: a search for the settings that score best on validation data."""

from weft.sweep.space import Choice, Dimension, Range, read_space
from weft.sweep.study import sweep
from weft.sweep.trial import Outcome, Trial

__all__ = ["Choice", "Dimension", "Outcome", "Range", "Trial", "read_space", "sweep"]
