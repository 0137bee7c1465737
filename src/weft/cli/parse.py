"""weft parse GRAMMAR [TEXT]"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from weft.grammar import Grammar, Parse, Tree

MAX_ALL_TREES = 100_000
"""Trees of a sentence that --all prints; --limit may ask for more."""


def parse(
    grammar: Annotated[
        str, typer.Argument(help="A file of rules such as S -> NP VP; with --from-trees the file to write, - to print.")
    ],
    text: Annotated[
        str | None,
        typer.Argument(help="A sentence, words separated by blanks.", show_default="lines of standard input"),
    ] = None,
    best: Annotated[
        bool, typer.Option("--best", help="Print the most probable tree; the rules must have probabilities.")
    ] = False,
    all_trees: Annotated[bool, typer.Option("--all", help="Print all trees, the best first.")] = False,
    limit: Annotated[int, typer.Option(help="Print at most this many trees, the best first.", min=1)] = 1,
    derivation: Annotated[
        bool, typer.Option("--derivation", help="Print the leftmost derivation of each tree, top-down.")
    ] = False,
    brackets: Annotated[bool, typer.Option("--brackets", help="Print each tree on one line: (S (NP …) …).")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each sentence.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Draw the trees into this SVG file.", metavar="FILE")] = None,
    from_trees: Annotated[
        str | None,
        typer.Option(help="Count rules and probabilities in bracketed trees and write GRAMMAR.", metavar="FILE"),
    ] = None,
    strip_tags: Annotated[
        bool, typer.Option("--strip-tags", help="With --from-trees: read NP-SBJ-1 as NP, and leave out -NONE-.")
    ] = False,
) -> None:
    """Parse sentences with a context-free grammar and draw their trees.

    One tree is printed: the most probable, or without probabilities the one with the fewest rules. A sentence without
    a tree is reported with the words that were expected, and the exit code is 2.

    Examples:
    weft parse grammar.txt "the cat caught the rat"
    weft parse grammar.txt "I saw her duck" --all --brackets
    weft parse grammar.txt --json < sentences.txt
    weft parse new.txt --from-trees treebank.mrg --strip-tags
    """
    from weft.errors import ConfigError, DataError

    if best and (all_trees or limit > 1):
        raise ConfigError("prints one tree", where="--best", cure="leave out --all and --limit")
    if json and brackets:
        raise ConfigError("JSON has the brackets", where="--brackets", cure="leave it out")
    if strip_tags and from_trees is None:
        raise ConfigError("needs --from-trees", where="--strip-tags", cure="leave it out")
    rules = read_rules(grammar, from_trees, strip_tags=strip_tags)
    if best and not rules.probabilistic:
        cure = "write [0.3] behind each rule, or count them in trees with --from-trees"
        raise ConfigError("the rules have no probabilities", where=grammar, cure=cure)
    if from_trees is not None and text is None:
        return
    shown: list[Tree] = []
    failed = 0
    for place, found in parse_all(rules, text, grammar):
        if all_trees and found.count > MAX_ALL_TREES:
            raise DataError(f"the sentence has {show_count(found.count)} trees", where=place, cure="use --limit")
        trees = list(found.trees(None if all_trees else limit))
        shown += trees if svg is not None else []
        failed += not found
        show(found, trees, place, derivation=derivation, brackets=brackets, json=json)
    if svg is not None and shown:
        draw_into(svg, shown)
    if failed:
        raise typer.Exit(DataError.exit_code)


def read_rules(path: str, from_trees: str | None, *, strip_tags: bool) -> Grammar:
    """Read the grammar, or count it in trees and write it."""
    from weft.cli.output import note, write
    from weft.disk import atomic_write
    from weft.errors import ConfigError, counted
    from weft.grammar import induce, read_grammar, read_trees

    if from_trees is None:
        return read_grammar(path)
    if path != "-" and Path(path).exists():
        raise ConfigError(
            "the file exists already", where=path, cure="name a new file for the grammar, or - to print it"
        )
    found = induce(read_trees(from_trees, strip=strip_tags))
    if path == "-":
        write(str(found))
    else:
        atomic_write(Path(path), str(found).encode())
        note("{} written: [bold]{}[/]", counted(len(found.rules), "rule"), path)
    return found


def parse_all(grammar: Grammar, text: str | None, path: str) -> Iterator[tuple[str, Parse]]:
    """Parse a text, or each line of standard input that is not blank; the place is for messages."""
    from weft.errors import ConfigError
    from weft.grammar import parse
    from weft.grammar.files import STDIN, read_lines

    if text is not None:
        yield "", parse(grammar, text)
        return
    if path == STDIN:
        raise ConfigError("standard input is the grammar", where="-", cure="give the sentence as an argument")
    for number, line in enumerate(read_lines(STDIN, most=0), 1):
        if line.strip():
            yield f"line {number}", parse(grammar, line)


def show(found: Parse, trees: list[Tree], place: str, *, derivation: bool, brackets: bool, json: bool) -> None:
    """Print the trees of a sentence, or why there is none."""
    from weft.cli.output import print_error, print_json, screen, write
    from weft.grammar import draw, show_derivation

    if json:
        print_json(found.record(trees, derivation=derivation))
        return
    if not found:
        print_error(f"{place}: {found.explain()}" if place else found.explain())
        return
    if not brackets:
        write(f"{describe(found, len(trees))}\n")
    for number, tree in enumerate(trees, 1):
        if brackets:
            write(f"{tree.brackets()}\n")
        else:
            chance = "" if tree.probability is None else f"probability {show_probability(tree.log_probability)}"
            head = " ".join(filter(None, [f"tree {number}" if len(trees) > 1 else "", chance]))
            width = screen.width if screen.is_terminal else None
            write("\n" + (f"{head}\n" if head else "") + f"{draw(tree, width=width)}\n")
        if derivation:
            write(f"\n{show_derivation(tree)}\n")
    if not brackets:
        write("\n", flush=True)


def describe(found: Parse, shown: int) -> str:
    """The sentence, and how many trees it has: the cat sleeps: 1 of 5 trees, probability 0.25."""
    from weft.errors import counted

    count = found.count
    trees = counted(shown, "tree") if shown == count else f"{shown} of {show_count(count)} trees"
    chance = "" if found.probability is None else f", probability {show_probability(found.log_probability)}"
    return f"{' '.join(found.words)}: {trees}{chance}"


def show_count(count: float) -> str:
    """A number of trees: 1,430, 2.4e+41 (also beyond the largest float), infinitely many."""
    if count == math.inf:
        return "infinitely many"
    if count < 10**15:
        return f"{count:,}"
    exponent = int(math.log10(count))
    return f"{10 ** (math.log10(count) - exponent):.1f}e+{exponent}"


def show_probability(log: float | None) -> str:
    """A probability with six digits; tiny ones from their logarithm."""
    if log is None or not math.isfinite(log):
        return "—"
    exponent = math.floor(log / math.log(10))
    if exponent > -300:
        return f"{math.exp(log):.6g}"
    return f"{math.exp(log - exponent * math.log(10)):.5f}e{exponent}"


def draw_into(path: Path, trees: list[Tree]) -> None:
    """Write a picture of some trees."""
    from weft.cli.output import note
    from weft.disk import atomic_write
    from weft.grammar import draw_svg

    atomic_write(path, draw_svg(trees).encode())
    note("drawn: [bold]{}[/]", path)
