"""Held-out examples share no text with the rest, and the choice is the same everywhere."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from weft.data import fingerprints, hold_out, overlap
from weft.errors import DataError

groups = st.lists(st.integers(0, 12), min_size=2, max_size=60)
fractions = st.floats(0, 1)


def prints(keys: list[int]) -> np.ndarray:
    return fingerprints(map(str, keys))


def test_fingerprints_are_fixed_for_ever() -> None:
    # What `b2sum -l 64` prints for "a b" and for nothing, its bytes from last to first.
    assert fingerprints(["a b", ""]).tolist() == [0x28F927C0A5DE37BB, 0xB4B2797457A0A6E4]
    assert fingerprints([]).shape == (0,)
    assert fingerprints(["x"]).dtype == np.uint64


def test_blanks_do_not_tell_texts_apart_but_case_does() -> None:
    spaced, tabbed, plain, upper, joined = fingerprints([" a  b ", "a\t\u00a0b", "a b", "A b", "ab"])
    assert spaced == tabbed == plain
    assert len({plain, upper, joined}) == 3


@given(keys=groups, fraction=fractions, most=st.integers(0, 30), seed=st.integers(0, 5))
def test_the_laws_of_holding_out(keys: list[int], fraction: float, most: int, seed: int) -> None:
    assume(len(set(keys)) > 1)
    held = hold_out(prints(keys), fraction=fraction, most=most, seed=seed)
    assert held.dtype == np.bool_
    inside = {key for key, out in zip(keys, held, strict=True) if out}
    outside = {key for key, out in zip(keys, held, strict=True) if not out}
    assert inside
    assert outside
    assert not inside & outside
    smallest = min(keys.count(key) for key in keys)
    assert held.sum() <= max(min(fraction * len(keys), most), smallest)


@given(keys=groups, seed=st.integers(0, 5), data=st.data())
def test_the_order_of_the_examples_does_not_matter(keys: list[int], seed: int, data: st.DataObject) -> None:
    assume(len(set(keys)) > 1)
    order = data.draw(st.permutations(range(len(keys))))
    values = prints(keys)
    assert (hold_out(values, seed=seed)[order] == hold_out(values[order], seed=seed)).all()


def test_the_amount_held_out() -> None:
    values = prints(list(range(1000)))
    assert hold_out(values).sum() == 100
    assert hold_out(values, fraction=0.25).sum() == 250
    assert hold_out(values, fraction=0.25, most=30).sum() == 30
    assert hold_out(values, fraction=1.0).sum() == 999
    assert hold_out(prints(list(range(50_000)))).sum() == 2000


def test_one_large_group_stays_for_training() -> None:
    values = prints([0] * 900 + list(range(1, 101)))
    for seed in range(20):
        held = hold_out(values, seed=seed)
        assert not held[:900].any()
        assert held.sum() == 100 - (held.sum() < 100)


def test_the_seed_decides() -> None:
    values = prints(list(range(300)))
    chosen = {hold_out(values, seed=seed).tobytes() for seed in range(-3, 10)}
    assert len(chosen) == 13
    counts = np.sum([hold_out(values, seed=seed) for seed in range(200)], axis=0)
    # Binomial with 200 draws of probability 0.1: mean 20, deviation 4.2.
    assert 4 <= counts.min() <= counts.max() <= 42


def test_the_choice_is_the_same_on_every_machine() -> None:
    assert np.flatnonzero(hold_out(prints(list(range(40))), seed=7)).tolist() == [3, 6, 7, 16]


@pytest.mark.parametrize("keys", [[], [1], [1, 1, 1]])
def test_one_text_cannot_be_split(keys: list[int]) -> None:
    with pytest.raises(DataError, match=r"data\.train: nothing to hold out from.*give a file as data\.valid"):
        hold_out(prints(keys))


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_overlap_counts_the_examples_of_the_test_set(train: list[int], test: list[int]) -> None:
    assert overlap(prints(train), prints(test)) == sum(key in train for key in test)


labelled = st.lists(st.tuples(st.integers(0, 15), st.sampled_from("abcd")), min_size=2, max_size=60)


@given(rows=labelled, fraction=fractions, most=st.integers(0, 30), seed=st.integers(0, 5))
def test_the_laws_of_holding_out_by_label(rows: list[tuple[int, str]], fraction: float, most: int, seed: int) -> None:
    keys, labels = [key for key, _ in rows], [label for _, label in rows]
    labels_of = {key: {label for other, label in rows if other == key} for key in keys}
    texts_of = {label: {key for key in keys if label in labels_of[key]} for label in labels}
    own = {key for key, found in labels_of.items() if len(found) == 1 and len(texts_of[min(found)]) > 1}
    assume(own)
    held = hold_out(prints(keys), strata=fingerprints(labels), fraction=fraction, most=most, seed=seed)
    inside = {key for key, out in zip(keys, held, strict=True) if out}
    outside = {key for key, out in zip(keys, held, strict=True) if not out}
    assert inside <= own
    assert inside
    assert not inside & outside
    assert {label for label, out in zip(labels, held, strict=True) if not out} == set(labels)
    assert held.sum() <= max(1, round(min(fraction * len(keys), most)), min(keys.count(key) for key in own))


def test_each_label_gives_its_share() -> None:
    labels = ["a"] * 700 + ["b"] * 240 + ["c"] * 59 + ["d"]
    for seed in range(10):
        held = hold_out(prints(list(range(1000))), strata=fingerprints(labels), seed=seed)
        counts = [int(held[np.array(labels) == label].sum()) for label in "abcd"]
        assert counts == [70, 24, 6, 0]


@pytest.mark.parametrize(("labels", "expected"), [("ab" * 10, [1, 1]), ("aaaab", [1, 0]), ("aab", [1, 0])])
def test_a_few_lines_leave_every_label_in_training(labels: str, expected: list[int]) -> None:
    held = hold_out(prints(list(range(len(labels)))), strata=fingerprints(labels))
    assert [int(held[np.array(list(labels)) == label].sum()) for label in "ab"] == expected


def test_labels_of_one_text_each_cannot_be_held_out() -> None:
    with pytest.raises(DataError, match=r"no label has two texts of its own .check data\.label"):
        hold_out(prints([1, 1, 2, 3]), strata=fingerprints("aabc"))
