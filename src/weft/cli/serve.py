"""weft serve RUN…"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.imports import Imports


def serve(
    runs: Annotated[
        list[str],
        typer.Argument(help="Run folders, or NAME=RUN for another name of the model.", metavar="RUN..."),
    ],
    host: Annotated[str, typer.Option(help="The address; any but this machine's own needs --keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 8000,
    keys: Annotated[
        Path | None,
        typer.Option(help="A file with an API key on each line; more are read from WEFT_API_KEYS.", metavar="FILE"),
    ] = None,
    deadline: Annotated[float, typer.Option(help="Seconds that a request may take.", min=0.1, max=3600)] = 30.0,
    drain: Annotated[
        float, typer.Option(help="Seconds that accepted requests have to end after SIGTERM.", min=0, max=3600)
    ] = 20.0,
    workers: Annotated[int, typer.Option(help="Processes behind the port.", min=1, max=256)] = 1,
    max_queue: Annotated[int, typer.Option(help="Inputs that may wait; more are answered with 429.", min=1)] = 1024,
    batch_tokens: Annotated[
        int, typer.Option(help="Tokens of inputs computed together; 0 chooses, 1 is one input.", min=0, max=1 << 20)
    ] = 0,
    max_body: Annotated[int, typer.Option(help="Bytes of a request.", min=1024, max=1 << 28)] = 4 << 20,
    max_inputs: Annotated[int, typer.Option(help="Inputs of a request.", min=1, max=100_000)] = 256,
    max_characters: Annotated[int, typer.Option(help="Characters of an input.", min=1, max=1 << 24)] = 20_000,
    max_beam: Annotated[int, typer.Option(help="The largest beam, n_best and n.", min=1, max=1024)] = 16,
    max_length: Annotated[int, typer.Option(help="The most tokens to write.", min=1, max=1 << 16)] = 1024,
    max_values: Annotated[int, typer.Option(help="Numbers and texts of an answer.", min=1, max=1 << 30)] = 2_000_000,
    log_text: Annotated[bool, typer.Option("--log-text", help="Write the texts of requests into the log.")] = False,
    reload_seconds: Annotated[
        float, typer.Option(help="Seconds between looks for a run that was written anew; 0 never looks.", min=0)
    ] = 2.0,
    threads: Annotated[int, typer.Option(help="Threads of each process; 0 shares all cores.", min=0, max=1024)] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, …; auto uses CUDA if there is one.")] = "auto",
    imports: Imports = None,
) -> None:
    """Answer requests for the models of some runs over HTTP, those of many clients together.

    POST /v1/predict answers as `weft predict --json` does; /v1/score, /v1/embed, /v1/stream; /v1/completions speaks
    OpenAI's form for language models. /openapi.json describes all of it, /metrics is for Prometheus, and /healthz and
    /readyz are for probes. SIGTERM ends it after the last accepted request, SIGHUP loads changed runs again.

    Examples:
    weft serve runs/demo
    weft serve en-fr=runs/demo stories=runs/lm-1 --port 9000 --workers 2
    weft serve runs/demo --host 0.0.0.0 --keys keys.txt --deadline 10
    """
    from weft.errors import WeftError
    from weft.extras import EXTRAS

    missing = [name for name, version in EXTRAS["serve"].found().items() if version is None]
    if missing:
        raise WeftError(f"needs {' and '.join(missing)}", where="weft serve", cure=EXTRAS["serve"].install)
    from weft.cli.failures import report
    from weft.cli.output import note, say
    from weft.serve.keys import read_keys
    from weft.serve.listening import listen
    from weft.serve.processes import cores, run_workers
    from weft.serve.settings import RequestLimits, ServerSettings, name_runs

    settings = ServerSettings(
        runs=name_runs(runs),
        host=host,
        port=port,
        keys=read_keys(keys, os.environ),
        drain=drain,
        workers=workers,
        max_queue=max_queue,
        batch_tokens=batch_tokens,
        log_text=log_text,
        imports=tuple(imports or ()),
        threads=threads or max(1, cores() // workers),
        device=device,
        reload_seconds=reload_seconds,
        limits=RequestLimits(max_body, max_inputs, max_characters, max_beam, max_length, deadline, max_values),
    )
    settings.check()
    listener = listen(host, port, anywhere=True, backlog=1024)
    with listener.socket:

        def ready() -> None:
            say("weft serve: [bold]{}[/]", listener.url)
            if sys.stderr.isatty():  # else every line of standard error is a JSON object of the log
                note("Ctrl-C ends it")
            sys.stdout.flush()

        if workers > 1:
            code = run_workers(settings, listener, on_ready=ready, report=lambda error: report(error, command="serve"))
        else:
            from weft.serve.server import serve as serve_here

            code = serve_here(settings, listener, on_ready=ready)
    raise typer.Exit(code)
