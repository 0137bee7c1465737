"""Tables of series: columns that are found, time stamps, gaps, and what is wrong with a file in one line."""

from __future__ import annotations

import numpy as np
import pytest

from weft.data import BadLines, Objects
from weft.data.season import find_season, season_of
from weft.data.series_columns import SeriesColumns
from weft.data.series_stamps import read_stamp
from weft.data.series_table import read_series, series_of_objects
from weft.data.series_time import calendar, find_frequency, read_frequency
from weft.errors import ConfigError, DataError


def read(path, text, bad=None, **columns):
    path.write_bytes(text.encode())
    return list(read_series(str(path), SeriesColumns(**columns), bad or BadLines()))


@pytest.mark.covers("T3")
def test_a_wide_table_has_a_series_for_each_column_of_numbers(tmp_path):
    found = read(tmp_path / "a.csv", '"day",x,note,y\r\n2024-01-01,1,a,10\r\n2024-01-02,,b,11\r\n2024-01-03,3,c,12')
    assert [series.name for series in found] == ["x", "y"]
    np.testing.assert_array_equal(found[0].target, [1, np.nan, 3])
    assert found[1].times(2, 2) == ["2024-01-03", "2024-01-04"]
    assert (found[0].frequency, found[0].end) == ("D", 3)


def test_a_long_table_is_split_by_the_column_that_tells_equal_time_stamps_apart(tmp_path):
    rows = [
        f"{shop},{month},{shop == 'b'},{value}"
        for shop, value in (("a", 1), ("b", 5))
        for month in ("2024-01", "2024-02")
    ]
    found = read(
        tmp_path / "a.csv", "shop,month,open,value\n" + "\n".join(rows).replace("True", "1").replace("False", "0")
    )
    assert [(series.name, series.target.tolist()) for series in found] == [("a", [1, 1]), ("b", [5, 5])]
    assert found[0].columns == ("value", "month", "shop")


def test_a_row_that_is_there_twice_is_named_with_its_series(tmp_path):
    rows = [f"{shop},2024-01-{day:02},{day}" for shop in "ab" for day in range(1, 11)]
    text = "\n".join(["shop,day,value", *rows, "b,2024-01-03,9"])
    with pytest.raises(
        DataError, match=r"a.csv:22: the time stamp 2024-01-03 of b is there twice, first in .*a.csv:14"
    ):
        read(tmp_path / "a.csv", text)


def test_remarks_are_no_names_of_series(tmp_path):
    text = "day,value,remark\n2024-01-01,1,one\n2024-01-02,2,two\n2024-01-02,3,three\n"
    with pytest.raises(DataError, match=r"a.csv:4: the time stamp 2024-01-02 is there twice"):
        read(tmp_path / "a.csv", text)


def test_covariates_and_static_numbers_go_with_their_series(tmp_path):
    text = "id,t,value,price,size\na,1,1,9,3\na,2,,8,3\nb,1,4,7,5\nb,2,5,6,5\n"
    one, two = read(
        tmp_path / "a.csv", text, target=("value",), time="t", series="id", known=("price",), static=("size",)
    )
    assert one.steps.array[:, 1].tolist() == [9, 8]
    assert (one.static, two.static, one.end, two.end) == ((3.0,), (5.0,), 1, 2)


def test_a_gap_in_time_is_read_as_missing_and_said_aloud(tmp_path):
    bad = BadLines()
    (series,) = read(tmp_path / "a.csv", "date,y\n2024-01-01,1\n2024-01-02,2\n2024-01-05,5\n", bad)
    np.testing.assert_array_equal(series.target, [1, 2, np.nan, np.nan, 5])
    assert "2 steps of D are not in the file, the first before" in bad.notes[0]
    assert ":4:" in bad.notes[0]


DAYS = "date,y\n2024-01-01,1\n2024-01-02,2\n"


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        (DAYS + "2024-01-03,x\n", {}, r'a.csv:4: "y" is \'x\', not a number'),
        (DAYS + "2024-01-02,2\n", {}, r"a.csv:4: the time stamp 2024-01-02 is there twice, first in .*:3"),
        (DAYS + "2024-01-03,3\n2024-01-04 07:00,3\n", {}, r"a.csv:5: the time stamps are irregular"),
        (DAYS + "2024-01-03\n", {}, r"a.csv:4: 1 cell, where the header has 2"),
        (DAYS + "Jan 2,2\n", {"time": "date"}, r"a.csv:4: \"date\" is 'Jan 2', no time stamp"),
        (DAYS, {"target": ("z",)}, r'a.csv:1: no column "z" for data.target'),
        ("2024-01-01,1\n2024-01-02,2\n", {"target": ()}, r"a.csv:1: the first line is no header"),
        ("date,note\n2024-01-01,a\n", {"target": ()}, r"a.csv:1: no column of numbers"),
        ("date,y\n", {}, r"a.csv: no rows after the header"),
        ("date,y,s\n2024-01-01,1,1\n2024-01-02,1,2\n", {"static": ("s",)}, r'a.csv:3: "s" changes within a series'),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, text, columns, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.csv", text, **{"target": ("y",), **columns})


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            ["09/14/2021", "09/15/2021", "09/16/2021"],
            r"a.csv:2: \"date\" is '09/14/2021', where day and month could be",
        ),
        (["2021-02-28", "2021-02-30", "2021-03-01"], r"a.csv:3: \"date\" is '2021-02-30', a day or time that does not"),
        (["Jan 2021", "Feb 2021", "Mar 2021"], r"a.csv:2: \"date\" is 'Jan 2021', no time stamp"),
        (["first", "second", "third"], r"a.csv:2: \"date\" is 'first', no time stamp"),
    ],
)
@pytest.mark.parametrize("name", ["date", "Messung"])
def test_dates_that_cannot_be_read_are_never_ignored(tmp_path, cells, message, name):
    text = f"{name},y\n" + "".join(f"{cell},{value}\n" for cell, value in zip(cells, (5, 3, 4), strict=True))
    if cells[0] == "first" and name != "date":
        assert read(tmp_path / "a.csv", text)[0].columns[1] == ""
        return
    with pytest.raises(DataError, match=message.replace("date", name)):
        read(tmp_path / "a.csv", text)


@pytest.mark.parametrize(
    "cell", ["01.03.2021", "2021/3/1", "2021/03/01", "20210301", "2021-03", "1614556800", "1614556800000"]
)
def test_unambiguous_dates_are_read(tmp_path, cell):
    (series,) = read(tmp_path / "a.csv", f"ts,y\n{cell},1\n")
    assert series.seconds(0, 1)[0] == 1614556800
    assert series.times(0, 1)[0].startswith("2021-03")


def test_quarters_are_three_months(tmp_path):
    (series,) = read(tmp_path / "a.csv", "quarter,y\n2000-Q1,1\n2000-Q2,5\n2000-Q3,2\n")
    assert (series.frequency, series.times(3, 1)) == ("3M", ["2000-10"])


def test_messages_have_the_frequency_as_it_is_written(tmp_path):
    text = "quarter,y\n2000-Q1,1\n2001-Q4,5\n2002-Q1,2\n"
    with pytest.raises(DataError, match=r"a.csv:4: the time stamps are irregular: this one is no multiple of 7q after"):
        read(tmp_path / "a.csv", text, frequency="7q")


def test_what_counts_rows_or_seconds_is_no_target(tmp_path):
    rows = "".join(f"{1614556800 + 3600 * row},{row + 1},{row % 3}\n" for row in range(6))
    (series,) = read(tmp_path / "a.csv", "ts,number,load\n" + rows)
    assert (series.name, series.frequency, series.times(6, 1)) == ("load", "h", ["2021-03-01 06:00:00"])
    assert [one.name for one in read(tmp_path / "a.csv", "seconds,number,load\n" + rows)] == ["load"]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("broken", "is 'broken', not a number .*data.target"),
        ("1e308", r"is '1e308' \(write a number between ±1e\+30"),
        ("inf", r"is 'inf' \(write a number between"),
        ('"50,69"', r"is '50,69', not a number: it has a comma \(write it as 50.69\)"),
        ('"1,050.69"', r"is '1,050.69', not a number: it has marks between thousands \(write it as 1050.69\)"),
        ("1_000", r"is '1_000', not a number: it has marks between thousands \(write it as 1000\)"),
        ("\u22122.5", r"is '\u22122.5', not a number: it has a minus sign of typography \(write it as -2.5\)"),
    ],
)
def test_one_bad_cell_among_numbers_is_the_error_and_not_its_column(tmp_path, cell, message):
    text = f"date,y\n2024-01-01,1\n2024-01-02,{cell}\n2024-01-03,3\n"
    with pytest.raises(DataError, match=rf'a.csv:3: "y" {message}'):
        read(tmp_path / "a.csv", text)
    bad = BadLines(skip=True)
    (series,) = read(tmp_path / "a.csv", text, bad)
    np.testing.assert_array_equal(series.target, [1, np.nan, 3])
    assert bad.count == 1


@pytest.mark.parametrize("cell", ['"1,050.69"', "\u22122.5", "2'500", "3\u202f000,5".replace(",", ".")])
def test_a_whole_column_in_another_notation_is_named_and_not_ignored(tmp_path, cell):
    with pytest.raises(DataError, match=r'a.csv:2: "y" is .*, not a number: it has .*write it as'):
        read(tmp_path / "a.csv", f"date,y\n2024-01-01,{cell}\n2024-01-02,{cell}\n")


def test_a_column_without_a_value_is_named(tmp_path):
    with pytest.raises(DataError, match=r'a.csv:1: all values of "y" are missing'):
        read(tmp_path / "a.csv", "date,y\n2024-01-01,\n2024-01-02,NA\n")


def test_a_line_break_in_the_name_of_a_column_becomes_a_blank(tmp_path):
    (series,) = read(tmp_path / "a.csv", 'date,"sales\nin euros"\n2024-01-01,1\n2024-01-02,2\n')
    assert series.name == "sales in euros"


def test_times_with_an_offset_are_shown_in_utc(tmp_path):
    """The hour at which clocks are set back is there twice, with different offsets."""
    hours = ["01:00:00+02:00", "02:00:00+02:00", "02:00:00+01:00", "03:00:00+01:00"]
    text = "t,y\n" + "".join(f"2024-10-27T{hour},{k}\n" for k, hour in enumerate(hours))
    (series,) = read(tmp_path / "a.csv", text)
    assert series.target.tolist() == [0, 1, 2, 3]
    assert series.times(0, 5)[::4] == ["2024-10-26 23:00:00Z", "2024-10-27 03:00:00Z"]
    (local,) = read(tmp_path / "b.csv", "t,y\n2024-10-27 01:00,1\n2024-10-27 02:00,2\n")
    assert local.times(2, 1) == ["2024-10-27 03:00:00"]


def test_time_stamps_go_beyond_the_years_of_four_digits(tmp_path):
    (series,) = read(tmp_path / "a.csv", "month,y\n9999-11,1\n9999-12,2\n")
    assert series.times(1, 2) == ["9999-12", "10000-01"]
    assert series.window(-12 * 9999, 2).times(0, 1) == ["0000-11"]


def test_a_column_name_that_is_there_twice_is_named(tmp_path):
    with pytest.raises(DataError, match=r'a.csv:1: two columns are named "y"'):
        read(tmp_path / "a.csv", "date,y,y\n2024-01-01,1,2\n")


def test_python_tables_are_read_like_files():
    rows = [{"ds": "2024-01-01", "y": 1}, {"ds": "2024-01-02", "y": None}]
    (series,) = series_of_objects(Objects(rows, "data.train"), SeriesColumns(), BadLines())
    np.testing.assert_array_equal(series.target, [1, np.nan])
    assert series.frequency == "D"


@pytest.mark.parametrize(
    ("stamps", "frequency", "after"),
    [
        (["2024-01-31", "2024-02-29", "2024-03-31"], "M", "2024-04-30"),
        (["2024-01", "2024-02"], "M", "2024-03"),
        (["2023-01-01", "2023-04-01", "2023-07-01"], "3M", "2023-10"),
        (["2020", "2021"], None, None),
        (["2020-01-01", "2021-01-01"], "Y", "2022-01"),
        (["2024-01-04", "2024-01-05", *(f"2024-01-{day:02}" for day in range(8, 13))], "B", "2024-01-15"),
        (["2024-01-01", "2024-01-08"], "W", "2024-01-15"),
        (["2024-01-01 00:00", "2024-01-01 00:15"], "15min", "2024-01-01 00:30:00"),
        (["2024-01-01T23:00:00", "2024-01-02T00:00:00"], "h", "2024-01-02 01:00:00"),
    ],
)  # fmt: skip
def test_a_frequency_is_found_and_continued(stamps, frequency, after):
    numbers = [read_stamp(stamp) for stamp in stamps]
    if frequency is None:
        assert numbers == [None, None]  # four digits are a number, not a time stamp
        return
    found = find_frequency(numbers, numbered=False)
    assert str(found) == frequency
    assert found.show(numbers[0], len(stamps), 1) == [after]
    assert found.positions(numbers[0], np.array(numbers)).tolist() == list(range(len(stamps)))
    assert read_frequency(frequency) == found


def test_a_word_that_is_no_frequency_is_an_error():
    assert str(read_frequency("2 hours")) == "2h"
    assert str(read_frequency("quarter")) == "3M"
    with pytest.raises(ConfigError, match=r'data.frequency = "fortnight": is no frequency'):
        read_frequency("fortnight")


def test_the_calendar_is_the_phase_of_day_week_and_year():
    noon = read_stamp("2024-01-01 12:00:00")  # a Monday
    assert calendar(np.array([noon]), ["day"]) == pytest.approx(np.array([[0.0, -1.0]]), abs=1e-9)
    assert calendar(np.array([noon]), ["week"])[0, 1] == pytest.approx(np.cos(2 * np.pi * 0.5 / 7))
    assert calendar(np.array([noon]), []).shape == (1, 0)


def test_seasons_are_found_and_noise_has_none():
    draw, t = np.random.default_rng(0), np.arange(240)
    waves = (10 + 0.1 * t) * (1 + 0.3 * np.sin(2 * np.pi * t / 12))
    assert season_of(waves + draw.normal(0, 0.5, 240), ()) == 12
    assert season_of(waves + draw.normal(0, 0.5, 240), (12,)) == 12
    assert season_of(np.tile([1.0, 2, 3, 4, 5, 9, 8], 30), (7, 365)) == 7
    for noise in (draw.normal(size=240), np.cumsum(draw.normal(size=240)), draw.poisson(0.3, 240) * 1.0):
        assert season_of(noise, ()) == 1
    assert season_of(np.ones(50), (12,)) == 1
    assert season_of(np.arange(240) * 0.1, (12,)) == 1


@pytest.mark.parametrize(("level", "size"), [(0, 1e-300), (0, 1e-9), (1e9, 1e-3), (0, 1e29)])
def test_a_season_does_not_depend_on_the_unit(level, size):
    wave = np.sin(2 * np.pi * np.arange(240) / 12) + np.random.default_rng(0).normal(0, 0.1, 240)
    assert season_of(level + size * wave, (12,)) == 12


def test_most_series_decide_on_the_season(tmp_path):
    rows = "".join(f"{k},{k % 4},{k % 4 * 2},{k % 2}\n" for k in range(60))
    assert find_season(read(tmp_path / "a.csv", "step,a,b,c\n" + rows), "") == 4


def test_series_that_are_too_short_to_show_a_season_do_not_vote(tmp_path):
    rows = "".join(f"{k},{k % 4},{k if k < 3 else ''},{k if k < 3 else ''}\n" for k in range(60))
    assert find_season(read(tmp_path / "a.csv", "step,a,b,c\n" + rows), "") == 4


def test_a_series_and_its_continuation_make_one_with_the_gap_between_them(tmp_path):
    (one,) = read(tmp_path / "a.csv", "date,y\n2024-01-01,1\n2024-01-02,2\n")
    (two,) = read(tmp_path / "b.csv", "date,y\n2024-01-04,4\n2024-01-05,5\n")
    both = one.followed_by(two)
    np.testing.assert_array_equal(both.target, [1, 2, np.nan, 4, 5])
    assert both.origin == 3
