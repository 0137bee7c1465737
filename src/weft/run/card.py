"""The model card: what a person who finds the folder wants to know."""

from __future__ import annotations

from typing import Any

from weft.catalog import CELLS, TASKS
from weft.config import Config, to_toml
from weft.config.tree import flatten
from weft.errors import counted
from weft.metrics import describe_vocabulary, shown
from weft.run.conclusions import conclusions
from weft.training.progress import metric_name, show_score

COMPARES = "perplexities compare only between runs with the same vocabulary; bits_per_character compares between all"


def card(config: Config, report: dict[str, Any]) -> str:
    """README.md with the head that model hubs read."""
    parts = [part for part in ("valid", "test") if part in report]
    every = report.get("details", {})
    rows = [
        f"| {part} | {metric_name(name)} | {show_score(name, value, every.get(part, {}))} |"
        for part in parts
        for name, value in shown(report[part], every.get(part, {}), config.train.metric).items()
    ]
    details = every.get("test") or every.get("valid", {})
    signatures = [f"- {name}: `{value}`" for name, value in details.items() if name.endswith(("signature", "unit"))]
    vocabularies = ((part, describe_vocabulary(every.get(part, {}))) for part in parts)
    signatures += [f"- {part}: {vocabulary}" for part, vocabulary in vocabularies if vocabulary]
    signatures += [f"- {COMPARES}"] if "bits_per_character" in report.get("valid", {}) else []
    own = "".join(f', "{name}": …' for name in own_cells(config)).removeprefix(", ")
    return "\n".join(
        [
            "---",
            "library_name: weft",
            *pipeline(config.task),
            "---",
            "",
            f"# {config.name or f'weft {config.task}'}",
            "",
            f"Trained by weft {report['versions']['weft']} in {report['seconds']:.0f} s: "
            f"{counted(report['parameters'], 'parameter')}, {counted(report['steps'], 'update')}, "
            f"best at {report['best_step']:,}, seed {report['seed']}.",
            "",
            "| data | metric | value |",
            "|---|---|---|",
            *rows,
            "",
            *signatures,
            *(f"- {line}" for line in conclusions(report)),
            "",
            "```python",
            "import weft",
            "",
            'run = weft.load("PATH_TO_THIS_FOLDER"' + (f", cells={{{own}}}" if own else "") + ")",
            'run.predict(["…"])',
            "```",
            "",
            "```toml",
            to_toml(config.tree()).strip(),
            "```",
            "",
        ]
    )


def pipeline(task: str) -> list[str]:
    """The line in the head of a card that tells hubs the task, where they have a name for it."""
    tag = TASKS[task].pipeline_tag
    return [] if tag is None else [f"pipeline_tag: {tag}"]


def own_cells(config: Config) -> list[str]:
    """Names of cells that are not weft's: whoever loads the run has to bring them."""
    kinds = (value for path, value in flatten(config.tree()) if path.endswith(".cell.kind"))
    return sorted({kind for kind in kinds if kind not in CELLS})
