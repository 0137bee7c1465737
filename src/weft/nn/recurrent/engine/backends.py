"""The ways to run a recurrence, for the choice between them and for `rnn.explain()`."""

from __future__ import annotations

from typing import Final, NamedTuple


class Way(NamedTuple):
    """How `explain` describes it, whether the engine runs it by a plan, and whether it has kernels for all steps."""

    words: str
    planned: bool
    fast: bool


BACKENDS: Final = {
    "cpu": Way("on the CPU, in C compiled for this machine", planned=True, fast=True),
    "cuda": Way("on the GPU, in generated kernels", planned=True, fast=True),
    "plain": Way("in plain torch, step by step with the input's products hoisted", planned=True, fast=False),
    "vendor": Way("on torch's own kernel, all steps in one call", planned=False, fast=True),
    "reference": Way("step by step, the cell as it is written", planned=False, fast=False),
}
