"""What the Makefile installs: fixed versions, and a hash of every file of every package but torch."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = {path.stem: path for path in sorted((ROOT / "locks").glob("*.txt"))}
TESTED = ("core", "serve", "dev", "bench", "browser")
ENTRY = re.compile(
    r"(?P<name>[a-z0-9-]+)==(?P<version>[\w.]+)(?: ; [^\\]*)?(?P<hashes>(?: \\\n {4}--hash=sha256:[0-9a-f]{64})*)"
)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(name: str) -> dict[str, str]:
    """Package -> version; every line belongs to an entry, and every entry has a hash."""
    text = LOCKS[name].read_text(encoding="utf-8").removeprefix("# Made by make lock.\n")
    found = {}
    for entry in re.split(r"\n(?=\S)", text.rstrip("\n")):
        match = ENTRY.fullmatch(entry)
        assert match, entry
        assert match["hashes"], f"{match['name']} has no hash"
        found[match["name"]] = match["version"]
    return found


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {normal(name): version for name, version in pairs}


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_a_lock_has_hashes(name):
    assert read_lock(name)


def test_the_locks_are_the_versions_that_weft_is_tested_with():
    locked: dict[str, str] = {}
    for name in TESTED:
        packages = read_lock(name)
        assert not packages.keys() & locked.keys(), "each package is in one lock"
        locked |= packages
    tested = constraints()
    assert tested.pop("torch")  # its builds differ, and each brings libraries of its own
    assert locked == tested, "make lock"


def test_what_weft_needs_is_in_the_lock_of_its_users():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["build"]]
    names = {normal(re.split(r"[^\w.-]", word)[0]) for word in wanted}
    assert names - read_lock("core").keys() == {"torch"}
    extras = project["project"]["optional-dependencies"]
    for extra in ("dev", "plot", "track", "tune"):
        names = {normal(re.split(r"[^\w.-]", word)[0]) for word in extras[extra]}
        assert names <= read_lock("core").keys() | read_lock("serve").keys() | read_lock("dev").keys()
    names = {normal(re.split(r"[^\w.-]", word)[0]) for word in extras["serve"]}
    assert names <= read_lock("core").keys() | read_lock("serve").keys(), "the container image has these two"


@pytest.fixture(scope="module")
def audit():
    spec = importlib.util.spec_from_file_location("audit", ROOT / "tools" / "audit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FINE = {"name": "rich", "version": "15.0.0", "vulns": []}
FLAW = {"id": "PYSEC-1", "fix_versions": ["15.0.1"], "aliases": [], "description": ""}
SKIPPED = {"name": "typer", "skip_reason": "Dependency not found on PyPI and could not be audited"}


@pytest.mark.parametrize(
    ("packages", "code", "said"),
    [
        ([FINE], 0, "1 packages looked up, 0 known"),
        ([FINE | {"vulns": [FLAW]}, SKIPPED], 1, r"rich 15\.0\.0: PYSEC-1 \(mended in 15\.0\.1\)"),
        ([SKIPPED], 3, "could not be reached, so nothing is known"),
        ([FINE, SKIPPED], 3, "not looked up: typer"),
        (None, 3, "could not be reached"),
    ],
)
def test_a_database_that_was_not_reached_finds_nothing_well(packages, code, said, audit):
    lines, left = audit.judge(packages and {"dependencies": packages})
    assert left == code
    assert re.search(said, "\n".join(lines))
