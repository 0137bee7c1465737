"""Configurations: strict reading, overrides, filling with what suits task and data, dumping."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.catalog import TASKS
from weft.config import difference, fill, merge, parse_overrides, read_config, template, to_toml, validate
from weft.config.tree import flatten, read_tree
from weft.errors import ConfigError
from weft.tasks import Facts

SMALLEST = {"task": "translate", "data": {"train": "train.tsv"}}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("examples", [10, 1_000, 30_000, 1_000_000])
def test_task_and_training_file_are_enough(task, examples):
    config = fill({"task": task, "data": {"train": "x"}}, Facts(examples, examples * 40))
    assert config.train.epochs is not None
    assert validate(config.tree()) == config, "a filled configuration says everything"


def test_the_user_wins_over_the_defaults():
    tree = {**SMALLEST, "train": {"epochs": 77}, "model": {"encoder": {"hidden": 11}}}
    config = fill(tree, Facts(100_000, 4_000_000))
    assert config.train.epochs == 77
    assert config.model.encoder.hidden == 11
    assert config.model.decoder.hidden != 11


def test_steps_replace_the_default_epochs():
    config = fill({**SMALLEST, "train": {"steps": 5}}, Facts(100, 4000))
    assert (config.train.steps, config.train.epochs) == (5, None)


def test_a_default_size_is_not_applied_to_another_kind_of_token():
    bpe = fill(SMALLEST, Facts(100, 4000)).text
    unigram = fill({**SMALLEST, "text": {"kind": "unigram"}}, Facts(100, 4000)).text
    assert bpe.size == 1000
    assert unigram.size == type(unigram)().size


@pytest.mark.parametrize("task", ["lm", "classify", "translate"])
def test_words_seen_twice_are_kept_by_default(task):
    tree = {"task": task, "data": {"train": "a.txt"}, "text": {"kind": "word"}}
    text = fill(tree, Facts(10_000, 600_000)).text
    assert (text.size, text.min_count) == (100_000, 2)
    assert fill(tree, Facts(20, 900)).text.min_count == 1, "in a few lines most words are seen once"
    own = fill({**tree, "text": {"kind": "word", "size": 50}}, Facts(10_000, 600_000)).text
    assert (own.size, own.min_count) == (50, 2)


def test_words_on_one_side_have_the_vocabulary_of_words():
    sides = {"source": {"kind": "word"}, "target": {"kind": "char"}}
    text = fill({**SMALLEST, "text": sides}, Facts(10_000, 600_000)).text
    assert (text.side(text.source).size, text.side(text.source).min_count) == (100_000, 2)
    assert text.side(text.target).min_count == 1
    written = fill({**SMALLEST, "text": {**sides, "size": 300}}, Facts(10_000, 600_000)).text
    assert written.side(written.source).size == 300, "what a person wrote for both sides"


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({}, r"task: is missing \(choose from caption, classify, embed, forecast, lm, mask, regress, tag, translate\)"),
        ({"task": "translat"}, r'task = "translat": is not a task \(did you mean "translate"\? a task of your own'),
        ({"task": "lm"}, r"data: is missing"),
        ({"task": "lm", "data": {}}, r"data\.train: is missing"),
        ({"task": "lm", "dta": {}, "data": {"train": "x"}}, r'dta: no such setting \(did you mean "data"\?\)'),
        (
            {**SMALLEST, "model": {"encoder": {"cel": "gru"}}},
            r'model\.encoder\.cel: no such setting \(did you mean "cell"\?\)',
        ),
        (
            {**SMALLEST, "model": {"encoder": {"cell": "gruu"}}},
            r'model\.encoder\.cell: "gruu" is not a cell \(did you mean "gru"\? a cell of your own comes by --import',
        ),
        (
            {**SMALLEST, "model": {"encoder": {"merge": "conact"}}},
            r'model\.encoder\.merge = "conact": is not one of concat, sum, mean, project \(did you mean "concat"\?\)',
        ),
        ({**SMALLEST, "train": {"epochs": 2.5}}, r"train\.epochs = 2\.5: should be a valid integer"),
        ({**SMALLEST, "train": {"epochs": "3"}}, r'train\.epochs = "3": should be a valid integer'),
        ({**SMALLEST, "train": {"rate": -1.0}}, r"train\.rate = -1\.0: should be greater than 0"),
        ({**SMALLEST, "train": 3}, r"train = 3: should be a"),
        ({**SMALLEST, "model": {"encoder": {"hidden": [3, 4]}}}, r"model\.encoder: .*names 2 sizes for layers = 1"),
        ({**SMALLEST, "text": {"shared": True, "source": {"size": 9}}}, r"text: shared = true excludes"),
        ({**SMALLEST, "data": {"train": "x", "overlong": "split"}}, r"data\.overlong"),
    ],
)
def test_an_error_names_the_setting_the_value_and_the_cure(tree, message):
    with pytest.raises(ConfigError, match=rf"^{message}"):
        validate(tree)


def test_overrides_are_toml_values_or_plain_strings():
    words = ["train.rate=3e-4", "data.train=a b.tsv", 'data.valid=["v.de","v.en"]', "model.encoder.bidirectional=false"]
    assert parse_overrides(words) == {
        "train": {"rate": 3e-4},
        "data": {"train": "a b.tsv", "valid": ["v.de", "v.en"]},
        "model": {"encoder": {"bidirectional": False}},
    }


@pytest.mark.parametrize("word", ["train.rate", "=3", "train..rate=3"])
def test_an_override_that_is_none(word):
    with pytest.raises(ConfigError, match="is not a setting"):
        parse_overrides([word])


def test_overrides_from_python_use_the_same_paths():
    tree = read_config(SMALLEST, {"train.rate": 3e-4, "model.encoder": {"hidden": 7}})
    assert tree["train"] == {"rate": 3e-4}
    assert validate(tree).model.encoder.hidden == 7


TREES = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), TREES, max_size=4))
def test_what_is_written_as_toml_reads_back(tree):
    assert tomllib.loads(to_toml(tree)) == tree


SMALL_TREES = st.dictionaries(
    st.sampled_from("abc"), st.integers() | st.dictionaries(st.sampled_from("ab"), st.integers())
)


@given(SMALL_TREES, SMALL_TREES)
def test_in_a_merged_tree_the_upper_one_wins_and_nothing_is_lost(below, above):
    merged = dict(flatten(merge(below, above)))
    for path, value in flatten(above):
        assert merged[path] == value
    for path, value in flatten(below):
        covered = path.split(".")[0] in above
        assert covered or merged[path] == value
    assert merge(below, below) == below


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        *((task, kind) for task in TASKS if task != "embed" for kind in (None, "rnn", "transformer")),
        *(("lm", "conv"), ("classify", "bag"), ("embed", None), ("embed", "skipgram"), ("embed", "cbow")),
    ],
)
def test_the_template_is_a_valid_configuration_and_shows_true_defaults(task, kind):
    text = template(task, kind=kind)
    filled = fill(tomllib.loads(text), Facts(10_000, 600_000))
    shown = "\n".join(line.removeprefix("# ") for line in text.splitlines()[2:] if "…" not in line)
    assert validate(tomllib.loads(shown)) == filled
    network = filled.model.decoder if task in ("caption", "translate") else filled.model
    assert network.kind == (kind or {"classify": "bag", "regress": "bag", "embed": "skipgram"}.get(task, "rnn"))


def test_difference_lists_what_differs():
    one = validate(SMALLEST)
    other = validate(merge(SMALLEST, {"train": {"rate": 0.5}, "name": "mine"}))
    assert difference(one, one) == []
    assert sorted(difference(one, other)) == [("name", None, "mine"), ("train.rate", 2e-3, 0.5)]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system has no names for descriptors")
def test_a_configuration_from_a_pipe_that_the_shell_opened(tmp_path: Path) -> None:
    """As in `weft train <(…)`; a pipe in a folder, which nobody may ever write to, is refused."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as file:
        file.write('task = "lm"\n')
    try:
        assert read_tree(f"/dev/fd/{reader}") == {"task": "lm"}
    finally:
        os.close(reader)
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(ConfigError, match=r"pipe\.toml: cannot be read: is no regular file"):
        read_tree(tmp_path / "pipe.toml")
