"""weft studio [PATH…]"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.imports import Imports


def studio(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Runs, or folders of runs and their data; runs/ by default.", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(help="The port on this machine; 0 takes a free one.", min=0, max=65535)] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    export: Annotated[
        Path | None,
        typer.Option(help="Write pages that open from disk instead, without a server.", metavar="DIR"),
    ] = None,
    imports: Imports = None,
) -> None:
    """Show runs in a browser: curves, answers, views inside the model, and small models that learn as you watch.

    The studio listens on this machine alone. Ctrl-C ends it, and with it a training that was started from the page.

    Examples:
    weft studio
    weft studio runs/demo runs/big data --port 8000 --no-browser
    weft studio runs --import cells.py:MyCell
    weft studio runs --export pages
    """
    from weft.errors import ConfigError, WeftError
    from weft.extras import EXTRAS

    missing = [name for name, version in EXTRAS["studio"].found().items() if version is None]
    if missing:
        raise WeftError(f"needs {' and '.join(missing)}", where="weft studio", cure=EXTRAS["studio"].install)
    given = paths or [Path("runs")]
    for path in given:
        if not path.is_dir() and (paths or export is not None):
            raise ConfigError("is no folder", where=str(path), cure="name a run, or a folder of runs")
    if export is not None:
        export_pages(given, export, imports or [])
        return
    serve(given, port=port, browser=not no_browser, imports=imports or [])


def serve(paths: list[Path], *, port: int, browser: bool, imports: list[str]) -> None:
    """Listen, print the address, and answer until Ctrl-C."""
    import secrets
    import threading

    from weft.cli.output import note, say
    from weft.serve.listening import listen, run_server

    listener = listen(port=port)
    from weft.studio import create_app

    token = secrets.token_urlsafe(24)
    app = create_app(paths, token=token, imports=imports)
    if imports:
        app.state.studio.runs()  # a mistake in an imported file is reported here, not in the page
    address = f"{listener.url}#token={token}"

    def ready() -> None:
        say("weft studio: [bold]{}[/]", address)
        note("Ctrl-C ends it")
        if browser:
            import webbrowser

            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    run_server(app, listener, on_ready=ready)


def export_pages(paths: list[Path], out: Path, imports: list[str]) -> None:
    """Write static pages of all runs."""
    from weft.cli.output import note
    from weft.studio.export import export

    found = export(paths, out, imports=imports, say=lambda text: note("{}", text))
    note("open [bold]{}[/]", found)
