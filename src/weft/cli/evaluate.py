"""weft evaluate RUN DATA"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from weft.cli.imports import Imports, read_imports
from weft.cli.options import Device, SkipBadLines

MAX_CONFUSION_CLASSES = 20
"""A confusion matrix with more classes is not printed."""


def evaluate(
    run: Annotated[str, typer.Argument(help="A run folder, or hf://OWNER/NAME.")],
    data: Annotated[
        list[str],
        typer.Argument(
            help="A file of examples, in the format of the training data; two for parallel files. If its columns have "
            "other names: data.text=review data.label=sentiment."
        ),
    ],
    json: Annotated[bool, typer.Option("--json", help="Print all numbers and tables as JSON.")] = False,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept at each step.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="α in score = sum / length^α.")] = None,
    copy_unknown: Annotated[
        bool | None,
        typer.Option("--copy-unknown/--no-copy-unknown", help="Copy the source word in place of the unknown token."),
    ] = None,
    backtest: Annotated[
        int | None, typer.Option(help="Forecast the last N horizons of each series, one after the other.", metavar="N")
    ] = None,
    skip_bad_lines: SkipBadLines = False,
    device: Device = "auto",
    imports: Imports = None,
) -> None:
    """Measure a trained model on a file of examples.

    Examples:
    weft evaluate runs/demo test.tsv
    weft evaluate runs/de-en test.de test.en --beam 8 --json
    weft evaluate runs/reviews other.csv data.text=body data.label=stars
    """
    from weft.cli.output import explain, print_json, print_table, say
    from weft.config import parse_overrides
    from weft.metric_text import metric_name, show_score
    from weft.metrics import shown
    from weft.run import load

    options = {"beam": beam, "length_penalty": length_penalty, "copy_unknown": copy_unknown}
    model = load(run, device=device, cells=read_imports(imports))
    files = [word for word in data if not word.startswith("data.") or "=" not in word]
    settings = parse_overrides(word for word in data if word not in files)
    found = model.evaluate(
        files[0] if len(files) == 1 else files,
        skip_bad_lines=skip_bad_lines,
        columns=settings.get("data"),
        backtest=backtest,
        **{name: value for name, value in options.items() if value is not None},
    )
    if json:
        print_json({**found.metrics, "details": found.details})
        return
    scores = shown(found.metrics, found.details, model.config.train.metric)
    rows = [[metric_name(name), show_score(name, value, found.details)] for name, value in scores.items()]
    print_table(["metric", "value"], rows)
    show_details(found.details, print_table)
    for line in explain(found.details):
        say("{}", line)


def show_details(details: dict[str, Any], print_table: Any) -> None:
    """Print the tables of classes, spans, languages and confusions that the evaluation has."""
    from weft.metric_text import metric_name, show_score

    for key, title in (("spans", "by kind of span"), ("per_class", "by class")):
        rows = details.get(key)
        if rows:
            body = [
                [
                    row["label"],
                    *(f"{100 * row[name]:.1f}%" for name in ("precision", "recall", "f1")),
                    f"{row['support']:,}",
                ]
                for row in rows
            ]
            print_table(["label", "precision", "recall", "F1", "examples"], body, title=title)
    if languages := details.get("by_language"):
        names = [name for name in details.get("shown", ()) if name in languages[0]]
        body = [
            [row["language"], *(show_score(name, row[name], {}) for name in names), f"{row['count']:,}"]
            for row in languages
        ]
        print_table(["language", *map(metric_name, names), details["count_of"]], body, title="by language")
    there = {row["label"] for row in details.get("per_class", [])}
    shown = [number for number, label in enumerate(details.get("labels", [])) if label in there]
    if "confusion" in details and 0 < len(shown) <= MAX_CONFUSION_CLASSES:
        labels, counts = details["labels"], details["confusion"]
        body = [
            [labels[row], *(f"{count:,}" if (count := counts[row][column]) else "·" for column in shown)]
            for row in shown
        ]
        print_table(["is ↓  predicted →", *(labels[column] for column in shown)], body, title="confusion")
