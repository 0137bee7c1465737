"""The four policies for examples that are too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data import Limit, Overlong
from weft.errors import DataError


@pytest.mark.covers("T4")
@pytest.mark.parametrize(
    ("overlong", "pieces", "done"),
    [
        ("truncate", [[1, 2]], "cut off"),
        ("split", [[1, 2], [3, 4], [5]], "split"),
        ("drop", [], "left out"),
    ],
)
def test_policies_by_hand(overlong: Overlong, pieces: list[list[int]], done: str) -> None:
    limit = Limit(2, overlong)
    assert limit.cut([1, 2]) == [[1, 2]]
    assert limit.notes() == ()
    assert limit.cut([1, 2, 3, 4, 5]) == pieces
    assert limit.notes() == (f"{done} 1 example of more tokens than data.max_length = 2",)


def test_pieces_of_running_text_begin_with_the_token_before() -> None:
    assert Limit(2, "split", overlap=1).cut([0, 1, 2, 3, 4, 5]) == [[0, 1, 2], [2, 3, 4], [4, 5]]
    assert Limit(2, "truncate", overlap=1).cut([0, 1, 2, 3]) == [[0, 1, 2]]


@pytest.mark.parametrize("overlong", ["error", "truncate", "split", "drop"])
@pytest.mark.parametrize("max_length", [2, 3])
def test_what_fits_is_left_alone(overlong: Overlong, max_length: int) -> None:
    assert Limit(max_length, overlong).cut([1, 2]) == [[1, 2]]
    assert Limit(max_length, overlong).cut([]) == [[]]
    assert Limit(max_length, overlong, overlap=1).cut([0, 1, 2]) == [[0, 1, 2]]


def test_an_error_names_place_length_and_cure() -> None:
    with pytest.raises(DataError) as caught:
        Limit(1000, "error", overlap=1).cut([0] * 1201, "train.tsv:7")
    assert str(caught.value).startswith(
        "train.tsv:7: 1,200 tokens, more than data.max_length = 1,000 (raise data.max_length"
    )


@given(ids=st.lists(st.integers(), min_size=1), most=st.integers(1, 20), overlap=st.integers(0, 1))
def test_splitting_loses_nothing_and_repeats_only_the_overlap(ids: list[int], most: int, overlap: int) -> None:
    pieces = Limit(most, "split", overlap=overlap).cut(ids)
    assert pieces[0] + [one for piece in pieces[1:] for one in piece[overlap:]] == ids
    assert all(overlap < len(piece) <= most + overlap for piece in pieces[1:])
