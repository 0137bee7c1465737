"""A person's mistake gives one clear line with file, line and cure, and leaves nothing half-written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import weft as package
from weft.errors import DataError

SMALL = ["train.steps=2", "model.hidden=8", "model.embedding=8"]
SMALL_PAIR = [
    "train.steps=2",
    *(f"model.{side}.{size}=8" for side in ("encoder", "decoder") for size in ("hidden", "embedding")),
]


def one_line(outcome, code=2):
    """The error message of a failed command, which must be one line and no traceback."""
    assert outcome.code == code, outcome.err
    assert "Traceback" not in outcome.err
    lines = [line for line in outcome.err.splitlines() if line != "reading the data"]
    assert len(lines) == 1, outcome.err
    return lines[0]


def test_missing_file(weft):
    message = one_line(weft("train", "translate", "nowhere.tsv", "--out", "run"))
    assert "nowhere.tsv" in message
    assert "no such file" in message
    assert not Path("run").exists()


def test_wrong_number_of_columns_names_the_line(weft, tmp_path):
    (tmp_path / "pairs.tsv").write_text("one\tun\ntwo\tdeux\tzwei\n", encoding="utf-8")
    message = one_line(weft("train", "translate", "pairs.tsv", "--out", "run"))
    assert "pairs.tsv:2" in message
    assert not Path("run").exists()


def test_bad_lines_can_be_skipped_and_are_counted(weft, pairs):
    with Path(pairs).open("a", encoding="utf-8") as file:
        file.write("only one column\na\tb\tc\n")
    outcome = weft("train", "translate", pairs, *SMALL_PAIR, "--skip-bad-lines", "--out", "run")
    assert outcome.code == 0, outcome.err
    assert "skipped 2 bad lines" in outcome.err
    assert f"{pairs}:301" in outcome.err


def test_empty_file(weft, tmp_path):
    (tmp_path / "empty.txt").write_bytes(b"")
    assert "no examples in empty.txt" in one_line(weft("train", "lm", "empty.txt"))
    assert not any(tmp_path.glob("runs/*"))


def test_binary_file(weft, tmp_path):
    (tmp_path / "picture.tsv").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00")
    message = one_line(weft("train", "classify", "picture.tsv"))
    assert "picture.tsv:" in message


def test_label_unseen_in_training_counts_as_wrong(weft, labelled, tmp_path):
    (tmp_path / "test.tsv").write_text("text\tlabel\nthe red and the blue\tcolour\nthe oak\tplant\n", encoding="utf-8")
    assert weft("train", "classify", labelled, *SMALL, "--out", "run", "-q").code == 0
    shown = weft("evaluate", "run", "test.tsv")
    assert shown.code == 0, shown.err
    assert "labels that training never saw, all counted as wrong: 1 (plant)" in shown.out


def test_unknown_setting_suggests_the_nearest(weft, texts):
    message = one_line(weft("train", "lm", texts, "model.hiden=8"))
    assert "model.hiden" in message
    assert 'did you mean "hidden"?' in message


def test_wrong_type_names_setting_and_value(weft, texts):
    message = one_line(weft("train", "lm", texts, "train.rate=fast"))
    assert 'train.rate = "fast"' in message
    assert "number" in message


def test_impossible_combination(weft, pairs):
    message = one_line(weft("train", "translate", pairs, "model.decoder.bridge=copy"))
    assert "model.decoder.bridge" in message
    assert 'use "learned"' in message
    assert not any(Path("runs").glob("*"))


def test_epochs_and_steps_exclude_each_other(weft, texts):
    message = one_line(weft("train", "lm", texts, "train.epochs=1", "train.steps=5"))
    assert "keep one of them" in message


def test_a_folder_in_use_is_left_alone(weft, texts, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("keep me")
    assert "run: is not empty" in one_line(weft("train", "lm", texts, "--out", "run"))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["precious"]


def test_unwritable_folder(weft, texts, tmp_path):
    (tmp_path / "file").write_text("")
    message = one_line(weft("train", "lm", texts, "--out", "file/run"))
    assert "file/run" in message
    assert "choose another --out" in message


def test_out_that_is_a_file(weft, texts):
    assert "is a file" in one_line(weft("train", "lm", texts, "--out", texts))


def test_neither_config_nor_task(weft):
    assert 'did you mean "translate"?' in one_line(weft("train", "transalte", "pairs.tsv"))


def test_config_that_is_no_toml_names_the_line(weft, tmp_path):
    (tmp_path / "broken.toml").write_text('task = "lm"\n[data\n', encoding="utf-8")
    message = one_line(weft("train", "broken.toml"))
    assert "broken.toml" in message
    assert "line 2" in message


def test_a_device_that_is_not_there(weft, texts):
    assert "train.device" in one_line(weft("train", "lm", texts, "train.device=cuda:99"))
    assert not any(Path("runs").glob("*"))


def test_a_folder_that_is_no_run(weft, tmp_path):
    assert "is not a run folder" in one_line(weft("predict", "nowhere"))
    (tmp_path / "empty").mkdir()
    assert "manifest.json" in one_line(weft("predict", "empty"))


@pytest.fixture
def run(weft, texts):
    assert weft("train", "lm", texts, *SMALL, "--out", "run", "-q").code == 0
    return Path("run")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_damaged_file_is_noticed(weft, run, name):
    content = bytearray((run / name).read_bytes())
    content[len(content) // 2] ^= 1
    (run / name).write_bytes(content)
    message = one_line(weft("predict", "run"))
    assert name in message
    assert "damaged" in message


def test_a_missing_file_is_noticed(weft, run):
    (run / "model.safetensors").unlink()
    assert "lacks model.safetensors" in one_line(weft("predict", "run"))


def test_a_text_longer_than_the_model_can_read_is_named(weft, texts):
    learned = ["kind=transformer", "width=8", "heads=2", "layers=1", "positions=learned", "max_positions=12"]
    settings = [f"model.{setting}" for setting in learned] + ["text.kind=word", "train.steps=2", "data.max_length=12"]
    assert weft("train", "lm", texts, *settings, "--out", "run", "-q").code == 0
    long = "the cat " * 8
    Path("in.txt").write_text(f"the cat\n\n{long}\nthe dog\n", encoding="utf-8")
    for verb in (["predict"], ["predict", "--stream"], ["score", "--json"]):
        assert "in.txt:3: a " in one_line(weft(verb[0], "run", "in.txt", *verb[1:]))
    run = package.load("run")
    with pytest.raises(DataError, match=r'^"the cat the cat the cat the cat the cat…": a prompt of 16 tokens'):
        run.predict(["the dog", long])


@pytest.mark.parametrize("option", ["--forbid", "--require"])
def test_an_option_that_is_no_text(weft, run, option):
    Path("in.txt").write_text("the cat\n", encoding="utf-8")
    message = one_line(weft("predict", "run", "in.txt", "--beam", "2", option, "caf\udce9"))
    assert "a text has bytes that are not UTF-8" in message


def printed(run, out, **variables):
    """The answers of a run in a process of their own, with another standard output."""
    Path("in.txt").write_text("the cat é\n", encoding="utf-8")
    command = [sys.executable, "-m", "weft", "predict", str(run), "in.txt", "--max-length", "1"]
    environment = os.environ | variables
    return subprocess.run(command, stdout=out, stderr=subprocess.PIPE, env=environment, timeout=120)


def test_what_is_written_is_utf8_wherever_it_runs(run):
    outcome = printed(run, subprocess.PIPE, PYTHONIOENCODING="ascii")
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.decode("utf-8").startswith("the cat é")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_a_full_disk_under_the_output_is_told_in_a_line(run):
    with Path("/dev/full").open("w") as full:
        outcome = printed(run, full)
    line = "error standard output: No space left on device (free some space, or choose another folder)\n"
    assert (outcome.returncode, outcome.stderr.decode()) == (1, line)


INTERRUPTED_SAVE = """
import os, sys
from pathlib import Path
import weft.run.folder.save as save
from weft.run import train

original = save.write_weights
def dies(path, weights, tied):
    original(path, weights, tied)
    with open(path, "r+b") as file:
        file.truncate(100)
    os._exit(9)
save.write_weights = dies
config = {"task": "lm", "data": {"train": sys.argv[1]}, "model": {"hidden": 8, "embedding": 8}, "train": {"steps": 2}}
train(config, out="run", quiet=True)
"""


def test_a_save_that_dies_leaves_no_run_that_looks_whole(weft, texts, tmp_path):
    died = subprocess.run([sys.executable, "-c", INTERRUPTED_SAVE, texts], cwd=tmp_path, timeout=120)
    assert died.returncode == 9
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert "manifest.json" in one_line(weft("predict", "run"))


def test_a_full_disk_is_a_fault_and_keeps_what_was_there(weft, run, monkeypatch):
    from weft.errors import Fault
    from weft.run.folder.files import write_text

    def full(*_):
        raise OSError(28, os.strerror(28))

    before = (run / "config.json").read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Fault, match="No space left on device"):
        write_text(run / "config.json", "{}")
    assert (run / "config.json").read_bytes() == before
    assert not list(run.glob(".*.tmp"))
