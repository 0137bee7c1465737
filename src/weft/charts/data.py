"""The data of a chart as one text: altair checks each value of a list by its schema, which takes minutes for many rows.

The text is JSON. Vega reads CSV with a function that it compiles, which the Content-Security-Policy of a page forbids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def column_data(columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return the data of a chart from columns of equal length; `altair.Chart(column_data(...))` takes it."""
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return {"values": text, "format": {"type": "json"}}
