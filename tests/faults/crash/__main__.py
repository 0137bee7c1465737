"""Break a small training at every file operation, on several cores: `python -m tests.faults.crash [PROCESSES]`.

Prints how many trials of each kind there were and all faults. The slow tests of this folder do the same in one process.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.faults.crash.every import KINDS, work
from tests.faults.crash.trial import Tried


def main(processes: int) -> int:
    """Print a line for each kind of break."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        shares = list(pool.map(work, range(1, processes + 1), [processes] * processes))
    faults = 0
    for name in KINDS:
        tried = Tried()
        for share in shares:
            tried.number += share[name].number
            tried.faults += share[name].faults
        print(f"{name}: {tried}", flush=True)
        faults += len(tried.faults)
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else os.cpu_count() or 1))
