"""Context-free grammars: reading, chart parsing, trees, and grammars counted from trees. Nothing here imports torch."""

from weft.grammar.drawing import draw, outline
from weft.grammar.notation import grammar_from_text, read_grammar
from weft.grammar.parse import Parse, parse
from weft.grammar.rules import Grammar, Rule, Terminal
from weft.grammar.svg import draw_svg
from weft.grammar.tree import DerivationStep, Tree, show_derivation
from weft.grammar.treebank import induce, read_trees, trees_from_lines

__all__ = [
    "DerivationStep",
    "Grammar",
    "Parse",
    "Rule",
    "Terminal",
    "Tree",
    "draw",
    "draw_svg",
    "grammar_from_text",
    "induce",
    "outline",
    "parse",
    "read_grammar",
    "read_trees",
    "show_derivation",
    "trees_from_lines",
]
