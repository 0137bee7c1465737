"""The colours and lines of all charts, in a light and a dark version.

Categories have the colours of Okabe and Ito (2008), which people with any colour vision can tell apart. Magnitudes have
one ramp of even steps, signed values two ramps that meet in a neutral middle.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

CATEGORIES: Final = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f", "#6f7782"]
"""The colours of categories; the last two are for the seventh and the eighth."""

ON_DARK: Final = {"#0072b2": "#4ba3dd", "#8c6d1f": "#c7a23a", "#6f7782": "#a0a8b3"}
"""Colours that are too dim on a dark ground, each with the lighter one that takes its place there."""

MAGNITUDE: Final = "viridis"
"""The Vega scheme for values from zero up."""

SIGNED: Final = "blueorange"
"""The Vega scheme for values on both sides of zero."""


def _theme(
    *, ground: str, text: str, faint: str, line: str, grid: str, colours: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the configuration of a chart with these colours."""
    font = "system-ui, sans-serif"
    return {
        "background": ground,
        "font": font,
        "view": {"stroke": None},
        "range": {"category": [colours.get(colour, colour) for colour in CATEGORIES]},
        "mark": {"color": colours.get(CATEGORIES[0], CATEGORIES[0])},
        "text": {"color": text},
        "rule": {"color": line},
        "axis": {
            "labelColor": text,
            "titleColor": faint,
            "titleFontWeight": "normal",
            "labelFontSize": 12,
            "titleFontSize": 12,
            "gridColor": grid,
            "tickColor": line,
            "domainColor": line,
        },
        "header": {"labelColor": text, "titleColor": faint, "labelFontSize": 12, "titleFontSize": 12},
        "legend": {"labelColor": text, "titleColor": faint, "titleFontWeight": "normal", "labelLimit": 320},
        "title": {"color": text, "subtitleColor": faint, "anchor": "start", "fontSize": 13, "fontWeight": "bold"},
    }


THEMES: Final = {
    "light": _theme(ground="#ffffff", text="#24272c", faint="#5b6168", line="#c4c8ce", grid="#e8eaed"),
    "dark": _theme(ground="#14161a", text="#e4e6ea", faint="#a4aab3", line="#4b515a", grid="#2a2e35", colours=ON_DARK),
}
"""The configuration of Vega-Lite for each theme."""


def themed(specification: dict[str, Any], *, dark: bool = False) -> dict[str, Any]:
    """Return the specification with the colours of a theme; those that it sets itself stay."""
    if dark:
        specification = _lighten(specification)
    own = specification.get("config", {})
    base = THEMES["dark" if dark else "light"]
    config = {
        name: {**value, **own.get(name, {})} if isinstance(value, dict) else value for name, value in base.items()
    }
    # Altair's own defaults: the size of a view is kept, its other settings are those of the theme.
    sizes = {name: own["view"][name] for name in ("continuousWidth", "continuousHeight") if name in own.get("view", {})}
    return {**specification, "config": {**own, **config, "view": {**config["view"], "stroke": None, **sizes}}}


def _lighten(part: Any) -> Any:
    """Return a part of a specification with colours that are bright enough on a dark ground; data stays as it is."""
    if isinstance(part, dict):
        return {name: value if name in ("data", "datasets") else _lighten(value) for name, value in part.items()}
    if isinstance(part, list):
        return [_lighten(value) for value in part]
    return ON_DARK.get(part, part) if isinstance(part, str) else part
