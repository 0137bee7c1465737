"""Take pictures of the studio: those of the documentation, and every view in three sizes, light and dark.

    python tools/screenshots.py build/screenshots     all of them, and the documentation's in docs/images
    python tools/screenshots.py --docs                those of the documentation alone

Small runs of the phrasebook are trained first and kept in build/showcase.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from PIL import Image, ImageChops  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402
from showcase import train_showcase  # noqa: E402
from tests.browser.driver import FLAGS, Address, find_browser, settle, studio  # noqa: E402

IMAGES: Final = ROOT / "docs/images"
SIZES: Final = {"wide": (1440, 900), "middle": (1024, 768), "narrow": (390, 844)}
VIEWS: Final = (
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
TEXT: Final = "She buys a red car."
LONG: Final = " ".join([TEXT] * 75)
LEARNING_MILLISECONDS = 6000
TIMEOUT_MILLISECONDS = 300_000
MARGIN: Final = 12
QUALITY: Final = 82


class Scene(NamedTuple):
    """A state of the page, what is done there before the picture is taken, and the part that the picture shows."""

    name: str
    state: dict[str, str | list[str]]
    act: Callable[[Any], None] = lambda page: None
    part: str = ""
    """A selector; without one the window."""

    width: int = 1440
    height: int = 1500
    """Of a part: the width of the window, and the most pixels of the picture."""


def all_scenes() -> Iterator[Scene]:
    """Every page and view, short and long inputs, an untrained model, mistakes."""
    demo: dict[str, str | list[str]] = {"run": "runs/demo", "text": TEXT}
    yield Scene("playground", demo)
    yield Scene("beside", demo | {"with": "runs/untrained", "o.beside": "true"})
    for view in VIEWS:
        yield Scene(view, demo | {"view": view})
    for view in ("attention", "positions", "gradients"):
        yield Scene(f"{view}-transformer", {"run": "runs/transformer", "text": TEXT, "view": view})
    for view in ("attention", "beam", "ranks", "states", "gates", "gradients"):
        yield Scene(f"{view}-long", {"run": "runs/demo", "text": LONG, "view": view})
    yield Scene("ranks-characters", {"run": "runs/characters", "view": "ranks", "text": LONG})
    yield Scene("playground-classifier", {"run": "runs/classifier", "text": "The guide was far from helpful!"})
    yield Scene("attention-untrained", {"run": "runs/untrained", "view": "attention", "text": TEXT})
    yield Scene("compare", {"view": "compare", "with": ["runs/demo", "runs/transformer"]})
    yield Scene("fresh", {"view": "fresh"})
    yield Scene("learn", {"view": "learn"}, learn)
    yield Scene("error", demo | {"view": "beam", "o.beam": "0"})
    yield Scene("missing", {"run": "nowhere"})
    yield Scene("help", demo, lambda page: page.keyboard.press("?"))


def doc_scenes() -> Iterator[Scene]:
    """The pictures of the documentation: pages of the studio as a whole, of the views the picture alone."""
    demo: dict[str, str | list[str]] = {"run": "runs/demo", "text": TEXT}
    yield Scene("studio", demo | {"view": "attention"}, point_at_the_middle)
    yield Scene("playground", demo, part="#view")
    yield Scene("compare", {"view": "compare", "with": ["runs/demo", "runs/transformer"]}, part="#view", height=700)
    for view in ("beam", "states", "gates", "neighbours", "parameters", "curves"):
        fewer = {"o.units": "6"} if view == "gates" else {}
        yield Scene(view, demo | {"view": view} | fewer, part="#view .chart", width=1900 if view == "beam" else 1440)
    yield Scene("ranks", demo | {"view": "ranks", "target": "Elle achète une rouge voiture."}, part="#view .chart")
    yield Scene("heads", {"run": "runs/transformer", "text": TEXT, "view": "attention"}, part="#view .chart")
    yield Scene("positions", {"run": "runs/transformer", "view": "positions"}, part="#view .chart")
    yield Scene("fresh", {"view": "fresh", "o.cells": "elman,lstm,gru"}, part="#view .chart")
    yield Scene("learn", {"view": "learn", "o.toy": "recall", "o.size": "8", "o.a.cell": "gru"}, learn_long, "#view")


def learn(page: Any, *, milliseconds: int = LEARNING_MILLISECONDS) -> None:
    page.get_by_role("button", name="Start").click()
    page.locator("#learn-loss canvas").wait_for()
    page.wait_for_timeout(milliseconds)


def learn_long(page: Any) -> None:
    learn(page, milliseconds=5 * LEARNING_MILLISECONDS)


def point_at_the_middle(page: Any) -> None:
    box = page.locator("#view .chart canvas").bounding_box()
    page.mouse.move(box["x"] + 0.42 * box["width"], box["y"] + 0.45 * box["height"])
    page.wait_for_selector("#pointer dl dd")


def take(page: Any, address: Address, scene: Scene) -> bytes:
    """Return the picture of a scene as PNG."""
    page.set_default_timeout(TIMEOUT_MILLISECONDS)
    page.goto(address(**scene.state))
    settle(page)
    scene.act(page)
    settle(page)
    if not scene.part:
        shown: bytes = page.screenshot()
        return shown
    page.add_style_tag(content=f"{scene.part} ~ * {{ visibility: hidden }}")
    box = page.locator(scene.part).first.bounding_box()
    clip = {"x": box["x"] - MARGIN, "y": box["y"] - MARGIN}
    part: bytes = page.screenshot(
        full_page=True,
        clip=clip | {"width": box["width"] + 2 * MARGIN, "height": min(box["height"] + 2 * MARGIN, scene.height)},
    )
    return part


def take_all(browser: Any, address: Address, out: Path, scenes: list[Scene]) -> None:
    """Write NAME-SIZE-SCHEME.png for each scene."""
    for size, (width, height) in SIZES.items():
        for scheme in ("light", "dark"):
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            for scene in scenes:
                page = context.new_page()
                (out / f"{scene.name}-{size}-{scheme}.png").write_bytes(take(page, address, scene))
                page.close()
            context.close()


def take_docs(browser: Any, address: Address, out: Path) -> None:
    """Write NAME.webp for each picture of the documentation."""
    out.mkdir(parents=True, exist_ok=True)
    for scene in doc_scenes():
        width, height = (scene.width, scene.height) if scene.part else SIZES["wide"]
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        picture = Image.open(io.BytesIO(take(page, address, scene))).convert("RGB")
        trimmed(picture).save(out / f"{scene.name}.webp", quality=QUALITY, method=6)
        page.close()


def trimmed(picture: Image.Image) -> Image.Image:
    """Return a picture without the empty ground at its right and below."""
    ground = Image.new("RGB", picture.size, picture.getpixel((1, 1)))
    found = ImageChops.difference(picture, ground).getbbox()
    if found is None:
        return picture
    return picture.crop((0, 0, min(picture.width, found[2] + MARGIN), min(picture.height, found[3] + MARGIN)))


def main() -> None:
    """Train what is shown, serve it, and write the pictures."""
    given = [Path(one) for one in sys.argv[1:] if one != "--docs"]
    if not sys.argv[1:] or any(str(one).startswith("-") for one in given):
        sys.exit(__doc__)
    found = find_browser()
    if found is None:
        sys.exit("chromium is missing: apt-get install chromium")
    folder = train_showcase(ROOT / "build/showcase")
    with tempfile.TemporaryDirectory() as empty, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=FLAGS)
        with studio("runs", "data", cwd=folder) as address:
            take_docs(browser, address, IMAGES)
            for out in given:
                out.mkdir(parents=True, exist_ok=True)
                take_all(browser, address, out, list(all_scenes()))
        with studio(empty) as address:
            for out in given:
                take_all(browser, address, out, [Scene("empty", {})])
        browser.close()
    size = sum(path.stat().st_size for path in IMAGES.glob("*.webp"))
    print(f"wrote {len(list(IMAGES.glob('*.webp')))} pictures ({size:,} bytes) to {IMAGES.relative_to(ROOT)}")
    for out in given:
        print(f"wrote {len(list(out.glob('*.png')))} pictures to {out}")


if __name__ == "__main__":
    main()
