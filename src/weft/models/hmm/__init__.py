"""Hidden Markov models of tags, of order 1 and 2, counted from tagged words."""

from weft.models.hmm.model import HiddenMarkovConfig, HiddenMarkovModel

__all__ = ["HiddenMarkovConfig", "HiddenMarkovModel"]
