"""Whoever can put a library into the cache runs code here, so nothing is loaded that another user could have put there.

Each attack is set up by one user id and the library asked for by another, in a process of its own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from weft import cache
from weft.nn.native import compiler

REAL = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(REAL is None, reason="there is no C compiler on this machine")

VICTIM, ATTACKER = 54321, 54322
ROUNDS = 10
TEXT = "int answer(void) { return 42; }"
PLANTED = "int answer(void) { return 666; }"


class Place(NamedTuple):
    """The victim's cache as it should be: `base` is above `home`, which holds `cache/compiled`."""

    base: Path
    home: Path
    compiled: Path
    planted: bytes

    def plant(self, folder: Path, *, uid: int = ATTACKER, mode: int = 0o644) -> Path:
        """The attacker's library under the name that weft looks for."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{key()}-{hashlib.sha256(self.planted).hexdigest()}.so"
        path.write_bytes(self.planted)
        path.chmod(mode)
        give(path, uid)
        return path


def key() -> str:
    found = compiler._surroundings(compiler.find_compiler())
    return hashlib.sha256("\0".join([TEXT, *found]).encode()).hexdigest()[:32]


def give(path: Path, uid: int) -> None:
    if os.geteuid() == 0:
        os.chown(path, uid, uid)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("planted")
    (folder / "a.c").write_text(PLANTED)
    subprocess.run([str(REAL), "-shared", "-fPIC", "-o", "a.so", "a.c"], cwd=folder, check=True)
    return (folder / "a.so").read_bytes()


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, planted: bytes) -> Iterator[Place]:
    """Below a folder that every user can reach, which pytest's own are not."""
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix="attack-")))
    base.chmod(0o755)
    home = base / "home"
    compiled = home / "cache" / "compiled"
    compiled.mkdir(parents=True, mode=0o700)
    for folder in (home, home / "cache", compiled):
        folder.chmod(0o755)
        give(folder, VICTIM)
    (base / "temporary").mkdir()
    (base / "temporary").chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(base / "temporary"))
    monkeypatch.setenv("WEFT_CACHE", str(home / "cache"))
    monkeypatch.delenv("CC", raising=False)
    yield Place(base, home, compiled, planted)
    shutil.rmtree(base, ignore_errors=True)


def become(uid: int) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)


def as_user(uid: int, act: Callable[[], int]) -> int:
    """What `act` returns in a process of that user; 0 to 255, and 255 if it fails."""
    child = os.fork()
    if not child:
        code = 255
        try:
            become(uid)
            code = act()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def asked() -> int:
    """The library's answer to the victim, plus 100 if a line said that nothing is kept."""
    compiler.compile_library.cache_clear()
    compiler._say_unkept.cache_clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        answer = compiler.compile_library(TEXT).answer()
    return answer % 200 + 100 * len([line for line in said if "not kept" in str(line.message)])


def test_without_an_attack_the_library_is_kept(place: Place) -> None:
    assert as_user(VICTIM, asked) == 42
    (library,) = place.compiled.iterdir()
    before = library.stat().st_mtime_ns
    assert as_user(VICTIM, asked) == 42
    assert library.stat().st_mtime_ns == before
    assert stat.S_IMODE(library.stat().st_mode) == 0o600


def test_the_plant_would_work_if_it_were_trusted(place: Place) -> None:
    """Planted by the victim itself it is loaded: so the attacks below would succeed without the checks."""
    place.plant(place.compiled, uid=VICTIM)
    assert as_user(VICTIM, asked) == 666 % 200


def parent_of_others(place: Place) -> None:
    """A folder above belongs to the attacker, who puts a cache of the victim's own files there."""
    place.plant(place.compiled, uid=VICTIM)
    give(place.home, ATTACKER)


def parent_for_all(place: Place) -> None:
    place.plant(place.compiled, uid=VICTIM)
    place.home.chmod(0o777)


def parent_for_a_group(place: Place) -> None:
    place.plant(place.compiled, uid=VICTIM)
    place.base.chmod(0o775)


def folder_of_others(place: Place) -> None:
    place.plant(place.compiled)
    give(place.compiled, ATTACKER)


def folder_for_all(place: Place) -> None:
    place.plant(place.compiled)
    place.compiled.chmod(0o777)


def folder_before_in_a_sticky_one(place: Place) -> None:
    """As in /tmp: anybody can make the folder before the victim does."""
    shutil.rmtree(place.home / "cache")
    give(place.home, 0)
    place.home.chmod(0o1777)
    place.plant(place.compiled)
    for folder in (place.home / "cache", place.compiled):
        folder.chmod(0o777)
        give(folder, ATTACKER)


def folder_through_a_link(place: Place) -> None:
    place.plant(place.base / "trap")
    give(place.base / "trap", ATTACKER)
    place.compiled.rmdir()
    place.compiled.symlink_to(place.base / "trap")


def library_of_others(place: Place) -> None:
    place.plant(place.compiled)


def library_for_all(place: Place) -> None:
    place.plant(place.compiled, uid=VICTIM, mode=0o666)


def library_through_a_link(place: Place) -> None:
    library = place.plant(place.base / "trap")
    (place.compiled / library.name).symlink_to(library)


ATTACKS = {
    "folder": (
        parent_of_others,
        parent_for_all,
        parent_for_a_group,
        folder_of_others,
        folder_for_all,
        folder_before_in_a_sticky_one,
        folder_through_a_link,
    ),
    "library": (library_of_others, library_for_all, library_through_a_link),
}
AS_ROOT = (parent_of_others, folder_of_others, folder_before_in_a_sticky_one, folder_through_a_link, library_of_others)


@pytest.mark.parametrize(
    ("attack", "code"),
    [
        pytest.param(attack, {"folder": 142, "library": 42}[kind], id=attack.__name__)
        for kind, attacks in ATTACKS.items()
        for attack in attacks
    ],
)
def test_a_planted_library_is_never_loaded(attack: Callable[[Place], None], code: int, place: Place) -> None:
    """A folder that others can write is not used, which one line says; a library of others is made again."""
    if attack in AS_ROOT and os.geteuid() != 0:
        pytest.skip("only root can act as two users")
    attack(place)
    assert [as_user(VICTIM, asked) for _ in range(ROUNDS)] == [code] * ROUNDS


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")
def test_a_folder_swapped_while_libraries_are_asked_for(place: Place) -> None:
    """The attacker owns the folder above, and exchanges the victim's folder for a trap and back, without pause."""
    place.plant(place.home / "cache" / "trap")
    give(place.home / "cache", ATTACKER)

    def swap() -> None:
        own, away, trap = place.compiled, place.compiled.with_name("away"), place.compiled.with_name("trap")
        while True:
            own.rename(away)
            trap.rename(own)
            own.rename(trap)
            away.rename(own)

    swapping = os.fork()
    if not swapping:
        become(ATTACKER)
        swap()
    try:
        answers = {as_user(VICTIM, asked) for _ in range(ROUNDS)}
    finally:
        os.kill(swapping, signal.SIGKILL)
        os.waitpid(swapping, 0)
    assert answers <= {42, 142}


def test_the_folders_that_are_made_are_ours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those above, and where the user lets groups write to new files: else the next start would refuse them."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "a" / "b"))
    before = os.umask(0o002)
    try:
        assert cache.cache_folder("compiled") == tmp_path / "a" / "b" / "compiled"
    finally:
        os.umask(before)
    for folder in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "compiled"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert cache.cache_folder("compiled") is not None
