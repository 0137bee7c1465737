"""weft config check|fill|diff"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.imports import Imports, read_imports
from weft.cli.settings import TakesSettings

app = typer.Typer(help="Check a config file, fill in every setting, or compare two.", no_args_is_help=True)

Words = Annotated[list[str] | None, typer.Argument(help="Settings such as train.rate=3e-4.", metavar="key=value")]


@app.command(cls=TakesSettings)
def check(
    config: Annotated[str, typer.Argument(help="A config file.")], words: Words = None, imports: Imports = None
) -> None:
    """Check that every setting is known, of the right type and possible.

    Example:
    weft config check my.toml
    """
    from weft.cli.output import note
    from weft.cli.train import read

    read(config, words or [], read_imports(imports))
    note("{} is fine", config)


@app.command(cls=TakesSettings)
def fill(
    config: Annotated[str, typer.Argument(help="A config file, or a task followed by files.")],
    words: Words = None,
    imports: Imports = None,
) -> None:
    """Print the configuration with every default filled in; some depend on the training data, which is read.

    Example:
    weft config fill my.toml > filled.toml
    """
    from weft.cli.output import write
    from weft.cli.train import read
    from weft.config import to_toml
    from weft.run.prepare import survey_training

    cells = read_imports(imports)
    filled, *_ = survey_training(read(config, words or [], cells), skip_bad_lines=False, cells=cells)
    write(to_toml(filled.tree()))


@app.command()
def diff(
    one: Annotated[Path, typer.Argument(help="A config file or a run folder.")],
    other: Annotated[Path, typer.Argument(help="Another one.")],
    imports: Imports = None,
) -> None:
    """Show the settings in which two configurations differ.

    Example:
    weft config diff runs/translate-1 runs/translate-2
    """
    from weft.cli.output import note, print_table
    from weft.config import Config, difference, read_config, validate
    from weft.run import load_config

    cells = read_imports(imports)

    def read(path: Path) -> Config:
        if path.is_dir():
            return load_config(path, cells=cells)
        return validate(read_config(path, cells=cells), cells=cells, keep_unread=True)

    rows = [
        [path, *("—" if value is None else str(value) for value in values)]
        for path, *values in difference(read(one), read(other))
    ]
    if rows:
        print_table(["setting", str(one), str(other)], rows)
    else:
        note("no difference")
