"""The models of a server: loaded at the start, and loaded again when the folder of a run is written anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from weft.errors import WeftError, did_you_mean
from weft.run import load
from weft.run.folder.manifest import verify
from weft.serve.api_errors import RequestError
from weft.serve.logs import log
from weft.serve.metrics import Metrics
from weft.serve.served import Served, mark_of
from weft.serve.settings import ServerSettings


class Refreshed(NamedTuple):
    """The models that were loaded again, and those that cannot be, with the reasons."""

    reloaded: list[str]
    failed: dict[str, str]


class Models:
    """The models by their names. A request that has begun keeps the model that it began with."""

    def __init__(self, settings: ServerSettings, metrics: Metrics, cells: Mapping[str, Any]) -> None:
        self.settings, self.metrics, self.cells = settings, metrics, cells
        self.served: dict[str, Served] = {}
        self.failed: dict[str, str] = {}
        """The mark of a folder that could not be loaded, so that it is tried and logged once."""
        self.reasons: dict[str, str] = {}
        """Why the folder of a model cannot be loaded now, without its path."""
        self.loading = asyncio.Lock()
        self.on_loaded: Callable[[], None] = lambda: None
        """Called after models have been loaded, and after one has been loaded again."""

    def load(self, stops: Callable[[], bool] = lambda: False) -> None:
        """Load all runs, unless `stops()` becomes true; raise where one cannot be. Requests see all of them or none."""
        found: dict[str, Served] = {}
        for name, folder in self.settings.runs:
            if stops():
                return
            found[name] = self._load(name, folder)
        self.served = found
        self.on_loaded()

    def _load(self, name: str, folder: Path) -> Served:
        mark = mark_of(folder)
        run = load(folder, device=self.settings.device, cells=self.cells)
        return Served(name, run, mark, limits=self.settings.limits, count=self._count)

    def _count(self, name: str, direction: str, count: int) -> None:
        self.metrics.tokens.labels(name, direction).inc(count)

    def pick(self, name: str | None) -> Served:
        """Return the model of this name; a request may leave it out where there is one."""
        if name is None:
            if len(self.served) > 1:
                names = ", ".join(sorted(self.served))
                raise RequestError("is missing, and this server has several", param="model", cure=f"one of {names}")
            return next(iter(self.served.values()))
        found = self.served.get(name)
        if found is None:
            what = f'no model is named "{name[:100]}"'
            raise RequestError(what, param="model", cure=did_you_mean(name[:100], self.served), status=404)
        return found

    async def refresh(self, *, again: bool = False, only: str | None = None) -> Refreshed:
        """Load the runs whose manifest has changed, or the one that is named. One that cannot be loaded is logged, and
        its model stays as it was; `again` tries it also where that has failed before."""
        async with self.loading:
            runs = [run for run in self.settings.runs if only in (None, run.name) and run.name in self.served]
            reloaded = [name for name, folder in runs if await self._refresh(name, folder, again)]
            return Refreshed(reloaded, {name: self.reasons[name] for name, _ in runs if name in self.reasons})

    async def _refresh(self, name: str, folder: Path, again: bool) -> bool:
        mark = ""
        try:
            mark = await asyncio.to_thread(mark_of, folder)
            if mark == self.served[name].mark and again:
                await asyncio.to_thread(verify, folder)
                self.reasons.pop(name, None)
            if mark == self.served[name].mark or (mark == self.failed.get(name) and not again):
                return False
            found = await asyncio.to_thread(self._load, name, folder)
        except Exception as error:  # an imported class may raise any, which must not end the other models
            if self.failed.get(name) != mark or again:
                self.failed[name] = mark
                reason = str(error) if isinstance(error, WeftError) else type(error).__name__
                log("reload failed", level=logging.WARNING, model=name, reason=reason)
                self.metrics.reloads.labels(name, "failed").inc()
                why = error.what if isinstance(error, WeftError) else reason
                self.reasons[name] = why.replace(str(folder), name)
            return False
        self.served[name] = found
        self.failed.pop(name, None)
        self.reasons.pop(name, None)
        log("reloaded", model=name)
        self.metrics.reloads.labels(name, "done").inc()
        self.on_loaded()
        return True

    async def watch(self) -> None:
        """Look at the manifests every few seconds, for ever."""
        while self.settings.reload_seconds > 0:
            await asyncio.sleep(self.settings.reload_seconds)
            await self.refresh()
