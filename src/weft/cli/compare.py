"""weft compare RUN…"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.imports import Imports, read_imports
from weft.cli.options import Device

if TYPE_CHECKING:
    from weft.compare import Compared, Comparison


def compare(
    runs: Annotated[list[str], typer.Argument(help="Run folders; the others are compared with the first.")],
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            help="Measure all runs on this file, with intervals of the differences. Give it twice for parallel files.",
            metavar="FILE",
        ),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="Show only this score.", show_default="all")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the learning curves into this file.", metavar="FILE.svg|png|html")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print all numbers as JSON.")] = False,
    device: Device = "auto",
    imports: Imports = None,
) -> None:
    """Compare runs: their scores, their cost, and the settings in which they differ.

    Without --data the scores come from the reports: on test data if all runs have some, else on validation data.

    Examples:
    weft compare runs/lm-1 runs/lm-2
    weft compare runs/small runs/wide --data test.tsv --metric bleu --plot curves.svg
    """
    from weft.charts import check_format
    from weft.cli.output import note, print_json
    from weft.compare import compare as compare_runs
    from weft.run.hub.address import local_folder

    if plot is not None:
        check_format(plot)
    files = data[0] if data and len(data) == 1 else data
    found = compare_runs(runs, data=files, metric=metric, device=device, cells=read_imports(imports))
    if json:
        print_json({"measured_on": found.measured_on, "runs": [run.tree() for run in found.runs], "notes": found.notes})
    else:
        show(found)
    for line in found.notes if not json else ():
        note("[yellow]note[/] {}", line)
    if plot is not None:
        overlay([local_folder(run) for run in runs], metric, plot)
        note("learning curves: [bold]{}[/]", plot)


def show(found: Comparison) -> None:
    """Print a row for each run, then the settings that differ and the intervals of the differences."""
    from weft.cli.output import print_table
    from weft.metric_text import metric_name, show_metric

    metrics = found.shown
    words = any(run.vocabulary is not None for run in found.runs)
    rows = [
        [
            run.name,
            *(show_metric(name, run.metrics[name]) if name in run.metrics else "—" for name in metrics),
            *(show_vocabulary(run) if words else ()),
            *(f"{value:,.0f}" if value is not None else "—" for value in (run.parameters, run.seconds)),
            f"{run.tokens_per_second:,.0f}" if run.tokens_per_second is not None else "—",
        ]
        for run in found.runs
    ]
    costs = [*(["vocabulary", "unknown"] if words else []), "parameters", "seconds", "tokens/s"]
    print_table(["run", *map(metric_name, metrics), *costs], rows, title=f"scores on {found.measured_on}")
    if paths := list(found.runs[0].settings):
        body = [[path, *(show_setting(run.settings[path]) for run in found.runs)] for path in paths]
        print_table(["setting", *(run.name for run in found.runs)], body, title="settings that differ")
    if any(run.differences for run in found.runs):
        body = [
            [metric_name(name), *(show_interval(name, run.differences.get(name)) for run in found.runs[1:])]
            for name in metrics
        ]
        title = f"difference to {found.runs[0].name} [95% interval], * excludes zero"
        print_table(["score", *(run.name for run in found.runs[1:])], body, title=title)


def show_vocabulary(run: Compared) -> tuple[str, str]:
    """The size of the vocabulary and the share of unknown tokens."""
    return (
        "—" if run.vocabulary is None else f"{run.vocabulary:,}",
        "—" if run.unknown_share is None else f"{100 * run.unknown_share:.2f}%",
    )


def show_setting(value: object) -> str:
    return "—" if value is None else str(value)


def show_interval(name: str, interval: Any) -> str:
    """+1.20 [+0.40, +2.10] *; shares are in percentage points."""
    from weft.metric_text import show_change

    if interval is None:
        return "—"
    difference, low, high = (show_change(name, value) for value in interval)
    return f"{difference} [{low}, {high}] {'*' if interval.sure else ' '}"


def overlay(runs: list[Path], metric: str | None, path: Path) -> None:
    """Draw the learning curves of all runs into one picture."""
    from weft.charts import draw
    from weft.run.curves import chart, own_metric, read_curve

    curves = {str(folder): read_curve(folder) for folder in runs}
    draw(chart(curves, metric=metric or own_metric(runs[0], curves[str(runs[0])])), path)
