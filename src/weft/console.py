"""A console for words about data: what the data holds is shown, never carried out by the terminal.

A label, a token or the name of a file may hold escape codes that move the cursor, change colours or the title of the
window, or characters that turn the reading direction around. They are shown as `\\x1b` and `\\u202e` here.
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
    """The text with every character that a terminal would act on written as Python writes it: \\x1b, \\r, \\u202e."""
    return _ACTS.sub(lambda found: repr(found[0])[1:-1], text)


def visible_json(text: str) -> str:
    """JSON of the same meaning that has such characters written as JSON writes them: \\u009b."""
    return _ACTS.sub(lambda found: json.dumps(found[0])[1:-1], text)


def styled(template: str, *values: object) -> str:
    """Rich markup with a value for each `{}`, shown as it stands: a label `[red]` or `[/]` is no markup."""
    return template.format(*(escape(str(value)) for value in values))


class SafeConsole(Console):
    """A rich console that makes control characters visible, takes `:cat:` for text, and outlives its reader.

    The styles are rich's own and stay. Markup is read, so strings with values in them are made by `styled`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Before the layout, so that columns are as wide as what is shown."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """All that is printed passes here; control segments are rich's own, such as those of a progress bar."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Without a reader, standard output ends the program; messages are dropped, and the work goes on."""
        if not self.stderr:
            raise  # again: rich calls this while it handles the error
        self.quiet = True
