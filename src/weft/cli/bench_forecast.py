"""weft bench forecast"""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.options import Json, Markdown


def forecast(
    words: Annotated[
        list[str],
        typer.Argument(help="Tables of series, and settings such as data.horizon=24.", metavar="FILE key=value"),
    ],
    contender: Annotated[
        list[str] | None,
        typer.Option(
            help="weft, lstm, deepar or seasonal_naive. Repeatable.",
            metavar="NAME",
            show_default="all that are installed",
        ),
    ] = None,
    windows: Annotated[int, typer.Option(help="Windows of the test part that are forecast.", min=1)] = 100,
    seconds: Annotated[
        float | None, typer.Option(help="Seconds after which each training is stopped.", min=0.001)
    ] = None,
    threads: Annotated[int, typer.Option(help="Processor threads; 0 means one for each core.", min=0)] = 1,
    repeats: Annotated[int, typer.Option(help="Forecasts that are timed; the median is printed.", min=1)] = 15,
    markdown: Markdown = False,
    json: Json = False,
) -> None:
    """Train forecasters on each file: weft, and the LSTM and DeepAR of NeuralForecast, all with their defaults.

    The last fifth of each series is the test part (data.test); forecasts begin at equally spaced steps of it.

    MASE is in units of the seasonal naive error before the test part; coverage is that of the 80% interval.

    Examples:
    weft bench forecast passengers.csv
    weft bench forecast load.csv data.target=load data.season=24 data.horizon=96 --seconds 180
    weft bench forecast a.csv b.csv --contender weft --contender seasonal_naive --json
    """
    import torch

    from weft.bench import describe, load_warning
    from weft.bench.forecast import (
        check_contenders,
        installed,
        measure_forecast,
        plan_forecast,
        tabulate_forecast,
        versions,
    )
    from weft.cli.bench import show, show_progress
    from weft.cli.output import note, print_json
    from weft.cli.train import OVERRIDE
    from weft.config import parse_overrides
    from weft.errors import ConfigError
    from weft.training import set_threads

    names = check_contenders(contender or ())
    present, missing = installed(names)
    if not present:
        raise ConfigError(missing[0], where="weft bench forecast", cure="choose another --contender")
    files = [word for word in words if not OVERRIDE.match(word)]
    given = parse_overrides(word for word in words if OVERRIDE.match(word))
    data = given.pop("data", {})
    if given:
        where = next(iter(given))
        raise ConfigError("contenders have their defaults", where=where, cure="only settings of data may be given")
    if not files:
        raise ConfigError("no file to forecast", where="weft bench forecast", cure="name a table of series")
    set_threads(threads)
    cases = [plan_forecast(file, data, windows=windows, seconds=seconds, repeats=repeats) for file in files]
    place = torch.device("cpu")
    if warning := load_warning(place):
        note("{}", warning)
    machine = describe(place) | versions(present)
    outcome = measure_forecast(cases, names, progress=show_progress)
    show_progress("")
    if json:
        settings = [{"file": case.name, "windows": len(case.windows), **case.settings} for case in cases]
        figures = [row.tree() for row in outcome.rows]
        print_json({"machine": machine, "settings": settings, "rows": figures, "remarks": outcome.remarks})
    else:
        about = "\n".join(case.describe() for case in cases)
        show(tabulate_forecast(outcome.rows), machine, about, outcome.remarks, markdown=markdown)
