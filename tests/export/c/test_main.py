"""The program of an exported translator takes the options of `weft predict`, with the same effect."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.export.c.models import RNN_, lines, make_run
from tests.export.c.trained import trained

from weft.export.c.compare import answers_of, compile_folder, difference_of, precise
from weft.export.c.export import sources_of, write_files
from weft.run import Run

SIDE = RNN_ | {"cell": "gru"}
OPTIONS: list[dict[str, Any]] = [
    {"beam": 1},
    {"beam": 3, "n_best": 2, "length_penalty": 0.3, "min_length": 2},
    {"beam": 4, "stop": "finished", "finished": 2, "max_length": 5},
    {"beam": 2, "repetition_penalty": 1.4, "frequency_penalty": 0.2, "presence_penalty": -0.1},
    {"temperature": 0.7, "min_p": 0.05, "n_best": 3, "seed": 5},
    {"top_k": 4, "top_p": 0.9},
    {"sample": False},
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A translator whose settings draw tokens."""
    return make_run(
        "translate",
        tmp_path_factory.mktemp("run"),
        {"encoder": SIDE, "decoder": SIDE},
        text={"kind": "word"},
        decode={"sample": True, "max_length": 10},
    )


@pytest.fixture(scope="module")
def program(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("c")
    write_files(sources_of(run), folder)
    return compile_folder(folder, options=("-std=c99", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror"))


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: " ".join(options))
def test_options_have_the_effect_that_they_have_in_weft_predict(run: Run, program: Path, options: dict[str, Any]):
    texts, given = lines(12), list[str]()
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        given += [option.replace("--", "--no-")] if value is False else [option, str(value)]
    found = answers_of(program, texts, "--precise", *given)
    for answer, other in zip(run.predict(texts, **options), found, strict=True):
        difference = difference_of(precise(answer), other)
        assert difference is not None, (precise(answer), other)
        assert difference <= 1e-4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--bean", "3"], "--bean: is no option"),
        (["--bean"], "--bean: is no option"),
        (["--beam"], "--beam: needs a whole number"),
        (["--beam", "2.5"], "--beam: needs a whole number"),
        (["--beam", "0"], "--beam: is out of range"),
        (["--beam", "nan"], "--beam: is out of range"),
        (["--beam", "4000"], "or another limit: a limit is not positive, or too large"),
        (["--n-best", "9", "--no-sample"], "an option is out of range"),
        (["--top-p", "1.5"], "--top-p: is out of range"),
        (["--length-penalty", "x"], "--length-penalty: needs a number"),
        (["--stop", "soon"], "--stop: is bound or finished"),
        (["--words"], "--words: this model tags no words"),
        (["--language", "fr"], "fr: is no language of this model"),
        (["--tokens", "99999999"], "--tokens: is out of range"),
        (["other.bin"], "other.bin: is a second file of weights"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_option_is_refused_in_a_line(program: Path, given: list[str], said: str):
    command = [str(program), str(program.parent / "weights.bin"), *given]
    done = subprocess.run(command, input="the cat\n", capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("model", [RNN_ | {"characters": 6, "crf": True}, {"kind": "hmm"}], ids=["rnn", "hmm"])
def test_a_tagger_reads_words_as_they_are(tmp_path: Path, model: dict[str, Any]) -> None:
    run = trained("tag", tmp_path, model)
    folder = tmp_path / "c"
    folder.mkdir()
    write_files(sources_of(run), folder)
    program = compile_folder(folder)
    rows = [["the", "cat.", "house!"], ["x y", "M.", "1\u00a0000"], ["a/b", "don't", "U.S."], []]
    found = answers_of(program, ["\t".join(row) for row in rows], "--words", "--precise")
    for words, line, answer in zip(rows, found, run.predict(rows), strict=True):
        fields = line.split("\t") if line else []
        assert [field.rsplit("/", 2)[0] for field in fields] == words
        assert [field.rsplit("/", 2)[1] for field in fields] == list(answer.tags)  # type: ignore[attr-defined]
        shares = [float(field.rsplit("/", 2)[2]) for field in fields]
        assert shares == pytest.approx(answer.probabilities, abs=1e-4)  # type: ignore[attr-defined]
    assert answers_of(program, ["the cat."], "--words")[0].count("/") == 1
    assert answers_of(program, ["the cat."])[0] == run.predict("the cat.").line()


def test_a_line_with_a_nul_byte_is_refused_and_the_others_answered(program: Path) -> None:
    command = [str(program), str(program.parent / "weights.bin"), "--no-sample"]
    done = subprocess.run(command, input="the cat\na\0b\n\nthe cat\n", capture_output=True, text=True, check=False)
    first, *others = done.stdout.split("\n")
    assert first
    assert others == ["", "", first, ""]
    assert (done.returncode, done.stderr) == (2, "line 2: has a NUL byte\n")
