"""Whatever stands in a file, it is read or refused with an error of weft's, in little memory and time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.faults.forked import Ended, Forked
from tests.faults.fuzz.loaders import LOADERS
from tests.faults.fuzz.mutate import files_like
from tests.faults.fuzz.regressions import REGRESSIONS
from tests.faults.fuzz.samples import write_samples
from tests.faults.hostile.attempt import Battery

LOAD = "tests.faults.fuzz.loaders:load"
MOST_MEGABYTES = 1500
FEW, MANY = 8, 1500
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


class Fuzz:
    """Good files, and a place where others are read."""

    def __init__(self, forked: Forked, base: Path) -> None:
        self.forked, self.base, self.battery = forked, base, Battery(forked, base)
        self.samples = base / "samples"
        self.samples.mkdir()
        write_samples(self.samples)

    def good(self, name: str) -> bytes:
        loader = LOADERS[name]
        if not loader.base:
            return (self.samples / loader.path).read_bytes()
        return (self.battery.run(loader.base) / Path(loader.path).relative_to("run")).read_bytes()

    def load(self, name: str, data: bytes) -> Ended:
        """Read a file with this content: exit code 0 if it was read, 2 if it was refused."""
        folder, loader = self.base / "fuzz", LOADERS[name]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if loader.base:
            shutil.copytree(self.battery.run(loader.base), folder / "run")
            (folder / "words").write_text("\n".join(self.battery.training), encoding="utf-8")
            if name != "manifest":
                (folder / "signed").touch()
        (folder / loader.path).write_bytes(data)
        return self.forked.run(LOAD, name, cwd=folder, seconds=60.0, gigabytes=6.0)

    def check(self, name: str, data: bytes, *codes: int) -> None:
        """Fail the test if reading such a file ends with another code, or takes too much memory."""
        ended = self.load(name, data)
        assert ended.code in codes, f"{name} {data[:2000]!r}: exit code {ended.code}, {ended.err[-2000:]}"
        assert ended.megabytes < MOST_MEGABYTES, f"{name} {data[:2000]!r}: {ended.megabytes:.0f} MB"


@pytest.fixture(scope="session")
def fuzz(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzz]:
    with Forked() as forked:
        yield Fuzz(forked, tmp_path_factory.mktemp("fuzz").resolve())


@pytest.mark.parametrize("name", LOADERS)
def test_good_files_are_read(fuzz: Fuzz, name: str) -> None:
    fuzz.check(name, fuzz.good(name), 0)


@pytest.mark.parametrize("name", LOADERS)
def test_a_few_bad_files(fuzz: Fuzz, name: str) -> None:
    @settings(max_examples=FEW, derandomize=True, **QUIET)
    @given(data=files_like(fuzz.good(name)))
    def check(data: bytes) -> None:
        fuzz.check(name, data, 0, 2)

    check()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", LOADERS)
def test_many_bad_files(fuzz: Fuzz, name: str) -> None:
    number = MANY // 6 if "checkpoint" in name else MANY

    @settings(max_examples=number, print_blob=True, **QUIET)
    @given(data=files_like(fuzz.good(name)) | st.binary(max_size=400))
    def check(data: bytes) -> None:
        fuzz.check(name, data, 0, 2)

    check()


@pytest.mark.parametrize(("name", "data"), REGRESSIONS, ids=[f"{name} {data[:12]!r}" for name, data in REGRESSIONS])
def test_what_was_once_handled_badly(fuzz: Fuzz, name: str, data: bytes) -> None:
    fuzz.check(name, data, 0, 2)
