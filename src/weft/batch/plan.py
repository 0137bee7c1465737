"""The folder OUT.job of a batch: plan.json says what is computed, part-N.jsonl are the parts that are finished.

The same command continues the plan that is there; another one is refused, since its answers would be mixed with
those of the first. When OUT is written, the parts are removed and plan.json stays, to say that OUT is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from weft.documents import check_version, parse_json, to_json
from weft.errors import RunError
from weft.limits import SMALL_FILE_BYTES
from weft.run.folder.files import json_bytes, read_json, write_file
from weft.settings import show

FORMAT_VERSION: Final = 1
PLAN: Final = "plan.json"
OUTPUT: Final = "output.tmp"
"""The output while it is written."""

MAX_PARTS: Final = 1000
"""Parts of a job, about; more rows make larger parts."""


@dataclass(frozen=True)
class Plan:
    """The work of a batch: the same plan has the same answers in the same parts."""

    run: str
    """The hash of the manifest of the run, which has the hashes of its files."""
    files: tuple[str, ...]
    """The hashes of the input files, in their order."""
    options: Mapping[str, Any]
    """The options of `predict`."""
    columns: tuple[str | int, ...]
    """The columns of the input, where they are not those of the run."""
    imports: tuple[str, ...]
    """The hashes of the user's own files."""
    part_rows: int
    complete: int | None = None
    """The rows of the finished output; None before."""

    def tree(self) -> dict[str, Any]:
        """The plan as plain JSON."""
        plain: dict[str, Any] = parse_json(to_json(asdict(self)))
        return {"format_version": FORMAT_VERSION, **plain}


WHAT: Final = {
    "run": "another model",
    "files": "other input files",
    "options": "other options",
    "columns": "another --column",
    "imports": "another --import",
    "part_rows": "another --part-rows",
}


@dataclass(frozen=True)
class JobFolder:
    """The folder of a job, beside its output."""

    path: Path

    @staticmethod
    def of(out: Path) -> JobFolder:
        return JobFolder(out.with_name(f"{out.name}.job"))

    def read_plan(self) -> dict[str, Any] | None:
        """Return the plan of the folder; None before there is one."""
        where = self.path / PLAN
        if not where.exists():
            return None
        found = read_json(where)
        if not isinstance(found, dict):
            raise RunError("is damaged", where=str(where), cure=f"remove {self.path}")
        check_version(found.get("format_version"), str(where))
        return found

    def agree(self, plan: Plan) -> Plan:
        """Return the plan with what the folder says of it, or write it there; raise if the folder has another one."""
        found = self.read_plan()
        if found is None:
            self.write_plan(plan)
            return plan
        wanted = plan.tree()
        for name, what in WHAT.items():
            if found.get(name) != wanted[name]:
                given = f"{show(found.get(name))}, now {show(wanted[name])}"
                detail = f": {given}" if name in ("options", "columns", "part_rows") else ""
                cure = "repeat the command as it was, choose another --out, or remove this folder"
                raise RunError(f"was begun with {what}{detail}", where=str(self.path), cure=cure)
        return replace(plan, complete=found.get("complete"))

    def write_plan(self, plan: Plan) -> None:
        write_file(self.path / PLAN, json_bytes(plan.tree()))

    def part(self, number: int) -> Path:
        """The file of a part."""
        return self.path / f"part-{number:06}.jsonl"

    def finished(self, parts: int) -> set[int]:
        """The numbers of the parts that are finished."""
        return {number for number in range(parts) if self.part(number).exists()}

    def write_part(self, number: int, content: bytes) -> None:
        write_file(self.part(number), content)

    def read_header(self, number: int) -> dict[str, Any]:
        """Return the first line of a part."""
        path = self.part(number)
        try:
            with path.open("rb") as file:
                found = parse_json(file.readline(SMALL_FILE_BYTES))
            if isinstance(found, dict) and {"rows", "keys", "fields", "bad", "notes"} <= found.keys():
                return found
        except (OSError, ValueError):
            pass
        raise RunError("is damaged", where=str(path), cure="remove it, and run the command again")

    def clean(self) -> None:
        """Remove what a killed process may have left behind."""
        for path in (*self.path.glob(".*.tmp"), self.path / OUTPUT):
            path.unlink(missing_ok=True)

    def remove_parts(self) -> None:
        for path in self.path.glob("part-*.jsonl"):
            path.unlink()


def default_part_rows(rows: int, chunk: int) -> int:
    """The rows of a part of so many rows in all: whole chunks of `weft predict`, so that batches are the same."""
    return chunk * max(1, -(-rows // (chunk * MAX_PARTS)))
