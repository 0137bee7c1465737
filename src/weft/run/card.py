"""The model card of a run, README.md: what the model is, how good it is and on what, its limits, and how to repeat it.

Every number stands in report.json too. Paths are cut to the names of files, because a card is published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from weft.catalog import TASKS
from weft.config import Config, to_toml
from weft.config.schema import positions
from weft.console import visible
from weft.documents import to_json
from weft.errors import counted
from weft.metric_text import metric_name, show_score
from weft.metrics import describe_vocabulary, shown
from weft.models.fitting import FittedSettings
from weft.run.card_header import PARTS, header, pipeline, title
from weft.run.conclusions import conclusions
from weft.run.harmless import harmless
from weft.run.user_classes import user_cell_names, user_parts
from weft.training.events import TIME_IS_OVER

COMPARABLE: Final = (
    "perplexities compare only between runs with the same vocabulary; bits_per_character compares between all"
)

HASH_DIGITS: Final = 16
"""Digits of a SHA-256 in the table of data; report.json has all of them."""


def model_card(config: Config, report: Mapping[str, Any]) -> str:
    """Return the text of README.md, with the header that model hubs read."""
    sections = {
        "Use": _usage(config),
        "Data": _data(report),
        "Scores": _scores(config, report),
        "Limits": _limits(config, report),
        "Reproduce": _reproduce(config, report),
    }
    lines = [*header(config, report), "", f"# {title(config)}", "", _origin(config, report)]
    for name, content in sections.items():
        lines += ["", f"## {name}", "", *content]
    return "\n".join([*lines, ""])


def plain_card(config: Mapping[str, Any]) -> str:
    """Return a card for a run without a report, such as an imported one, from the content of its config.json."""
    task = str(config.get("task"))
    tags = ["tags:", "- weft", f"- {to_json(task)}"]
    head = ["---", "library_name: weft", *(pipeline(task) if task in TASKS else ()), *tags, "---"]
    name = visible(str(config.get("name") or f"weft {task}"))
    use = ["```python", "import weft", "", 'run = weft.load("hf://OWNER/NAME")', "```"]
    return "\n".join([*head, "", f"# {name}", "", "A run of weft that was not measured here.", "", *use, ""])


def _origin(config: Config, report: Mapping[str, Any]) -> str:
    updates = f"{counted(report['steps'], 'update')}, best at {report['best_step']:,}, " * (not _counts(config))
    return (
        f"Trained by weft {report['versions']['weft']} in {report['seconds']:.0f} s: "
        f"{counted(report['parameters'], 'parameter')}, {updates}seed {report['seed']}."
    )


def _unused(config: Config) -> tuple[str, ...]:
    """The settings of `[train]` that nothing reads with this model."""
    return config.model.unused_train if isinstance(config.model, FittedSettings) else ()


def _counts(config: Config) -> bool:
    """Whether the model counts, and so has no updates, and no longest text that it has learned."""
    return "steps" in _unused(config)


def _usage(config: Config) -> Iterator[str]:
    own = "".join(f', "{name}": …' for name in user_cell_names(config)).removeprefix(", ")
    parts = user_parts(config)
    yield from ("```python", "import weft", *(["import weft.catalog", "", *parts] if parts else []), "")
    yield 'run = weft.load("PATH_TO_THIS_FOLDER"' + (f", cells={{{own}}}" if own else "") + ")"
    yield from ('run.predict(["…"])', "```", "")
    yield 'On the hub its address is enough: `weft.load("hf://OWNER/NAME")`. Nothing in the folder is executed.'


def _data(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield a table of the files; of data given in Python there is only the number of examples."""
    yield from ("| part | files | bytes | SHA-256 | examples |", "|---|---|---:|---|---:|")
    for part, about in report.get("data", {}).items():
        files = about.get("files", [])
        if about.get("part_of"):
            yield f"| {part} | a part of {about['part_of']} | | | {about['examples']:,} |"
        elif not files:
            yield f"| {part} | given in Python, or many files | | | {about['examples']:,} |"
        for number, file in enumerate(files):
            digest = f"`{file['sha256'][:HASH_DIGITS]}…`" if "sha256" in file else ""
            examples = "" if number else f"{about['examples']:,}"
            yield f"| {part} | {_cell(file['name'])} | {file['bytes']:,} | {digest} | {examples} |"


def _cell(text: str) -> str:
    return "`" + visible(text).replace("`", "'").replace("|", "\\|").replace("\n", " ") + "`"


def _scores(config: Config, report: Mapping[str, Any]) -> Iterator[str]:
    parts = [part for part in PARTS if part in report]
    every = report.get("details", {})
    yield from ("| data | metric | value |", "|---|---|---|")
    for part in parts:
        for name, value in shown(report[part], every.get(part, {}), config.train.metric).items():
            yield f"| {part} | {metric_name(name)} | {show_score(name, value, every.get(part, {}))} |"
    yield ""
    details = every.get("test") or every.get("valid", {})
    for name, value in details.items():
        if name.endswith(("signature", "unit")):
            yield f"- {name}: `{value}`"
    for part in parts:
        if vocabulary := describe_vocabulary(every.get(part, {})):
            yield f"- {part}: {vocabulary}"
    for part in parts:
        yield from _by_language(part, every.get(part, {}))
    if "bits_per_character" in report.get("valid", {}):
        yield f"- {COMPARABLE}"
    yield from (f"- {line}" for line in conclusions(report))
    yield from (f"- {line}" for line in report.get("overlaps", ()))


def _by_language(part: str, details: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each language with its scores."""
    for row in details.get("by_language", []):
        scores = ", ".join(
            f"{metric_name(name)} {show_score(name, row[name], {})}" for name in details["shown"] if name in row
        )
        yield f"- {part}, {row['language']}: {scores} ({counted(row['count'], details['count_of'].removesuffix('s'))})"


def _limits(config: Config, report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the model has not seen, or cannot do."""
    if (train := report.get("data", {}).get("train")) is not None:
        yield f"- It has learned from {counted(train['examples'], 'example')}; on other kinds of input it may be worse."
    data, longest = dict(config.data), positions(config)
    if (most := data.get("max_length")) is not None and not _counts(config):
        what = {
            "truncate": "longer ones were cut",
            "split": "longer ones were split",
            "drop": "longer ones were left out",
        }
        said = what.get(str(data.get("overlong")), "longer ones were refused")
        yield f"- It has learned from texts of up to {most:,} tokens ({said}), and longer ones may be answered worse."
    if longest is not None:
        yield f"- It has positions for {longest:,} tokens, and reads no longer text."
    if (horizon := data.get("horizon")) is not None:
        yield f"- It forecasts {horizon} steps from the {data.get('history')} before."
    if TASKS[config.task].writes:
        yield f"- Answers end after {config.decode.max_length:,} tokens, if nothing else is asked for."
    for part in PARTS:
        share = report.get("details", {}).get(part, {}).get("unknown_share")
        if isinstance(share, int | float):
            yield f"- Of the tokens of the {PARTS[part]} data {100 * share:.2f}% are unknown to its vocabulary."
    if "test" not in report:
        yield "- It was not measured on test data. Validation data chose the model: its scores are a little too good."
    if TASKS[config.task].calibrates and "temperature" not in report.get("calibration", {}):
        yield "- Its probabilities are not calibrated."


def _reproduce(config: Config, report: Mapping[str, Any]) -> Iterator[str]:
    own = "".join(f" --import {name}=FILE.py:CLASS" for name in user_cell_names(config))
    own += "".join(" --import FILE.py:CLASS" for _ in user_parts(config))
    yield "With the data files in the current folder, and `config.json` of this one:"
    yield from ("", f"    weft train config.json --out again{own}", "")
    if report.get("ended") == TIME_IS_OVER:
        yield f"Time (`train.seconds = {config.train.seconds:g}`) ended this training after"
        yield f"{counted(report['steps'], 'update')}, and it will end that of the command, after a number of updates"
        yield "that depends on the machine: the command repeats the settings, and not the numbers."
        yield f"`train.steps={report['steps']}` gives it as many updates; the learning rate may fall at other moments."
        yield ""
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    yield f"Versions: {versions}. On other versions or processors the last digits may differ. The settings:"
    tree = harmless(config.tree()).tree
    unused = _unused(config)
    tree = {**tree, "train": {name: value for name, value in tree.get("train", {}).items() if name not in unused}}
    yield from ("", "```toml", to_toml(tree).strip(), "```")
