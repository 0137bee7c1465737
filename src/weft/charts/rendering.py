"""Draws charts into files: SVG and PNG by the converter of Vega, HTML as a page of weft that works offline."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from weft.cache import cache_folder
from weft.charts.page import Figure, page
from weft.charts.theme import themed
from weft.disk import atomic_write
from weft.errors import ConfigError, Fault, WeftError
from weft.extras import EXTRAS, version_of

PICTURES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    ".svg": ("vegalite_to_svg", {}),
    ".png": ("vegalite_to_png", {"scale": 2.0}),
}
"""The endings of pictures, each with its function of vl_convert."""

FORMATS: Final = (*PICTURES, ".html")
"""The endings of files that can be drawn."""

CONVERT: Final = """
import json, sys, vl_convert
name, arguments, options = json.load(sys.stdin)
found = getattr(vl_convert, name)(*arguments, **options)
sys.stdout.buffer.write(found.encode() if isinstance(found, str) else found)
"""
"""The program of a process of its own: the converter contains a JavaScript engine, which ends its process when it
gets no memory, and starts threads, which a forked process does not have."""

MAX_RENDER_SECONDS = 120
"""Time limit for a picture, which takes less than two seconds."""


def can_draw() -> bool:
    """Return whether the extra for pictures is installed."""
    return find_spec("altair") is not None and find_spec("vl_convert") is not None


def check_format(path: Path) -> None:
    """Raise unless the ending is one that can be drawn and the extra is installed; called before any work."""
    if path.suffix not in FORMATS:
        raise ConfigError(
            f"cannot draw {path.suffix or 'a file without an ending'}",
            where=str(path),
            cure=f"name it {', '.join(f'*{ending}' for ending in FORMATS)}",
        )
    if not can_draw():
        raise WeftError("pictures need altair and vl-convert", where=str(path), cure=EXTRAS["plot"].install)


def draw(chart: Any, path: Path, *, title: str = "", summary: str = "", dark: bool = False) -> Path:
    """Write an altair chart in the format of the file's ending."""
    return draw_figures([Figure(title, summary, chart.to_dict())], path, dark=dark)


def draw_figures(figures: Sequence[Figure], path: Path, *, title: str = "", dark: bool = False) -> Path:
    """Write figures in the format of the file's ending; a picture has one figure, a page may have several."""
    check_format(path)
    if path.suffix == ".html":
        content = page(title or figures[0].title or path.stem, figures, javascript()).encode()
    else:
        (figure,) = figures
        content = render(figure.titled(), path.suffix, dark=dark, where=str(path))
    try:
        atomic_write(path, content)
    except OSError as error:
        raise Fault(f"cannot be written: {error.strerror or error}", where=str(path), cure="choose another") from None
    return path


def render(specification: dict[str, Any], ending: str, *, dark: bool = False, where: str = "") -> bytes:
    """Return the content of a picture, ".svg" or ".png"."""
    name, options = PICTURES[ending]
    return _convert(name, [themed(specification, dark=dark)], options, where=where)


@cache
def javascript() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script, which works offline; it is made once and kept on disk."""
    folder = cache_folder("charts")
    kept = None if folder is None else folder / f"vega-{version_of('vl-convert-python')}.js"
    if kept is not None and kept.is_file() and (found := kept.read_text(encoding="utf-8")).endswith("\n"):
        return found
    found = _convert("javascript_bundle", [], {}, where="the page").decode() + "\n"
    if kept is not None:
        with suppress(OSError):  # a full disk: the next page makes it again
            atomic_write(kept, found.encode())
    return found


def _convert(name: str, arguments: list[Any], options: dict[str, Any], *, where: str) -> bytes:
    """Return the result of a function of vl_convert."""
    request = json.dumps([name, arguments, options]).encode()
    # -P: a vl_convert.py in the current folder is not imported.
    command = [sys.executable, "-P", "-c", CONVERT]
    try:
        return subprocess.run(
            command, input=request, capture_output=True, check=True, timeout=MAX_RENDER_SECONDS
        ).stdout
    except subprocess.CalledProcessError as error:
        code = error.returncode
        what = f"vl-convert was ended by signal {-code}" if code < 0 else f"vl-convert failed with code {code}"
    except subprocess.TimeoutExpired:
        what = f"vl-convert took more than {MAX_RENDER_SECONDS} s"
    except OSError as error:
        what = f"vl-convert cannot be started: {error.strerror or error}"
    raise Fault(f"cannot be drawn: {what}", where=where, cure="is there enough memory?")
