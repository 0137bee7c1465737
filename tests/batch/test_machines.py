"""What an actor on another machine needs: the run, the user's own classes, and the errors that come back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import weft as package
from weft.batch.ray_engine import _error, run_files
from weft.batch.source import cut, open_source, read_part
from weft.batch.worker import ImportedFile, Work, hash_file, load_worker
from weft.data import BadLines, RowInputs
from weft.errors import DataError, WeftError

CELL = """
import torch
import weft


class Leaky(weft.nn.Cell):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.weight = torch.nn.Linear(input_size + hidden_size, hidden_size)

    def step(self, x, h):
        h = 0.5 * h + 0.5 * torch.tanh(self.weight(torch.cat([x, h], -1)))
        return h, h
"""


def test_a_machine_without_the_run_and_the_file_answers_the_same(tmp_path, texts):
    from weft.run import import_classes

    file = tmp_path / "cells.py"
    file.write_text(CELL, encoding="utf-8")
    cells = import_classes([f"{file}:Leaky"])
    rows = [(f"the {word} {number}", word) for number in range(9) for word in ("red", "cow")]
    model = {"cell": "Leaky", "embedding": 8, "hidden": 8}
    config = {"task": "classify", "data": {"train": rows}, "model": model, "train": {"steps": 2, "threads": 1}}
    run = package.train(config, out=tmp_path / "run", quiet=True, cells=cells)
    source = open_source("in.jsonl", step=100, bad=BadLines())
    inputs = RowInputs.find("in.jsonl", "in.jsonl", "jsonl", source.first, run.task.input_columns(), None)
    content = (tmp_path / "cells.py").read_bytes()
    work = Work(
        run=Path(run.folder).resolve(),
        manifest=hash_file(run.folder / "manifest.json") or "",
        inputs=(inputs,),
        options={},
        imports=(ImportedFile(None, str(file), "Leaky", content),),
        device="cpu",
    )
    shipped = run_files(work)
    (part,) = cut([source], step=100, rows=100)
    rows_read = read_part(source.path, "jsonl", part, name="in.jsonl")
    here = load_worker(work, shipped).answer(part, rows_read)
    shutil.rmtree(run.folder)
    file.unlink()
    assert load_worker(work, shipped).answer(part, rows_read) == here
    assert here.count(b"\n") == 1 + len(texts)


def test_files_that_were_changed_on_the_way_are_refused(classifier):
    work = Work(run=Path(classifier), manifest="", inputs=(), options={}, device="cpu")
    shipped = run_files(work)
    weights = bytearray(shipped["model.safetensors"])
    weights[-1] ^= 1
    with pytest.raises(WeftError, match=r"model\.safetensors"):
        load_worker(Work(Path("gone"), "", (), {}, device="cpu"), {**shipped, "model.safetensors": bytes(weights)})


def test_the_error_of_an_actor_is_raised_as_it_was():
    row = {"kind": "DataError", "what": "not JSON", "where": "in.jsonl:3", "cure": "mend it"}
    found = _error(row)
    assert isinstance(found, DataError)
    assert str(found) == "in.jsonl:3: not JSON (mend it)"
    fault = _error({"kind": "fault", "what": "Traceback\n  …\nKeyError: 3", "where": "", "cure": ""})
    assert not isinstance(fault, WeftError)
    assert str(fault).startswith("KeyError: 3\n")
