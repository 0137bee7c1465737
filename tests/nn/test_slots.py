"""States in slots: what a step returned is copied into the buffers of the state before it."""

from __future__ import annotations

import torch

from weft.nn import Shared
from weft.nn.slots import write, written


def test_a_step_may_pass_on_tensors_in_other_places() -> None:
    first, second = torch.ones(2), torch.full((2,), 2.0)
    write((first, second), (second, first))
    assert first.tolist() == [2, 2]
    assert second.tolist() == [1, 1]
    write((first, second), (torch.full((2,), 9.0), first))
    assert first.tolist() == [9, 9]
    assert second.tolist() == [2, 2]


def test_part_of_a_buffer_may_come_again() -> None:
    window = torch.arange(8.0).view(2, 4)
    write((window,), (torch.cat([window[:, 1:], window[:, :1]], dim=1),))
    assert window.tolist() == [[1, 2, 3, 0], [5, 6, 7, 4]]
    write((window,), (window.flip(1),))
    write((window,), (window.view(2, 2, 2).transpose(0, 2).reshape(2, 4),))
    assert window.sum() == 28


def test_what_rows_share_is_not_written() -> None:
    shared, own = Shared(torch.zeros(1, 3), torch.tensor([0]), 1), torch.zeros(1, 2)
    assert written((own, (None, shared))) == [own]
    write((own, shared), (own + 1, shared._replace(value=torch.ones(1, 3))))
    assert own.tolist() == [[1, 1]]
    assert not shared.value.any()
