"""The plan in plain torch: a Python loop over the body, differentiated by autograd.

It serves what the kernels do not: cells with an operation they do not know, other types of numbers, machines without
a compiler. The products over all time steps are still done once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.nn.recurrent.engine.split import Split
from weft.nn.recurrent.lengths import reverse_rows


def recur(
    split: Split, inputs: list[Tensor], lengths: Tensor | None, time: int, *, reverse: bool
) -> list[list[Tensor]]:
    """hoisted (B * T, n), first states (B, n), constants, source -> emitted (B * T, n), last states (B, n); one
    direction.

    The lists of the states after each step and of the weights of attention are empty: nothing keeps them.
    """
    hoisted = [values.view(-1, time, *values.shape[1:]) for values in inputs[: split.hoisted]]
    state = inputs[split.hoisted : split.hoisted + split.state]
    constants = inputs[split.hoisted + split.state :]
    if reverse:
        hoisted = [reverse_rows(values, lengths) for values in hoisted]
    steps: list[list[Tensor]] = []
    for t, rows in enumerate(zip(*(values.unbind(1) for values in hoisted), strict=True)):
        results = split.body(*rows, *state, *constants)
        steps.append(results[: split.emitted])
        after = results[split.emitted :]
        if lengths is None:
            state = list(after)
        else:
            alive = (t < lengths)[:, None]
            state = [torch.where(alive, new, old) for new, old in zip(after, state, strict=True)]
    emitted = [torch.stack(values, dim=1) for values in zip(*steps, strict=True)]
    emitted = [(reverse_rows(values, lengths) if reverse else values).flatten(0, 1) for values in emitted]
    return [emitted, state, [], []]
