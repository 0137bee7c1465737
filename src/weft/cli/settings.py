"""Commands with key=value settings: an unknown option that names a setting gets an error with the right spelling."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class TakesSettings(TyperCommand):
    """A command with key=value words; `--epochs 3` is an error that suggests train.epochs=3."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = list(args)  # parsing takes words away
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # The class is compared by name, because versions of typer take it from different packages.
            option = getattr(error, "option_name", "") if type(error).__name__ == "NoSuchOption" else ""
            if option.startswith("--"):
                _suggest(option, words)
            raise


def _suggest(option: str, words: list[str]) -> None:
    """Raise an error with the right spelling if an unknown option names a setting."""
    from weft.cli.train import OVERRIDE
    from weft.config import merge, parse_overrides
    from weft.config.places import suggest_places
    from weft.errors import ConfigError

    tree = merge({"task": words[0]}, parse_overrides(word for word in words[1:] if OVERRIDE.match(word)))
    if cure := suggest_places(option[2:], tree, _value_of(option, words)):
        raise ConfigError("no such option", where=option, cure=cure)


def _value_of(option: str, words: list[str]) -> str | None:
    """The value of an option, written as --epochs 3 or --epochs=3."""
    for number, word in enumerate(words):
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
        if word == option:
            after = words[number + 1] if number + 1 < len(words) else "-"
            return None if after.startswith("-") else after
    return None
