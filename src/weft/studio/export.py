"""Static pages of runs that open from disk without a server: an index, and for each run a page for each view.

DIR/index.html              the runs
DIR/vega.js                 the script that draws charts, which all pages share
DIR/RUN/index.html          settings, scores, curves and answers of a run
DIR/RUN/VIEW.html           a view of the run, for some inputs of its own data
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.charts import Figure, LinkedScript, Table, check_format, javascript, page
from weft.console import visible
from weft.disk import atomic_write
from weft.documents import to_json
from weft.errors import ConfigError, Fault, WeftError
from weft.metric_text import metric_name, show_metric
from weft.serve.inputs import input_kind
from weft.studio.discovery import Found, describe_run
from weft.studio.inputs import Example, find_examples, read_text
from weft.studio.studio import Studio
from weft.studio.views import available_views, read_source, views_of

if TYPE_CHECKING:
    from weft.inspect import ViewKind
    from weft.run import Run

INPUTS: Final = 3
"""Inputs of a run for which its views are shown."""

PROBES: Final = {"text": "a", "words": "a", "pair": "a\ta"}
"""Inputs that show whether a model has anything for a view, where there is none of its data."""

SCRIPT: Final = "vega.js"


def export(
    paths: Sequence[str | Path], out: Path, *, imports: Sequence[str] = (), say: Callable[[str], None] = lambda _: None
) -> Path:
    """Write the pages into a new folder and return the first page. A run or a view that fails has its error there."""
    check_format(Path("index.html"))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError("is not empty", where=str(out), cure="name a new folder")
    studio = Studio(paths, token=None, imports=imports)
    listed = studio.library.describe_runs()
    if not listed:
        raise ConfigError("there are no runs", where=", ".join(map(str, paths)), cure="name a folder of runs")
    _write(out / SCRIPT, javascript())
    rows: list[tuple[str, str | None, dict[str, Any]]] = []
    for row, folder in zip(listed, _folder_names(row["name"] for row in listed), strict=True):
        name, found = row["name"], studio.library.run(row["id"])
        say(f"{name} …")
        try:
            run = studio.runs().get(found)
        except WeftError as error:
            rows.append((visible(name), None, {"error": str(error)} | row))
            continue
        _export_run(run, found, name, out / folder, studio.roots)
        rows.append((name, f"{folder}/index.html", row))
    _write(out / "index.html", page("weft: runs", [], LinkedScript(SCRIPT), before=_index(rows)))
    return out / "index.html"


def _export_run(run: Run, found: Found, run_name: str, folder: Path, roots: list[Path]) -> None:
    """Write the pages of one run."""
    examples = find_examples(run, roots)[:INPUTS]
    texts = [example.text for example in examples]
    kinds = available_views()
    names = views_of(run)
    script = LinkedScript(f"../{SCRIPT}")
    links = [("all runs", "../index.html"), (run_name, "index.html"), *((name, f"{name}.html") for name in names)]
    for name in names:
        figures = list(_view_figures(kinds[name], run, texts))
        _write(folder / f"{name}.html", page(f"{run_name}: {name}", figures, script, before=_navigation(links)))
    figures = [_about(run, found), *_answers(run, examples)]
    _write(folder / "index.html", page(run_name, figures, script, before=_navigation(links)))


def _view_figures(kind: ViewKind, run: Run, texts: Sequence[str]) -> Iterable[Figure]:
    """Yield the figure of a view for each input; an error is a figure of words."""
    if kind.takes_text and not texts:
        yield Figure(kind.name, _without_inputs(kind, run), None)
    nothing = set[str]()
    for text in texts if kind.takes_text else [""]:
        try:
            view = kind.show(run, read_source(kind, run, text)) if kind.takes_text else kind.show(run)
            figure = view.figure()
            if figure.specification is None:  # the reason is the same for each input
                if figure.summary not in nothing:
                    yield figure
                nothing.add(figure.summary)
                continue
            named = not text or len(text) >= 100 or text in figure.title
            yield figure if named else figure._replace(title=f"{figure.title}: {text}")
        except WeftError as error:
            yield Figure(kind.name, f"There is nothing to show: {error}.", None)


def _without_inputs(kind: ViewKind, run: Run) -> str:
    """Return why a view has no figure: the model has nothing for it, or there are no inputs."""
    from weft.inspect import Nothing

    try:
        found = kind.show(run, read_source(kind, run, PROBES.get(input_kind(run), "")))
        if isinstance(found, Nothing):
            return found.summary
    except WeftError:
        pass
    return (
        "There is no input to show it for, because the data of the run is not in the folders that were given; "
        "name its folder too."
    )


def _about(run: Run, found: Found) -> Figure:
    """Return the scores and the settings of a run as tables."""
    from weft.config.tree import flatten
    from weft.inspect.calls import loading

    row = describe_run(found)
    kept = ("task", "kind", "metric_name", "shown", "parameters", "seconds", "state")
    names = {"metric_name": "metric", "shown": "value"}
    facts = [(names.get(name, name), "—" if row[name] is None else row[name]) for name in kept]
    scores = [
        (f"{part} {metric_name(name)}", show_metric(name, value))
        for part in ("valid", "test")
        for name, value in run.report.get(part, {}).items()
        if isinstance(value, int | float)
    ]
    settings = [(path, _setting(value)) for path, value in flatten(run.config.tree())]
    return Figure(
        "the run",
        f"A run of {run.config.task}. Its scores are here, and its settings below them.",
        None,
        code=f"import weft\n\nrun = {loading(run)}",
        table=Table(("", "value"), [*facts, *scores]),
        more_tables=(("the settings", Table(("setting", "value"), settings)),),
    )


def _setting(value: Any) -> str:
    return "—" if value is None else value if isinstance(value, str) else to_json(value)


def _answers(run: Run, examples: Sequence[Example]) -> Iterable[Figure]:
    """Yield the answers to the inputs as a table, beside those of the data."""
    known = any(example.answer for example in examples)
    rows: list[tuple[str | float | int, ...]] = []
    for text, reference in examples:
        try:
            answer: Any = run.predict(read_text(run, text))
            shown = "; ".join(map(str, answer)) if isinstance(answer, list) else str(answer)
        except WeftError as error:
            shown = str(error)
        rows.append((text[:200], *([reference[:500]] if known else []), shown[:500]))
    if rows:
        summary = f"Inputs, {'their references in the data, ' if known else ''}and what the model answers."
        headings = ("input", *(["reference"] if known else []), "answer")
        yield Figure("answers", summary, None, table=Table(headings, rows))


def _index(rows: Sequence[tuple[str, str | None, dict[str, Any]]]) -> str:
    """Return the table of all runs as markup."""
    body = []
    for name, address, row in rows:
        first = _text(name) if address is None else f'<a href="{escape(address)}">{_text(name)}</a>'
        value = (
            row["error"] if "error" in row else "" if row["shown"] is None else f"{row['metric_name']} {row['shown']}"
        )
        cells = [row["task"] or "", row["kind"] or "", row["state"], value]
        body.append(f"<tr><td>{first}</td>{''.join(f'<td>{_text(str(cell))}</td>' for cell in cells)}</tr>")
    head = "".join(f"<th>{name}</th>" for name in ("run", "task", "model", "state", "score"))
    return f'<table class="runs"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>\n'


def _navigation(links: Sequence[tuple[str, str]]) -> str:
    listed = "".join(f'<a href="{escape(address)}">{_text(name)}</a>' for name, address in links)
    return f"<nav>{listed}</nav>\n"


def _folder_names(ids: Iterable[str]) -> list[str]:
    """Return a name of plain letters for each id, all different."""
    names: list[str] = []
    for id in ids:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", id).strip(".-")[:80] or "run"
        number = 1
        while (name := plain if number == 1 else f"{plain}-{number}") in names:
            number += 1
        names.append(name)
    return names


def _write(path: Path, content: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, content.encode())
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        raise Fault(what, where=str(path), cure="choose another folder") from None


def _text(text: str) -> str:
    return escape(visible(text))
