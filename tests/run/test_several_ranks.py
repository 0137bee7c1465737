"""Two processes give the curve of one, and end together."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.faults.forked import Ended, Forked
from tests.faults.hostile.commands import keeping_tokens

import weft

PLAINLY, REALLY = "tests.faults.hostile.commands:plainly", "tests.faults.hostile.commands:really"
"""The command line in a fork, and in a Python that is started anew."""


def config(folder: Path, kind: str) -> dict[str, Any]:
    lines = [f"{'abcdefgh'[n % 7 :]}{'xyz'[n % 3]}{n % 10}" for n in range(240)]
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return {
        "task": "lm",
        "data": {"train": str(folder / "text.txt")},
        "text": {"kind": "char", "size": 300},
        "model": {"kind": kind, "dropout": 0.0} | ({"hidden": 16} if kind == "rnn" else {"width": 16, "layers": 1}),
        "train": {"steps": 12, "batch_tokens": 100, "accumulate": 2, "evaluate_every": 6, "device": "cpu"},
    }


@pytest.fixture(scope="module")
def two() -> Iterator[tuple[Forked, Forked]]:
    """Processes that have imported weft: forks of them are the two of a training, and start at once."""
    with Forked() as first, Forked() as second:
        yield first, second


class ByTwo(NamedTuple):
    """Trains in two processes with the variables that torchrun sets."""

    processes: tuple[Forked, Forked]
    port: str

    def __call__(
        self, settings: dict[str, Any], out: Path, *options: str, function: str = PLAINLY
    ) -> list[tuple[int, str]]:
        """Exit code and errors of both processes."""
        path = out.with_suffix(".json")
        path.write_text(json.dumps(settings), encoding="utf-8")
        words = ["train", str(path), "--out", str(out), "--quiet", *options]

        def run(rank: int) -> Ended:
            place = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.port}
            here = {"WEFT_CACHE": os.environ["WEFT_CACHE"]}
            return self.processes[rank].run(function, words, cwd=out.parent, seconds=120.0, variables=place | here)

        with ThreadPoolExecutor(2) as pool:
            return [(ended.code, ended.err) for ended in pool.map(run, range(2))]


@pytest.fixture
def train_by_two(two: tuple[Forked, Forked]) -> ByTwo:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return ByTwo(two, str(place.getsockname()[1]))


def curve(folder: Path) -> list[float]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [line["loss"] if "loss" in line else line["valid"]["loss"] for line in lines]


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        pytest.param("rnn", PLAINLY, id="rnn"),
        pytest.param("transformer", PLAINLY, id="transformer"),
        pytest.param("rnn", REALLY, id="command", marks=pytest.mark.slow),
    ],
)
def test_two_processes_give_the_curve_of_one(tmp_path: Path, train_by_two: ByTwo, kind: str, function: str) -> None:
    settings = config(tmp_path, kind)
    weft.train(settings, out=tmp_path / "one", quiet=True)
    assert [code for code, _ in train_by_two(settings, tmp_path / "two", function=function)] == [0, 0]
    one, two = curve(tmp_path / "one"), curve(tmp_path / "two")
    assert len(one) == len(two) > 3
    assert two == pytest.approx(one, abs=1e-5)
    report = weft.load(tmp_path / "two").report
    assert report["valid"]["loss"] == pytest.approx(weft.load(tmp_path / "one").report["valid"]["loss"], abs=1e-5)


def test_a_run_goes_on_with_another_number_of_processes(tmp_path: Path, train_by_two: ByTwo) -> None:
    settings = config(tmp_path, "rnn")
    half = settings | {"train": settings["train"] | {"steps": 6, "schedule": "constant", "warmup": 2}}
    whole = settings | {"train": settings["train"] | {"schedule": "constant", "warmup": 2}}
    weft.train(whole, out=tmp_path / "whole", quiet=True)
    weft.train(half, out=tmp_path / "parts", quiet=True)
    assert [code for code, _ in train_by_two(whole, tmp_path / "parts", "--resume")] == [0, 0]
    assert curve(tmp_path / "parts")[-1] == pytest.approx(curve(tmp_path / "whole")[-1], abs=1e-5)


def test_two_processes_start_from_a_run_and_resume_without_it(tmp_path: Path, train_by_two: ByTwo) -> None:
    settings = config(tmp_path, "rnn")
    weft.train(settings, out=tmp_path / "start", quiet=True)
    own = {
        "start": str(tmp_path / "start"),
        "rate_decay": 0.5,
        "unfreeze_every": 3,
        "schedule": "constant",
        "warmup": 2,
    }
    whole = settings | {"text": {}, "model": {"dropout": 0.0}, "train": settings["train"] | own}
    half = whole | {"train": whole["train"] | {"steps": 6}}
    weft.train(whole, out=tmp_path / "whole", quiet=True)
    assert [code for code, _ in train_by_two(half, tmp_path / "parts")] == [0, 0]
    (tmp_path / "start").rename(tmp_path / "elsewhere")
    assert [code for code, _ in train_by_two(whole, tmp_path / "parts", "--resume")] == [0, 0]
    assert curve(tmp_path / "parts")[-1] == pytest.approx(curve(tmp_path / "whole")[-1], abs=1e-5)


def test_what_cannot_be_shared_ends_all_with_words(tmp_path: Path, train_by_two: ByTwo) -> None:
    settings = config(tmp_path, "rnn")
    settings["train"]["accumulate"] = 1
    (first, said), (second, _) = train_by_two(settings, tmp_path / "run")
    assert first != 0 != second
    assert "use a multiple of 2" in said


def test_the_first_process_tokenises_a_large_file_for_all(
    tmp_path: Path, train_by_two: ByTwo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    function = "tests.run.test_several_ranks:keep_tokens"
    found = train_by_two(config(tmp_path, "rnn"), tmp_path / "run", function=function)
    assert [code for code, _ in found] == [0, 0]
    assert (tmp_path / "wrote").read_text(encoding="utf-8") == "0"


def keep_tokens(words: Sequence[str]) -> int:
    """`weft train` that keeps the tokens of small files too, and notes which process has written them."""
    from weft.run import data_cache

    def write(*arguments: Any) -> Any:
        with Path("wrote").open("a", encoding="utf-8") as file:
            file.write(os.environ["RANK"])
        return write_examples(*arguments)

    write_examples, data_cache.write_examples = data_cache.write_examples, write
    return keeping_tokens(words)


def test_what_the_first_process_fails_of_is_told_by_all(tmp_path: Path, train_by_two: ByTwo) -> None:
    settings = config(tmp_path, "rnn")
    (tmp_path / "text.txt").write_bytes(b"a line\nno \xff text\n")
    (first, said), (second, heard) = train_by_two(settings, tmp_path / "run")
    assert (first, second) == (2, 1)
    assert "text.txt:2: not UTF-8" in said
    assert "another process of this training has ended" in heard
    assert "text.txt:2: not UTF-8" in " ".join(heard.split())


def truncated(folder: Path) -> dict[str, Any]:
    """Truncated backpropagation in the same text, as one stream."""
    settings = config(folder, "rnn")
    settings["data"] |= {"unit": "stream", "valid": settings["data"]["train"]}
    settings["train"] |= {"truncate": 7, "batch_tokens": 28, "accumulate": 4, "schedule": "constant", "warmup": 2}
    return settings


def test_a_carried_state_is_shared_by_streams(tmp_path: Path, train_by_two: ByTwo) -> None:
    settings = truncated(tmp_path)
    weft.train(settings, out=tmp_path / "one", quiet=True)
    assert [code for code, _ in train_by_two(settings, tmp_path / "two")] == [0, 0]
    assert curve(tmp_path / "two") == pytest.approx(curve(tmp_path / "one"), abs=1e-5)


def test_a_carried_state_goes_on_in_one_process_after_two(tmp_path: Path, train_by_two: ByTwo) -> None:
    whole = truncated(tmp_path)
    half = whole | {"train": whole["train"] | {"steps": 6}}
    weft.train(whole, out=tmp_path / "whole", quiet=True)
    assert [code for code, _ in train_by_two(half, tmp_path / "parts")] == [0, 0]
    weft.train(whole, out=tmp_path / "parts", quiet=True, resume=True)
    assert curve(tmp_path / "parts")[-1] == pytest.approx(curve(tmp_path / "whole")[-1], abs=1e-5)
