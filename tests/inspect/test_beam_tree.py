"""The tree of a beam search: hand-worked numbers, and a best leaf that is what the run predicts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.cells import cell_len
from torch import Tensor

import weft as library
from weft.decoding import Step
from weft.errors import ConfigError
from weft.inspect import BeamTree, Nothing, beam, beam_lines, view_kind
from weft.inspect.beam_chart import MAX_DRAWN_NODES, show_share, tree_rows
from weft.run import Run
from weft.text import EOS, SPECIALS

YES, OK = 5, 6
TABLE = {
    (): {YES: 0.5, OK: 0.4, EOS: 0.1},
    (YES,): {YES: 0.4, OK: 0.3, EOS: 0.3},
    (OK,): {YES: 0.2, OK: 0.7, EOS: 0.1},
}
WORDS = [*SPECIALS, "yes", "ok"]
NUMBERS = {"one": "un", "two": "deux", "three": "trois", "four": "quatre", "five": "cinq", "six": "six"}


class TableModel:
    """P(next | tokens so far) from a table; then the end for sure."""

    def __init__(self, table: Any = TABLE, vocabulary: int = 7) -> None:
        self.table, self.vocabulary = table, vocabulary

    def start(self, memory: Any, rows: Tensor) -> Tensor:
        return torch.zeros(len(rows), 0, dtype=torch.long)

    def step(self, tokens: Tensor, state: Tensor) -> Step:
        state = torch.cat((state, tokens[:, None]), dim=1)
        logits = torch.full((len(tokens), self.vocabulary), -torch.inf)
        for row, (_sos, *said) in enumerate(state.tolist()):
            for token, probability in self.table.get(tuple(said), {EOS: 1.0}).items():
                logits[row, token] = math.log(probability)
        return Step(logits, state)


def yes_ok(width: int, **options: Any) -> BeamTree:
    found = beam(TableModel(), beam=width, words=WORDS, length_penalty=0.0, max_length=3, **options)
    assert isinstance(found, BeamTree)
    return found


@pytest.mark.covers("I4", "D4")
def test_greedy_goes_down_one_branch_and_a_beam_of_two_finds_the_better_one() -> None:
    greedy, tree = yes_ok(1), yes_ok(2)
    assert [(leaf.text, round(math.exp(leaf.sum), 6)) for leaf in greedy.leaves] == [("yes yes", 0.2)]
    assert [(leaf.text, round(math.exp(leaf.sum), 6)) for leaf in tree.leaves] == [("ok ok", 0.28), ("yes yes", 0.2)]
    edges = [(one.step, one.text, one.state, round(math.exp(one.log_probability), 6)) for one in tree.tree.nodes[1:]]
    assert sorted(edges, key=lambda edge: (edge[0], -edge[3], edge[1])) == [
        (1, "yes", "kept", 0.5),
        (1, "ok", "kept", 0.4),
        (1, "<eos>", "dropped", 0.1),
        (2, "ok", "kept", 0.7),
        (2, "yes", "kept", 0.4),
        (2, "<eos>", "dropped", 0.3),
        (2, "ok", "dropped", 0.3),
        (2, "yes", "dropped", 0.2),
        (2, "<eos>", "dropped", 0.1),
        (3, "<eos>", "finished", 1.0),
        (3, "<eos>", "finished", 1.0),
    ]
    best = tree.tree.path(tree.leaves[0].node)
    assert [one.text for one in best] == ["ok", "ok", "<eos>"]
    assert [one.rank for one in best] == [1, 1, 1]


def test_a_branch_that_leaves_the_beam_is_pruned_at_that_step() -> None:
    """Three lanes at the first step; at the second, both places go to children of the best."""
    table = {(): {5: 0.6, 6: 0.4}, (5,): {5: 0.5, 6: 0.5}, (6,): {5: 0.5, 6: 0.5}}
    found = beam(TableModel(table), beam=2, max_length=3, length_penalty=0.0, words=WORDS, candidates=0)
    assert isinstance(found, BeamTree)
    first, second = (one for one in found.tree.nodes if one.step == 1)
    assert (found.tree.pruned_at(first), found.tree.pruned_at(second)) == (None, 2)
    assert found.fate(second) == "pruned at step 2"
    assert not [one for one in found.tree.nodes if one.state == "dropped"]
    row = next(row for row in tree_rows(found) if row["fate"] == "pruned at step 2")
    assert row["until"] == 1


def test_lines_fit_the_terminal_and_name_the_best() -> None:
    lines = [line.plain for line in yes_ok(2).lines(60)]
    assert "● .40 ok  .70 ok  1 ■ #1 score -1.273" in lines
    assert "├─ .50 yes  .40 yes  1 ■ #2 score -1.609" in lines
    assert lines[-2].split() == ["#1", "-1.273", "0.28", "ok", "ok"]
    assert max(cell_len(line) for line in lines[2:-3]) <= 60


class EndlessModel(TableModel):
    """Each text may end or go on at each step, and never has to end."""

    def step(self, tokens: Tensor, state: Tensor) -> Step:
        state = torch.cat((state, tokens[:, None]), dim=1)
        ends = [0.9 if said == [YES, OK] else 0.3 for _sos, *said in state.tolist()]
        logits = torch.full((len(tokens), self.vocabulary), -torch.inf)
        for row, end in enumerate(ends):
            for token, share in {EOS: end, YES: 0.6 * (1 - end), OK: 0.4 * (1 - end)}.items():
                logits[row, token] = math.log(share)
        return Step(logits, state)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_terminal_draws_no_more_than_the_n_best_list_needs(width: int) -> None:
    """The search goes on long after its best texts; each level of the tree has a bar of its own."""
    found = beam(EndlessModel(), beam=4, words=WORDS, length_penalty=1.0, max_length=40, stop="bound")
    assert isinstance(found, BeamTree)
    last = beam_lines._last_step(found)
    assert last <= found.tree.nodes[found.leaves[0].node].step + beam_lines.MAX_STEPS
    branches = list(beam_lines._walk(found, last))
    assert max(node.step for branch in branches for node in branch.chain) <= last
    lines = [line.plain for line in found.lines(width)]
    heads = [line for line in lines if line.lstrip("│ ").startswith(("●", "├"))]
    assert [line.count("│") + line.count("├") for line in heads] == [branch.depth for branch in branches]
    (said,) = [line for line in lines if "--max-length" in line]
    assert f"{found.tree.steps - last} more steps, to step {found.tree.steps} " in said
    assert any(line.endswith("  …") for line in lines)
    deep = [beam_lines._Branch([found.tree.nodes[1]], depth, depth > 0, False) for depth in range(16)]
    drawn = [beam_lines._chain_lines(found, branch, 1, width)[0].plain for branch in deep]
    assert [line.count("│") + line.count("├") for line in drawn] == list(range(16))


def test_shares_have_two_digits() -> None:
    assert [show_share(one) for one in (1.0, 0.996, 0.28, 0.051, 0.004)] == ["1", "1", ".28", ".05", "<.01"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Small runs of every kind of stepper, hardly trained, so that their searches are wide."""
    folder, made = tmp_path_factory.mktemp("runs"), dict[str, Run]()
    words = list(NUMBERS)
    rows = [(f"{a} {b} {c}", f"{NUMBERS[c]} {NUMBERS[b]} {NUMBERS[a]}") for a in words for b in words for c in words]
    small = {"hidden": 12, "embedding": 8}
    attends = {"width": 16, "layers": 1, "heads": 2}
    texts = [{"text": f"{source} {target}"} for source, target in rows]
    models: dict[str, dict[str, Any]] = {
        "rnn": {"encoder": small, "decoder": small},
        "transformer": {"encoder": {"kind": "transformer"} | attends, "decoder": {"kind": "transformer"} | attends},
        "lm": {"kind": "rnn"} | small,
        "ngram": {"kind": "ngram", "order": 3},
    }

    def run(name: str) -> Run:
        if name not in made:
            task = "lm" if name in ("lm", "ngram") else "translate"
            tree = {"task": task, "data": {"train": texts if task == "lm" else rows}, "model": models[name]}
            tree |= {} if name == "ngram" else {"train": {"steps": 12}}
            made[name] = library.train(tree, {"text.kind": "word"}, out=folder / name, quiet=True)
        return made[name]

    return run


SETTINGS: list[dict[str, Any]] = [
    {},
    {"beam": 1},
    {"beam": 3, "length_penalty": 0.0},
    {"length_penalty": 2.0, "n_best": 3},
    {"min_length": 4},
    {"max_length": 3},
    {"groups": 2, "diversity": 1.0},
    {"stop": "finished", "finished": 2},
    {"repetition_penalty": 1.7},
    {"frequency_penalty": 0.8, "presence_penalty": 0.3},
    {"stop_at": ["trois"]},
    {"forbid": ["six", "trois"]},
    {"require": ["deux"]},
    {"forbid_unknown": True},
]


@pytest.mark.covers("I4")
@pytest.mark.parametrize("kind", ["rnn", "transformer", "lm", "ngram"])
@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_the_best_leaf_is_the_prediction(runs: Callable[[str], Run], kind: str, options: dict[str, Any]) -> None:
    run = runs(kind)
    options = {"beam": 4, "max_length": 12} | options
    for text in ("one two three", "six", "four five"):
        found, answer = beam(run, text, **options), run.predict(text, **options)
        assert isinstance(found, BeamTree)
        assert found.text == answer.text  # type: ignore[attr-defined]
        listed = [leaf for leaf in found.leaves if leaf.returned]
        assert [leaf.text for leaf in listed] == [one.text for one in answer.candidates]  # type: ignore[attr-defined]
        assert [leaf.score for leaf in listed] == pytest.approx([one.score for one in answer.candidates], abs=1e-5)  # type: ignore[attr-defined]
        for leaf in found.leaves:
            node = found.tree.nodes[leaf.node]
            assert node.sum == pytest.approx(leaf.sum, abs=1e-5)
            assert leaf.score == pytest.approx(leaf.sum / leaf.length**found.decode.length_penalty)
        for step in range(1, found.tree.steps + 1):
            live = [one for one in found.tree.nodes if one.step == step and one.state == "kept"]
            assert len(live) <= options["beam"]
        json.dumps(found.to_dict(), allow_nan=False)


def test_a_prefix_is_where_the_tree_starts(runs: Callable[[str], Run]) -> None:
    found = beam(runs("rnn"), "one two", prefix="deux", max_length=6)
    assert isinstance(found, BeamTree)
    assert found.text == runs("rnn").predict("one two", prefix="deux", beam=4, max_length=6).text  # type: ignore[attr-defined]
    assert found.text.startswith("deux")
    assert found.tree.path(found.leaves[0].node)[0].step == 1


def test_sampling_and_tasks_that_write_nothing_have_no_tree(
    runs: Callable[[str], Run], tmp_path: Path, labelled: str
) -> None:
    sampled = beam(runs("lm"), "one", temperature=0.7)
    assert isinstance(sampled, Nothing)
    assert "no beam" in sampled.summary
    classifier = library.train(
        {"task": "classify", "data": {"train": labelled}, "model": {"kind": "bag"}}, out=tmp_path / "run", quiet=True
    )
    assert isinstance(beam(classifier, "the red"), Nothing)
    with pytest.raises(ConfigError, match="candidates = -1"):
        beam(runs("lm"), "one", candidates=-1)
    kind = view_kind("beam")
    assert kind.check_options({"forbid": "a, b", "beam": "3", "n_best": None}) == {"forbid": ["a", "b"], "beam": 3}
    with pytest.raises(ConfigError, match="is no bool"):
        kind.check_options({"sample": "perhaps"})
    found = kind.show(runs("rnn"), "one two", beam=2, max_length=3)
    assert found.code.endswith("'one two', beam=2, max_length=3)")


@pytest.mark.usefixtures("extras")
def test_the_chart_has_a_slider_and_stays_small(runs: Callable[[str], Run]) -> None:
    found = yes_ok(2)
    specification = found.chart().to_dict()
    (step,) = specification["params"]
    assert (step["name"], step["value"], step["bind"]["max"]) == ("step", 3, 3)
    rows = tree_rows(found)
    assert [row["label"] for row in rows if row["token"] == "ok" and row["line"] == "the best text"] == [".40", ".70"]
    assert next(row for row in rows if row["label"] == ".70")["alternatives"] == "yes .20, <eos> .10"
    assert next(row for row in rows if row["token"] == "1 #1")["shape"] == "square"
    wide = beam(runs("lm"), "one", beam=45, max_length=100, min_length=99, candidates=0)
    assert isinstance(wide, BeamTree)
    assert len(wide.tree.nodes) > MAX_DRAWN_NODES
    drawn = tree_rows(wide)
    assert len(drawn) <= 1.2 * MAX_DRAWN_NODES
    assert sum(row["line"] == "the best text" for row in drawn) > 99
