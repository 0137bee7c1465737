"""Training, evaluating and predicting with examples given in Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import weft
from weft.config import read_config
from weft.errors import ConfigError, DataError, RunError

SMALL = {"embedding": 8, "hidden": 8}
MODELS = {
    "classify": SMALL,
    "lm": SMALL,
    "tag": SMALL | {"characters": 4},
    "translate": {"encoder": SMALL, "decoder": SMALL},
}


def examples(task, path):
    """The examples of a file that a fixture made, as Python data."""
    lines = path.read_text(encoding="utf-8").split("\n")
    match task:
        case "lm":
            return [line for line in lines if line]
        case "tag":
            sentences = path.read_text(encoding="utf-8").strip().split("\n\n")
            return [[tuple(line.split(" ")) for line in sentence.split("\n")] for sentence in sentences]
    return [tuple(line.split("\t")) for line in lines if line and line != "text\tlabel"]


@pytest.fixture
def files(labelled, texts, tagged, pairs):
    return {"classify": labelled, "lm": texts, "tag": tagged, "translate": pairs}


def train(task, data, out, overrides=None, **options):
    config = {"task": task, "data": {"train": data}, "model": MODELS[task], "train": {"steps": 3}}
    return weft.train(config, overrides, out=out, quiet=True, **options)


@pytest.mark.parametrize("task", MODELS)
def test_python_data_trains_and_scores_as_a_file_of_the_same_examples(task, files, tmp_path):
    data = examples(task, Path(files[task]))
    one, other = train(task, data, tmp_path / "python"), train(task, files[task], tmp_path / "file")
    assert one.report["valid"] == other.report["valid"]
    assert one.evaluate(data).metrics == other.evaluate(files[task]).metrics == one.evaluate(files[task]).metrics
    inputs = data[:3] if task in ("lm", "tag") else [row[0] for row in data[:3]]
    assert one.predict(data[:3]) == other.predict(inputs)


@pytest.fixture
def data(labelled):
    return examples("classify", Path(labelled))


def test_the_configuration_records_that_the_data_was_python(data, tmp_path):
    run = train("classify", data, tmp_path / "run", {"data.test": data[:5]})
    config = json.loads((run.folder / "config.json").read_text(encoding="utf-8"))
    assert config["data"]["train"].startswith("<python: 200 records, ")
    assert config["data"]["test"].startswith("<python: 5 records, ")
    assert weft.load(run.folder).config == run.config
    tree = run.config.tree()
    with pytest.raises(DataError, match=r"<python: 200 records, \w+>: this data was given in Python") as caught:
        weft.train(tree, out=tmp_path / "again", quiet=True)
    assert "\n" not in str(caught.value)


def test_a_run_goes_on_with_the_same_objects_and_not_with_others(data, tmp_path):
    unbroken = train("classify", data, tmp_path / "unbroken", {"train.steps": 6})
    train("classify", data, tmp_path / "run")
    longer = {"train.steps": 6}
    with pytest.raises(RunError, match=r"the content of data\.train = \"<python: 200 records"):
        train("classify", [*data[1:], data[1]], tmp_path / "run", longer, resume=True)
    with pytest.raises(DataError, match="was given in Python"):
        train("classify", unbroken.config.data.train, tmp_path / "run", longer, resume=True)
    resumed = train("classify", (row for row in data), tmp_path / "run", longer, resume=True)
    assert resumed.report["steps"] == 6


def test_one_input_gives_one_answer_and_a_sequence_a_list(data, tmp_path):
    run = train("classify", data, tmp_path / "run")
    one = run.predict("the red")
    assert one.label in ("colour", "animal")
    assert run.predict({"text": "the red"}) == one
    for several in (["the red"], ("the red",), iter(["the red"]), [{"text": "the red"}], [("the red", "colour")]):
        assert run.predict(several) == [one]
    assert run.predict([]) == []
    for nothing in (None, [None], ["the red", None], 5, Path("the red")):
        with pytest.raises(DataError, match="inputs"):
            run.predict(nothing)


def test_a_bad_record_leaves_no_folder(data, tmp_path):
    with pytest.raises(DataError, match=r"data\.train\[200\]: the label is None"):
        train("classify", [*data, ("the red", None)], tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(DataError, match=r"data\[0\]: 1 value where 2 are expected"):
        train("classify", data, tmp_path / "run").evaluate([("the red",)])


def test_a_translator_answers_one_string(pairs, tmp_path):
    run = train("translate", pairs, tmp_path / "run")
    assert run.predict("one two", beam=2) == run.predict(["one two"], beam=2)[0]
    assert run.predict("one two", prefix="un").text.startswith("un")


@pytest.mark.parametrize("key", [5, None, (1, 2), b"train.rate"])
def test_a_setting_has_a_name(key):
    tree = {"task": "classify", "data": {"train": "c.tsv"}}
    for config, overrides in ((tree, {key: 1}), (tree | {key: 1}, {}), (tree | {"train": {key: 1}}, {})):
        with pytest.raises(ConfigError, match="is no name of a setting"):
            weft.train(config, overrides)


@pytest.mark.parametrize("overrides", [[1], 5, "train.rate=1"])
def test_overrides_are_a_table(overrides):
    with pytest.raises(ConfigError, match=r"overrides = .*: are no settings"):
        weft.train({"task": "classify", "data": {"train": "c.tsv"}}, overrides)


def test_a_path_with_a_nul_is_refused(tmp_path):
    tree = {"task": "classify", "data": {"train": "c\0.tsv"}}
    with pytest.raises(DataError, match=r"data\.train = 'c\\x00\.tsv': has a NUL"):
        weft.train(tree)
    with pytest.raises(ConfigError, match=r"data\.train = 'c\\x00\.tsv': has a NUL"):
        read_config(tree)
    with pytest.raises(RunError, match=r"out = .*has a NUL"):
        weft.train({"task": "classify", "data": {"train": "c.tsv"}}, out="a\0b")


def test_data_that_contains_itself_is_refused():
    endless = []
    endless.append(endless)
    for data in (endless, [("a", endless)], [{(1, 2): "a"}]):
        with pytest.raises(DataError, match=r"data\.train\[0\]: is no plain record"):
            weft.train({"task": "classify", "data": {"train": data}})


@pytest.mark.parametrize("path", [5, None, b"run", ["run"]])
def test_only_a_path_is_loaded(path):
    with pytest.raises(RunError, match=r"path = .*: is no path"):
        weft.load(path)
    if path is not None:
        with pytest.raises(RunError, match=r"out = .*: is no path"):
            weft.train({"task": "classify", "data": {"train": "c.tsv"}}, out=path)


@pytest.mark.parametrize("config", [5, None, b"c.toml", [1]])
def test_a_configuration_is_a_file_or_a_table(config):
    with pytest.raises(ConfigError, match="is no configuration"):
        weft.train(config)
