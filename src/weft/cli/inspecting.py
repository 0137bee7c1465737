"""Options of all views of `weft inspect`, and the code that prints or writes a view."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from weft.cli.imports import read_imports

if TYPE_CHECKING:
    from weft.inspect import View
    from weft.run import Run


class Views(TyperGroup):
    """The views; one that is not there gets an error with the list of them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            from weft.errors import ConfigError, did_you_mean

            names = self.list_commands(ctx)
            cure = did_you_mean(args[0], names)
            cure += "" if "choose" in cure else f" The views are {', '.join(names)}"
            raise ConfigError("is not a view", where=args[0], cure=cure)
        return super().resolve_command(ctx, args)


app = typer.Typer(help="Look inside a model: one view for each question.", no_args_is_help=True, cls=Views)

RunFolder = Annotated[str, typer.Argument(help="The run folder, or hf://OWNER/NAME.", metavar="RUN")]
InputText = Annotated[str, typer.Argument(help="The input that the model reads.", metavar="TEXT")]
Target = Annotated[
    str | None,
    typer.Option(help="The answer to show it for; by default the model's own prediction.", metavar="TEXT"),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Write the view to this file: .html (works offline), .svg, .png or .json."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")]
Dark = Annotated[bool, typer.Option("--dark", help="With --out: a dark picture; a page follows the reader's settings.")]


@app.callback()
def group() -> None:
    """Look inside a model: one view for each question."""


def show_run(
    name: str,
    folder: str,
    text: Any = None,
    *,
    out: Path | None,
    json: bool,
    dark: bool,
    imports: list[str] | None,
    target: str | None = None,
    **options: Any,
) -> None:
    """Load a run and show one view of it; options that are None have the view's own defaults."""
    from weft.inspect import check_ending, view_kind

    if out is not None:
        check_ending(out)
    kind = view_kind(name)
    given = {option: value for option, value in options.items() if value is not None}
    kind.check_options(given)
    show_view(kind.show(open_run(folder, imports), text, target=target, **given), out=out, json=json, dark=dark)


def open_run(folder: str, imports: list[str] | None) -> Run:
    """Load a run on the CPU, where views are computed."""
    from weft.run import load

    return load(folder, device="cpu", cells=read_imports(imports))


def show_view(view: View, *, out: Path | None, json: bool, dark: bool) -> None:
    """Write the view to a file, print it as JSON, or print it for a terminal."""
    from weft.cli.output import note, print_json, screen

    if out is not None:
        view.save(out, dark=dark)
        note("wrote {}", out)
    if json:
        print_json(view.to_dict())
    elif out is None:
        for line in view.lines(screen.width):
            screen.print(line, soft_wrap=not screen.is_terminal)  # sentences are broken between words
