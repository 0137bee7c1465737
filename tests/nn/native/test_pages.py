"""Buffers on large pages and reused buffers hold numbers like any other tensor."""

from __future__ import annotations

import copy
import io
import mmap
import random
import threading

import pytest
import torch

from weft.nn.native import pages

WIDTH = 128
ROWS = 2 * pages.MIN_REUSED_BYTES // (4 * WIDTH)
LIKE = torch.empty(0)

needs_pages = pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="this system has no large pages")


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> pages.Pool:
    fresh = pages.Pool()
    monkeypatch.setattr(pages, "POOL", fresh)
    return fresh


def test_a_system_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_ADVICE", None)
    assert pages.empty(ROWS, WIDTH, LIKE).shape == (ROWS, WIDTH)


@pytest.mark.parametrize("rows", [0, 1, ROWS, 40 * ROWS])
def test_a_buffer_begins_on_a_line_and_is_as_large_as_asked(rows: int, pool: pages.Pool) -> None:
    found = [pages.empty(rows, WIDTH, LIKE).fill_(number) for number in range(5)]
    for number, one in enumerate(found):
        assert one.shape == (rows, WIDTH)
        assert one.is_contiguous()
        assert one.data_ptr() % 64 == 0
        assert (one == number).all()


@needs_pages
def test_a_buffer_is_used_again_when_the_last_view_is_gone_and_not_before(pool: pages.Pool) -> None:
    first = pages.empty(ROWS, WIDTH, LIKE)
    place, view = first.data_ptr(), first[3:]
    del first
    other = pages.empty(ROWS, WIDTH, LIKE)
    assert other.data_ptr() != place
    del view
    assert pages.empty(ROWS - 1, WIDTH, LIKE).data_ptr() == place


@needs_pages
def test_what_a_graph_keeps_is_not_given_away(pool: pages.Pool) -> None:
    kept = pages.empty(ROWS, WIDTH, LIKE).fill_(2).requires_grad_()
    result = (kept * kept).sum()
    pages.empty(ROWS, WIDTH, LIKE).fill_(7)
    (gradient,) = torch.autograd.grad(result, kept)
    assert (gradient == 4).all()


@needs_pages
def test_a_buffer_half_as_large_as_what_waits_is_fresh(pool: pages.Pool) -> None:
    place = pages.empty(4 * ROWS, WIDTH, LIKE).data_ptr()
    assert pages.empty(2 * ROWS, WIDTH, LIKE).data_ptr() != place


@needs_pages
def test_no_more_is_held_than_was_in_use_at_once(pool: pages.Pool) -> None:
    draw, mine, most = random.Random(0), list[torch.Tensor](), 0
    for _ in range(3 * pages.PEAK_REQUESTS):
        mine.append(pages.empty(draw.randint(ROWS, 60 * ROWS), WIDTH, LIKE))
        used = sum(loan.buffer.size for loan in pool.lent.values())
        most = max(most, used)
        assert used + sum(buffer.size for buffer in pool.idle) <= most
        draw.shuffle(mine)
        del mine[draw.randint(1, 6) :]


@needs_pages
def test_a_large_one_is_forgotten_in_time(pool: pages.Pool) -> None:
    large = pages.empty(400 * ROWS, WIDTH, LIKE)
    del large
    for _ in range(2 * pages.PEAK_REQUESTS + 1):
        small = pages.empty(ROWS, WIDTH, LIKE)
        del small
    assert sum(buffer.size for buffer in pool.idle) < 4 * ROWS * WIDTH * 4


def test_it_can_be_copied_saved_and_shared(pool: pages.Pool) -> None:
    found = pages.empty(ROWS, WIDTH, LIKE).fill_(3)
    file = io.BytesIO()
    torch.save(found, file)
    assert file.tell() < 2 * found.nbytes
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=True), found)
    assert torch.equal(copy.deepcopy(found), found)
    assert torch.equal(found.clone().share_memory_(), found.share_memory_())


def test_threads_that_ask_at_once_get_buffers_of_their_own(pool: pages.Pool) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(200):
            mine = [pages.empty(ROWS + turn % 7, WIDTH, LIKE).fill_(number) for _ in range(3)]
            wrong.extend(number for one in mine if not (one == number).all())

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
