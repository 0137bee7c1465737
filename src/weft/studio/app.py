"""The application of the studio: its routes, and the files of its page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.serve import Limits, create_application
from weft.studio.files import file_routes
from weft.studio.learn_routes import learn_routes
from weft.studio.run_routes import run_routes
from weft.studio.studio import Studio

if TYPE_CHECKING:
    from fastapi import FastAPI

LIMITS: Final = Limits(body_bytes=12 << 20)
"""A picture of 8 MB takes 11 MB in base64."""


def create_app(paths: Sequence[str | Path], *, token: str | None = None, imports: Sequence[str] = ()) -> FastAPI:
    """Return the studio for runs, or folders of runs. Without a token nothing can be trained from the page.

    `imports` are classes of the user's own, as --import names them: FILE.py:CLASS. Their files are executed.
    """
    studio = Studio(paths, token=token, imports=imports)
    app = create_application(
        "weft studio",
        [file_routes(), run_routes(studio), learn_routes(studio)],
        limits=LIMITS,
        on_start=studio.warm_up,
        on_end=studio.end,
    )
    app.state.studio = studio
    return app
