"""A console that prints data safely: control characters are shown, not executed by the terminal.

A label, a token or the name of a file may contain escape codes that move the cursor, change colours or the title of the
window, or characters that reverse the reading direction. They are shown as `\\x1b` and `\\u202e` here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

# C0 without tab and line end, DEL and C1, embeddings, overrides and isolates of the reading direction, and halves of
# surrogate pairs, which stand for bytes of a file name that are not UTF-8. A carriage return is part of a line end.
_ACTS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)")


def visible(text: str) -> str:
    """Return the text with control characters written as Python writes them: \\x1b, \\r, \\u202e."""
    return _ACTS.sub(lambda found: repr(found[0])[1:-1], text)


def visible_json(text: str) -> str:
    """Return JSON of the same meaning, with such characters written as JSON writes them: \\u009b."""
    return _ACTS.sub(lambda found: json.dumps(found[0])[1:-1], text)


def styled(template: str, *values: object) -> str:
    """Fill each `{}` of some rich markup with a value, which is escaped: a label `[red]` or `[/]` is no markup."""
    return template.format(*(escape(str(value)) for value in values))


class SafeConsole(Console):
    """A rich console that shows control characters, prints `:cat:` as it is, and survives a closed standard error.

    Markup is interpreted, so strings with values in them must be made by `styled`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Replace control characters before the layout, so that columns have the width of the text shown."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Replace control characters in everything printed; control segments are rich's own, for a progress bar."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """End the program if standard output is closed; if standard error is, drop messages and continue."""
        if not self.stderr:
            raise  # again: rich calls this while it handles the error
        self.quiet = True
