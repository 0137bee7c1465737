"""Two processes give the curve of one, and end together."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import weft


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


def train_by_two(
    settings: dict[str, Any], out: Path, port: str, *options: str, program: tuple[str, ...] = ("-m", "weft")
) -> list[tuple[int, str]]:
    """Exit code and errors of both processes, started as torchrun starts them."""
    path = out.with_suffix(".json")
    path.write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, *program, "train", str(path), "--out", str(out), "--quiet", *options]
    started = []
    for rank in range(2):
        place = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        started.append(subprocess.Popen(command, env=os.environ | place, stderr=subprocess.PIPE, text=True))
    errors = [process.communicate(timeout=120)[1] for process in started]
    return [(process.returncode, error) for process, error in zip(started, errors, strict=True)]


def curve(folder: Path) -> list[float]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [line["loss"] if "loss" in line else line["valid"]["loss"] for line in lines]


@pytest.fixture
def port() -> str:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return str(place.getsockname()[1])


@pytest.mark.parametrize("kind", ["rnn", "transformer"])
def test_two_processes_give_the_curve_of_one(tmp_path: Path, port: str, kind: str) -> None:
    settings = config(tmp_path, kind)
    weft.train(settings, out=tmp_path / "one", quiet=True)
    assert [code for code, _ in train_by_two(settings, tmp_path / "two", port)] == [0, 0]
    one, two = curve(tmp_path / "one"), curve(tmp_path / "two")
    assert len(one) == len(two) > 3
    assert two == pytest.approx(one, abs=1e-5)
    report = weft.load(tmp_path / "two").report
    assert report["valid"]["loss"] == pytest.approx(weft.load(tmp_path / "one").report["valid"]["loss"], abs=1e-5)


def test_a_run_goes_on_with_another_number_of_processes(tmp_path: Path, port: str) -> None:
    settings = config(tmp_path, "rnn")
    half = settings | {"train": settings["train"] | {"steps": 6, "schedule": "constant", "warmup": 2}}
    whole = settings | {"train": settings["train"] | {"schedule": "constant", "warmup": 2}}
    weft.train(whole, out=tmp_path / "whole", quiet=True)
    weft.train(half, out=tmp_path / "parts", quiet=True)
    assert [code for code, _ in train_by_two(whole, tmp_path / "parts", port, "--resume")] == [0, 0]
    assert curve(tmp_path / "parts")[-1] == pytest.approx(curve(tmp_path / "whole")[-1], abs=1e-5)


def test_what_cannot_be_shared_ends_all_with_words(tmp_path: Path, port: str) -> None:
    settings = config(tmp_path, "rnn")
    settings["train"]["accumulate"] = 1
    (first, said), (second, _) = train_by_two(settings, tmp_path / "run", port)
    assert first != 0 != second
    assert "use a multiple of 2" in said


def test_the_first_process_tokenises_a_large_file_for_all(
    tmp_path: Path, port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    program = f"""
        import os
        from pathlib import Path
        from weft.cli import main
        from weft.run import data_cache

        def write(*arguments):
            with Path({str(tmp_path / "wrote")!r}).open("a") as file:
                file.write(os.environ["RANK"])
            return write_examples(*arguments)

        data_cache.MIN_CACHED_BYTES = 1
        write_examples, data_cache.write_examples = data_cache.write_examples, write
        main()
    """
    found = train_by_two(config(tmp_path, "rnn"), tmp_path / "run", port, program=("-c", textwrap.dedent(program)))
    assert [code for code, _ in found] == [0, 0]
    assert (tmp_path / "wrote").read_text(encoding="utf-8") == "0"


def test_what_the_first_process_fails_of_is_told_by_all(tmp_path: Path, port: str) -> None:
    settings = config(tmp_path, "rnn")
    (tmp_path / "text.txt").write_bytes(b"a line\nno \xff text\n")
    (first, said), (second, heard) = train_by_two(settings, tmp_path / "run", port)
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


def test_a_carried_state_is_shared_by_streams(tmp_path: Path, port: str) -> None:
    settings = truncated(tmp_path)
    weft.train(settings, out=tmp_path / "one", quiet=True)
    assert [code for code, _ in train_by_two(settings, tmp_path / "two", port)] == [0, 0]
    assert curve(tmp_path / "two") == pytest.approx(curve(tmp_path / "one"), abs=1e-5)


def test_a_carried_state_goes_on_in_one_process_after_two(tmp_path: Path, port: str) -> None:
    whole = truncated(tmp_path)
    half = whole | {"train": whole["train"] | {"steps": 6}}
    weft.train(whole, out=tmp_path / "whole", quiet=True)
    assert [code for code, _ in train_by_two(half, tmp_path / "parts", port)] == [0, 0]
    weft.train(whole, out=tmp_path / "parts", quiet=True, resume=True)
    assert curve(tmp_path / "parts")[-1] == pytest.approx(curve(tmp_path / "whole")[-1], abs=1e-5)
