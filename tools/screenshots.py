"""Take pictures of every view of the studio, light and dark, in three sizes.

    python tools/screenshots.py build/screenshots [RUNS]

RUNS is a folder with a run `demo` (`make demo` trains one) and others; without it small runs are trained first. The
pictures for the docs are those of 1440 × 900.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from playwright.sync_api import sync_playwright  # noqa: E402
from tests.browser.driver import FLAGS, Address, find_browser, studio, train_runs  # noqa: E402

SIZES = {"wide": (1440, 900), "middle": (1024, 768), "narrow": (390, 844)}
VIEWS = (
    "attention",
    "beam",
    "ranks",
    "states",
    "gates",
    "gradients",
    "positions",
    "neighbours",
    "parameters",
    "curves",
)
LEARNING_MILLISECONDS = 6000


class Scene(NamedTuple):
    """A state of the page, and what is done there before the picture is taken."""

    name: str
    state: dict[str, str | list[str]]
    act: Callable[[Any], None] = lambda page: None


def scenes(run: str, text: str, other: str) -> Iterator[Scene]:
    yield Scene("playground", {"run": run, "text": text})
    yield Scene("beside", {"run": run, "text": text, "with": other, "o.beside": "true"})
    for view in VIEWS:
        yield Scene(view, {"run": run, "view": view, "text": text})
    long = " ".join([text] * (300 // len(text.split())))
    for view in ("attention", "beam", "ranks", "states", "gradients"):
        yield Scene(f"{view}-long", {"run": run, "view": view, "text": long})
    yield Scene("attention-untrained", {"run": other, "view": "attention", "text": text})
    yield Scene("compare", {"view": "compare", "with": [run, other]})
    yield Scene("fresh", {"view": "fresh"})
    yield Scene("learn", {"view": "learn"}, learn)
    yield Scene("error", {"run": run, "view": "beam", "text": text, "o.beam": "0"})
    yield Scene("missing", {"run": "nowhere"})
    yield Scene("help", {"run": run, "text": text}, lambda page: page.keyboard.press("?"))


def learn(page: Any) -> None:
    page.get_by_role("button", name="Start").click()
    page.wait_for_timeout(LEARNING_MILLISECONDS)


def take(browser: Any, address: Address, out: Path, shown: list[Scene], *, sizes: dict[str, tuple[int, int]]) -> None:
    """Write NAME-SIZE-SCHEME.png for each scene."""
    for size, (width, height) in sizes.items():
        for scheme in ("light", "dark"):
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            for scene in shown:
                page = context.new_page()
                page.goto(address(**scene.state))
                page.wait_for_load_state("networkidle")
                scene.act(page)
                page.wait_for_timeout(600)
                page.screenshot(path=out / f"{scene.name}-{size}-{scheme}.png")
                page.close()
            context.close()


def main() -> None:
    """Serve the runs, and write all pictures."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "build/screenshots")
    out.mkdir(parents=True, exist_ok=True)
    found = find_browser()
    if found is None:
        sys.exit("chromium is missing: apt-get install chromium")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as started:
        runs = Path(sys.argv[2]) if len(sys.argv) > 2 else train_runs(Path(scratch))
        run, text = ("demo", "The red car stops.") if (runs / "demo").exists() else ("translator", "my red house falls")
        browser = started.chromium.launch(executable_path=found, args=FLAGS)
        with studio(runs) as address:
            take(browser, address, out, list(scenes(run, text, "untrained")), sizes=SIZES)
        empty = Path(scratch) / "empty"
        empty.mkdir()
        with studio(empty) as address:
            take(browser, address, out, [Scene("empty", {})], sizes=SIZES)
        browser.close()
    print(f"wrote {len(list(out.glob('*.png')))} pictures to {out}")


if __name__ == "__main__":
    main()
