"""Try every row of the battery and print the table: `python -m tests.faults.hostile [PATTERN] [--really]`.

For each group: attempts, how many were handled, how many of them were refused, and the most memory and CPU time that a
refusal took. With --really each row starts the command anew, the start of Python included; without, it runs in a fork
of a process that has imported weft. --through=pull sends the same files through `weft pull`, --through=export exports
them, --through=serve serves them, --through=reload replaces the folder of a running server by them.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from tests.faults.forked import Forked
from tests.faults.hostile.attempt import Battery, Result
from tests.faults.hostile.row import Row
from tests.faults.hostile.rows import ROWS
from tests.faults.hostile.through import DOORS, PULLED


def table(results: list[tuple[Row, Result]]) -> list[str]:
    """A line for each group."""
    lines = [f"{'group':<18}{'attempts':>10}{'handled':>10}{'refused':>10}{'peak MB':>10}{'CPU s':>8}"]
    for group in (*dict.fromkeys(row.group for row, _ in results), "all"):
        own = [result for row, result in results if group in (row.group, "all")]
        handled = sum(not result.faults for result in own)
        refused = [result.ended for result in own if result.ended.code]
        megabytes = max((ended.megabytes for ended in refused), default=0.0)
        seconds = max((ended.cpu_seconds for ended in refused), default=0.0)
        lines.append(f"{group:<18}{len(own):>10}{handled:>10}{len(refused):>10}{megabytes:>10.0f}{seconds:>8.1f}")
    return lines


def main(pattern: str, *, really: bool, door: str = "") -> int:
    """Try the rows whose title fits; what is handled badly is printed at once, the table at the end."""
    results = []
    with tempfile.TemporaryDirectory() as folder, Forked(variables={"WEFT_CACHE": f"{folder}/cache"}) as forked:
        battery = Battery(forked, Path(folder).resolve())
        for row in PULLED if door else ROWS:
            if re.search(pattern, row.title):
                result = DOORS[door](battery, row) if door else battery.attempt(row, really=really)
                results.append((row, result))
                if faults := results[-1][1].faults:
                    print(f"{row.title}: {'; '.join(faults)}", flush=True)
    print("\n".join(table(results)))
    return int(any(result.faults for _, result in results))


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    door = next((word.partition("=")[2] for word in sys.argv if word.startswith("--through=")), "")
    sys.exit(main(words[0] if words else "", really="--really" in sys.argv, door=door))
