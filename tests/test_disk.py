"""Files that are read are regular ones, and a descriptor never stays open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.disk import open_regular, read_regular


def test_a_folder_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as caught:
        read_regular(tmp_path, most=10)
    assert caught.value.filename == str(tmp_path)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="a system that does not list descriptors")
def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    path, pipe = tmp_path / "file", tmp_path / "pipe"
    path.write_bytes(b"0123456789")
    os.mkfifo(pipe)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for wrong in (tmp_path, pipe, path):
        with pytest.raises(OSError, match=r"folder|directory|regular|limit"):
            read_regular(wrong, most=9)
    with pytest.raises(KeyError), open_regular(path):
        raise KeyError
    assert read_regular(path, most=10) == b"0123456789"
    assert len(list(Path("/proc/self/fd").iterdir())) == before
