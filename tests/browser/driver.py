"""Starts the studio and a browser, and reads what the page has drawn. Tests and `make screenshots` use it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",  # chromium needs it as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
START_SECONDS = END_SECONDS = 300
"""Time limits for the studio to print its address, and to end; a shared machine may be busy."""

SETTLE_MILLISECONDS = 300

ADDRESS = re.compile(r"http://[\w.:\[\]]+/\S*")

NOUNS = {"car": "voiture", "house": "maison", "table": "table", "flower": "fleur", "door": "porte", "shirt": "chemise"}
ADJECTIVES = {"red": "rouge", "yellow": "jaune", "calm": "calme", "empty": "vide", "clean": "propre", "thin": "mince"}
DETERMINERS = {"the": "la", "a": "une", "my": "ma", "this": "cette"}
VERBS = {"falls": "tombe", "burns": "brûle", "stays": "reste"}
LABELS = {"good": "positive", "great": "positive", "bad": "negative", "awful": "negative"}
SIZES = [
    f"model.{side}.{name}" for side in ("encoder", "decoder") for name in ("hidden=64", "embedding=32", "dropout=0.0")
]


class Address(NamedTuple):
    """The address of a studio, and the part of it that carries its token."""

    base: str
    token: str

    def __call__(self, **state: str | list[str]) -> str:
        """Return the address of a state of the page, such as run="demo", view="beam", text="…"."""
        from urllib.parse import urlencode

        return f"{self.base}#{urlencode({**state, 'token': self.token}, doseq=True)}"


def weft(*arguments: str | Path, cwd: Path | None = None) -> str:
    """Run the command line in a process of its own, where every extra can be imported, and return what it prints."""
    command = [sys.executable, "-m", "weft", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=cwd, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def train_runs(folder: Path) -> Path:
    """Train small runs in FOLDER/runs from FOLDER/data: a translator whose adjectives follow nouns, an untrained one,
    a classifier."""
    sentences = [
        (f"{determiner} {adjective} {noun} {verb}", f"{la} {voiture} {rouge} {tombe}")
        for noun, voiture in NOUNS.items()
        for adjective, rouge in ADJECTIVES.items()
        for determiner, la in DETERMINERS.items()
        for verb, tombe in VERBS.items()
    ]
    data = folder / "data"
    data.mkdir()
    table = data / "pairs.tsv"
    table.write_text("".join(f"{english}\t{french}\n" for english, french in sentences), encoding="utf-8")
    words = ("text.kind=word", *SIZES)
    weft("train", "translate", table, "--out", folder / "runs/translator", *words, "train.steps=300")
    weft("train", "translate", table, "--out", folder / "runs/untrained", *words, "train.steps=1")
    reviews = data / "reviews.tsv"
    rows = [f"a {word} film {number}\t{label}\n" for number in range(40) for word, label in LABELS.items()]
    reviews.write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    weft("train", "classify", reviews, "--out", folder / "runs/reviews", "train.steps=60")
    text = data / "text.txt"
    text.write_text("".join(f"{english}.\n" for english, _ in sentences), encoding="utf-8")
    weft("train", "lm", text, "--out", folder / "runs/language", "text.kind=word", "train.steps=60")
    small = [
        f"model.{side}.{setting}"
        for side in ("encoder", "decoder")
        for setting in ("kind=transformer", "width=16", "heads=2", "layers=2", "feedforward=16")
    ]
    weft("train", "translate", table, "--out", folder / "runs/tiny", "text.kind=word", *small, "train.steps=2")
    return folder / "runs"


@contextmanager
def studio(*folders: str | Path, cwd: Path | None = None) -> Iterator[Address]:
    """Serve folders on a free port until the end of the block."""
    command = [sys.executable, "-m", "weft", "studio", *map(str, folders), "--port", "0", "--no-browser"]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, env=environment(), cwd=cwd)
        try:
            yield _wait_for_address(process, said)
        finally:
            process.terminate()
            process.wait(timeout=END_SECONDS)


def _wait_for_address(process: subprocess.Popen[bytes], said: Any) -> Address:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        said.seek(0)
        text = said.read()
        if found := ADDRESS.search(text):
            base, _, token = found[0].partition("#token=")
            return Address(base, token)
        assert process.poll() is None, text
        time.sleep(0.1)
    raise AssertionError(f"the studio printed no address: {text}")


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


MARKS = """(element) => {
  const found = [];
  const plain = (value) => JSON.parse(JSON.stringify(value ?? null));
  const add = (type, item) =>
    found.push({ type, datum: plain(item.datum), tooltip: plain(item.tooltip), text: plain(item.text) });
  const walk = (node) => {
    for (const item of node.items ?? []) {
      if (node.marktype === "group") (item.items ?? []).forEach(walk);
      else if (node.role === "mark") add(node.marktype, item);
    }
  };
  walk(element.vegaView.scenegraph().root);
  return found;
}"""
"""Returns every mark of a chart with its data, from the scene that Vega has drawn."""


def marks(page: Any, kind: str, *, chart: str = "#view .chart") -> list[dict[str, Any]]:
    """Return the marks of one kind that the chart has drawn: rect, text, symbol, line, rule."""
    wait_for_chart(page, chart=chart)
    found: list[dict[str, Any]] = page.eval_on_selector(chart, MARKS)
    return [mark for mark in found if mark["type"] == kind]


PLACE_OF_MARK = """(element, { kind, number, field }) => {
  const view = element.vegaView;
  const [left, top] = view.origin();
  const found = [];
  const walk = (node, x, y) => {
    for (const item of node.items ?? []) {
      if (node.marktype === "group") (item.items ?? []).forEach((inner) => walk(inner, x + item.x, y + item.y));
      else if (node.role === "mark" && node.marktype === kind && (!field || field in (item.datum ?? {})))
        found.push([x + (item.bounds.x1 + item.bounds.x2) / 2, y + (item.bounds.y1 + item.bounds.y2) / 2]);
    }
  };
  walk(view.scenegraph().root, left, top);
  const canvas = element.querySelector("canvas");
  const heightOfMark = () => canvas.getBoundingClientRect().y + found[number][1];
  document.querySelector("main").scrollBy(0, heightOfMark() - window.innerHeight / 2);
  return { x: canvas.getBoundingClientRect().x + found[number][0], y: heightOfMark() };
}"""
"""Scrolls to a mark, and returns where its middle stands in the window; with `field` only marks whose data has it are
counted."""


def place_of_mark(
    page: Any, kind: str, number: int, *, field: str = "", chart: str = "#view .chart"
) -> dict[str, float]:
    """Return x and y of a mark in the window, for the mouse."""
    wait_for_chart(page, chart=chart)
    arguments = {"kind": kind, "number": number, "field": field}
    found: dict[str, float] = page.eval_on_selector(chart, PLACE_OF_MARK, arguments)
    return found


DRAWN = """(selector) => {
  const chart = document.querySelector(selector);
  return chart?.vegaView && !chart.classList.contains("stale");
}"""


def wait_for_chart(page: Any, *, chart: str = "#view .chart") -> None:
    """Block until the chart shows the newest answer of the server."""
    page.wait_for_function(DRAWN, arg=chart)


SETTLED = """() => {
  const shown = (element) => element.checkVisibility();
  const charts = [...document.querySelectorAll("#view .chart")].filter(shown);
  const waits = [...document.querySelectorAll("#view .waiting")].filter(shown);
  return document.querySelector("#view")?.childElementCount > 0 && !waits.length
    && charts.every((chart) => chart.vegaView && !chart.classList.contains("stale"));
}"""


def settle(page: Any) -> None:
    """Block until nothing is loaded, computed or drawn any more."""
    page.wait_for_timeout(SETTLE_MILLISECONDS)  # what follows a click has begun
    page.wait_for_function(SETTLED)
