"""The folder of many runs, such as a sweep or a ladder: it stores its plan, and only the same plan continues."""

from __future__ import annotations

from pathlib import Path

from weft.errors import ConfigError, RunError
from weft.run.folder.files import read_json, write_json
from weft.tasks import Tree


def claim_study(out: Path, file: str, plan: Tree, *, what: str, parts: str, resume: bool) -> None:
    """Make the folder and write the plan to `file`, or with `resume` check that the same plan began there.

    Errors name the study by `what` it is and by the `parts` of its plan: "sweep", "settings and ranges".
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        if not resume:
            raise RunError("is not empty", where=str(out), cure="choose another --out, or go on with --resume")
        if read_json(out / file) != plan:
            cure = f"go on with the {parts} it began with, or choose another --out"
            raise ConfigError(f"another {what} was begun here", where=str(out / file), cure=cure)
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot be written: {error.strerror}", where=str(out), cure="choose another --out") from None
    write_json(out / file, plan)
