"""What is written is a safetensors file: the library reads the same names, types, shapes and numbers."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, load_model, save_model
from torch import nn

from weft.run.folder.weights import DTYPE_NAMES, tied_names, write_tensors, write_weights


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    shared = torch.randn(4, 6)
    tensors = {str(dtype): torch.arange(7).to(dtype) for dtype in DTYPE_NAMES} | {
        "empty": torch.empty(0, 3),
        "number": torch.tensor(0.1),
        "turned": shared.t(),
        "part": shared[1:3, ::2],
        'a "name" of ü\n': shared,
        "large": torch.randn(3 << 20),  # more than is written at once
    }
    found = write_tensors(tmp_path / "a.safetensors", tensors, {"kept": "for a reason"})
    read = load_file(tmp_path / "a.safetensors")
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype
        assert torch.equal(read[name], tensor)
    assert found == hashlib.sha256((tmp_path / "a.safetensors").read_bytes()).hexdigest()
    with safe_open(tmp_path / "a.safetensors", framework="pt") as file:
        assert file.metadata() == {"format": "pt", "kept": "for a reason"}


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.output, self.embedding = nn.Linear(3, 5, bias=False), nn.Embedding(5, 3)
        self.embedding.weight = self.output.weight
        self.register_buffer("count", torch.tensor(3))


def test_weights_that_are_tied_are_written_once_as_the_library_does(tmp_path: Path) -> None:
    model, other = Tied(), Tied()
    write_weights(tmp_path / "ours", model.state_dict(), tied_names(model))
    save_model(model, str(tmp_path / "theirs"))
    with safe_open(tmp_path / "ours", framework="pt") as ours, safe_open(tmp_path / "theirs", framework="pt") as theirs:
        assert ours.keys() == theirs.keys()
        assert ours.metadata() == {"format": "pt"} | theirs.metadata()
    load_model(other, str(tmp_path / "ours"))
    assert torch.equal(other.embedding.weight, model.output.weight)


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has modes")
def test_the_file_has_the_mode_of_its_neighbours(tmp_path: Path) -> None:
    write_tensors(tmp_path / "weights", {"a": torch.ones(1)})
    (tmp_path / "text").write_text("", encoding="utf-8")
    assert (tmp_path / "weights").stat().st_mode == (tmp_path / "text").stat().st_mode
