from __future__ import annotations

import torch

from weft.nn.recurrent.lengths import reverse_rows


def test_rows_of_any_shape_are_reversed_where_they_have_steps():
    x, lengths = torch.randn(3, 4, 1, 5), torch.tensor([4, 2, 0])
    found = reverse_rows(x, lengths)
    assert torch.equal(found, reverse_rows(x.flatten(2), lengths).view_as(x))
    assert torch.equal(found[0], x[0].flip(0))
    assert torch.equal(found[1], x[1][[1, 0, 2, 3]])
    assert torch.equal(found[2], x[2])
