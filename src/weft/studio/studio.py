"""The state that all requests share: the runs that were found, those in memory, workers, and the playground."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from weft.errors import WeftError
from weft.serve import Token, Workers
from weft.studio.discovery import Found, Library
from weft.studio.learn import Playground
from weft.studio.loaded import LoadedRuns

T = TypeVar("T")

COMPUTE_SECONDS: Final = 120.0
COMPUTATIONS, WAITING = 2, 16
WARM_UP_DELAY_SECONDS: Final = 0.3
"""The page and its list of runs are sent first; importing torch slows all threads of the process down."""


class Studio:
    """The state of the application. Nothing here imports torch before the first request that needs it."""

    def __init__(self, paths: Sequence[str | Path], *, token: str | None, imports: Sequence[str] = ()) -> None:
        self.library = Library(paths)
        self.token = Token(token)
        self.imports = tuple(imports)
        self.workers = Workers(running=COMPUTATIONS, waiting=WAITING, seconds=COMPUTE_SECONDS)
        self.loaded: LoadedRuns | None = None
        self.playground = Playground(self.cell_names, self.imports)
        self.preparing = threading.Lock()

    @property
    def roots(self) -> list[Path]:
        """The folders that files may be read from."""
        return list(self.library.roots.values())

    def cells(self) -> dict[str, Any]:
        """Return the cells that --import names; the files are executed once."""
        return dict(self.runs().cells)

    def cell_names(self) -> list[str]:
        from weft.nn import CELLS

        return [*CELLS, *(name for name in self.cells() if name not in CELLS)]

    def runs(self) -> LoadedRuns:
        """Return the runs in memory; torch and the files of --import are imported first."""
        with self.preparing:
            if self.loaded is None:
                from weft.run import import_classes

                self.loaded = LoadedRuns(import_classes(self.imports))
            return self.loaded

    def warm_up(self) -> None:
        """Import what the first request needs, in a thread, so that the page is there at once."""

        def prepare() -> None:
            from weft.charts import can_draw, javascript
            from weft.studio.views import available_views

            with suppress(WeftError, ImportError):  # the request that needs it reports it
                self.runs()
                available_views()
                if can_draw():
                    javascript()

        timer = threading.Timer(WARM_UP_DELAY_SECONDS, prepare)
        timer.daemon = True
        timer.start()

    async def with_run(self, id: str, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Return function(run, …), computed in a thread, one at a time for each run."""
        found = self.library.run(id)

        def compute() -> T:
            return function(self.runs().get(found), *arguments, **options)

        return await self.workers.run(f"run {found.id}", compute)

    async def with_folder(self, found: Found, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Return function(found, …), computed in a thread."""
        return await self.workers.run(f"folder {found.id}", partial(function, found, *arguments, **options))

    def end(self) -> None:
        self.playground.end()
