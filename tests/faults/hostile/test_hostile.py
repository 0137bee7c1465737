"""Every hostile folder of the table is read or refused as it says, in one line, in little memory and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.faults.forked import Forked
from tests.faults.hostile.attempt import WRITING, Battery
from tests.faults.hostile.row import Row
from tests.faults.hostile.rows import ROWS
from tests.faults.hostile.through import DOORS, PULLED

EVERY, EVERY_TRAINING, EVERY_REAL, EVERY_DOOR = 4, 10, 190, 60
"""Of how many rows the fast suite takes one: in all, of those that train, through a command of its own, and through
other doors."""


@pytest.fixture(scope="session")
def battery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Battery]:
    base = tmp_path_factory.mktemp("hostile").resolve()
    with Forked() as forked:
        yield Battery(forked, base)


def sample() -> list[Row]:
    """An even share of the rows."""
    training = [row for row in ROWS if row.command in WRITING]
    return [row for row in ROWS if row.command not in WRITING][::EVERY] + training[::EVERY_TRAINING]


def check(row: Row, battery: Battery, record_property: Callable[[str, object], None], *, really: bool) -> None:
    result = battery.attempt(row, really=really)
    took = f"{result.ended.megabytes:.0f}", f"{result.ended.cpu_seconds:.1f}"
    record_property("hostile", [row.group, not result.faults, *took])
    assert not result.faults, "; ".join(result.faults)


@pytest.mark.parametrize("row", sample(), ids=lambda row: row.title)
def test_hostile_folders(row: Row, battery: Battery, record_property: Callable[[str, object], None]) -> None:
    check(row, battery, record_property, really=False)


@pytest.mark.parametrize("row", ROWS[::EVERY_REAL], ids=lambda row: row.title)
def test_the_command_itself(row: Row, battery: Battery, record_property: Callable[[str, object], None]) -> None:
    check(row, battery, record_property, really=True)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.title)
def test_every_hostile_folder(row: Row, battery: Battery, record_property: Callable[[str, object], None]) -> None:
    check(row, battery, record_property, really=True)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("row", PULLED[::EVERY_DOOR], ids=lambda row: row.title)
def test_other_doors(row: Row, door: str, battery: Battery) -> None:
    assert not DOORS[door](battery, row).faults


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("row", PULLED, ids=lambda row: row.title)
def test_every_row_through_other_doors(row: Row, door: str, battery: Battery) -> None:
    assert not DOORS[door](battery, row).faults


def test_the_table_is_large_and_no_row_is_there_twice() -> None:
    titles = {row.title for row in ROWS}
    assert len(titles) == len(ROWS) >= 160
    assert len({row.group for row in ROWS}) == 17
