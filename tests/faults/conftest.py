"""What the tests of faults found, in a table at the end of `pytest tests/faults`."""

from __future__ import annotations

from collections import defaultdict

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = [
        (name, value)
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in report.user_properties
    ]
    groups = defaultdict[str, list[list[str]]](list)
    for name, value in found:
        if name == "hostile":
            groups[value[0]].append(value[1:])
        elif name == "faults":
            terminalreporter.write_line(str(value).splitlines()[0])
    if groups:
        terminalreporter.write_line(
            f"{'hostile folders':<18}{'attempts':>10}{'handled':>10}{'peak MB':>10}{'CPU s':>8}"
        )
    for group, rows in groups.items():
        handled, megabytes, seconds = (
            sum(bool(row[0]) for row in rows),
            max(float(r[1]) for r in rows),
            max(float(r[2]) for r in rows),
        )
        terminalreporter.write_line(f"{group:<18}{len(rows):>10}{handled:>10}{megabytes:>10.0f}{seconds:>8.1f}")
