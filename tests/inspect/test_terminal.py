"""Heat maps of a terminal: labels above their columns, dates that fit into a line, and a scale."""

from __future__ import annotations

from weft.inspect.terminal import SHADES, heat_lines, scale_line


def test_dates_stand_in_one_line_above_their_columns() -> None:
    dates = [f"2024-01-{day:02}" for day in range(1, 31)]
    lines = [line.plain for line in heat_lines([[1.0] * 30], ["u"], dates, width=50)]
    blocks = [lines[place : place + 2] for place in range(0, len(lines), 3)]
    assert len(blocks) == 2
    for labels, row in blocks:
        shown = labels.split()
        assert len(shown) > 1
        assert {labels.index(date) - 3 for date in shown} == {12 * place for place in range(len(shown))}
        assert set(row) == {"u", " ", "█"}
    assert blocks[1][0].split()[0] == dates[len(blocks[0][1][3:]) // 2]


def test_words_and_short_numbers_are_written_downwards() -> None:
    for names in (["cat", "sat"], ["sleeping", "2024-01-01"], ["1", "12"]):
        lines = heat_lines([[0.0, 1.0]], ["u"], names, width=40)
        assert len(lines) == 1 + max(map(len, names))


def test_a_scale_has_all_shades_between_its_ends() -> None:
    line = scale_line("0", "1").plain
    assert all(shade in line for shade in SHADES)
    assert line.startswith("scale: 0 blank ·")
    assert line.endswith("█ 1")
