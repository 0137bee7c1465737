"""The view `beam`: what else did it consider, and when was it dropped? The tree of the search for one text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final

from rich.text import Text

from weft import limits
from weft.charts import Table, readable
from weft.decoding import DecodeConfig, SearchTrace, Stepper, search
from weft.decoding.stops import cut_text
from weft.errors import ConfigError, counted
from weft.inspect.search_tree import Leaf, SearchTree, TreeNode, grow_tree, list_leaves
from weft.inspect.view import Nothing, Option, View, ViewKind
from weft.run import Run
from weft.run.run import SAMPLING_SETTINGS
from weft.tasks import Generation
from weft.tasks.generation import Candidate


@dataclass(frozen=True)
class BeamTree(View):
    """The tree of one beam search, and its n-best list."""

    input: str
    decode: DecodeConfig
    """The settings of the search."""
    candidates: int
    """Dropped proposals of each hypothesis that the tree has."""
    tree: SearchTree
    leaves: tuple[Leaf, ...]

    name: ClassVar[str] = "beam"
    equation: ClassVar[str] = (
        "sum(y_1 … y_t) = Σ_i log p(y_i | y_1 … y_{i-1}, x)\n"
        "score = sum / length^α                     α = length_penalty, the end token counted\n"
        "At each step the K best sums of all continuations stay in the beam; the others are pruned."
    )

    @property
    def title(self) -> str:
        about = f": {readable(self.input)}" if self.input else ""
        return f"Beam search with {counted(self.decode.beam, 'hypothesis', 'hypotheses')}{about}"

    @property
    def text(self) -> str:
        """The best text, which `Run.predict` returns."""
        return self.leaves[0].text if self.leaves else ""

    @property
    def summary(self) -> str:
        kept = sum(node.state == "kept" for node in self.tree.nodes)
        pruned = sum(self.tree.pruned_at(node) is not None for node in self.tree.nodes)
        finished = sum(node.state == "finished" for node in self.tree.nodes)
        return (
            f"The search made {self.tree.steps} steps from left to right and kept {kept:,} tokens, of which {pruned:,} "
            f"were pruned later (faded); {finished} texts were finished. A number on an edge is the probability of the "
            "token after it, and a wider edge is a likelier one. The best text is orange, the others of the n-best "
            "list are blue."
        )

    def to_dict(self) -> dict[str, Any]:
        nodes = [
            {**asdict(node), "probability": math.exp(node.log_probability), "pruned_at": self.tree.pruned_at(node)}
            for node in self.tree.nodes
        ]
        return {
            "view": self.name,
            "input": self.input,
            "text": self.text,
            "settings": self.decode.model_dump(mode="json"),
            "candidates": self.candidates,
            "steps": self.tree.steps,
            "nodes": nodes,
            "n_best": [{**leaf._asdict(), "probability": math.exp(leaf.sum)} for leaf in self.leaves],
        }

    def chart(self) -> Any:
        from weft.inspect.beam_chart import draw_tree

        return draw_tree(self)

    def table(self) -> Table:
        headings = ("step", "place", "token", "probability", "sum", "state", "text so far")
        rows = [
            (
                node.step,
                "" if node.place is None else node.place + 1,
                readable(node.text),
                math.exp(node.log_probability),
                node.sum,
                self.fate(node),
                readable("".join(one.text for one in self.tree.path(node.parent)).replace("▁", " ").strip()),
            )
            for node in self.tree.nodes[1:]
        ]
        return Table(headings, rows)

    def fate(self, node: TreeNode) -> str:
        """Return what became of a node, in words."""
        pruned = self.tree.pruned_at(node)
        if node.state == "kept":
            return "kept" if pruned is None else f"pruned at step {pruned}"
        return node.state

    def lines(self, width: int) -> list[Text]:
        from weft.inspect.beam_lines import tree_lines

        return tree_lines(self, width)


def beam(
    run: Run | Stepper,
    text: Any = (),
    *,
    beam: int = 4,
    candidates: int = 3,
    forbid: str | Sequence[str] = (),
    require: str | Sequence[str] = (),
    prefix: str = "",
    forbid_unknown: bool = False,
    language: str | None = None,
    **options: Any,
) -> View:
    """Return the tree of the beam search for one text, as a `BeamTree`.

    Options are those of `[decode]`, as for `Run.predict`, whose text is the best leaf. The list has the `n_best` texts
    of the search, then others that were finished. `candidates` dropped proposals of each hypothesis are kept as well.

    Instead of a run any `Stepper` will do, a model with `start` and `step`: `text` is then the tokens that its text
    begins with, and the option `words` has the name of each token.
    """
    if not isinstance(run, Run):
        return _search_plain(run, text, beam=beam, candidates=candidates, **options)
    if not run.task.writes:
        return Nothing("beam", f"{run.config.task} writes no text, so it does not search")
    if options.get("sample") or SAMPLING_SETTINGS & options.keys():
        reason = "sampling draws each token at random, so there is no beam; leave out sample and its settings"
        return Nothing("beam", reason)
    if candidates < 0:
        raise ConfigError("is negative", where=f"candidates = {candidates}", cure="0 keeps none")
    decode = run.decode({"beam": beam, **options})
    trace = SearchTrace(candidates)
    answer = run.predict(
        run.record(text) if not language else run.task.with_language(run.record(text), language),
        beam=beam,
        forbid=forbid,
        require=require,
        prefix=prefix,
        forbid_unknown=forbid_unknown,
        listener=trace,
        **options,
    )
    assert isinstance(answer, Generation)
    tokenizer = run.task.codec.side("target")
    begins = tokenizer.encode(answer.source if run.task.continues else prefix)

    def show(tokens: Sequence[int]) -> str:
        return cut_text(tokenizer.decode([*begins, *tokens]), decode.stop_at)[0]

    tree = grow_tree(trace, tokenizer.pieces)
    tree, leaves = list_leaves(tree, answer.candidates, decode, names=tokenizer.tokens, show=show)
    return BeamTree(answer.source, decode, candidates, tree, leaves)


def _search_plain(
    model: Stepper, text: Sequence[int], *, beam: int, candidates: int, words: Sequence[str] = (), **options: Any
) -> BeamTree:
    """Return the tree of a search with a model that belongs to no run."""
    decode = DecodeConfig(beam=beam, **options)
    trace = SearchTrace(candidates)
    (found,) = search(model, None, 1, decode, prefixes=[list(text)], attention=False, listener=trace)

    def names(tokens: Sequence[int]) -> list[str]:
        return [words[token] if token < len(words) else str(token) for token in tokens]

    texts = [
        Candidate(" ".join(names(one.tokens)), one.score, tuple(names(one.tokens)), one.log_probabilities, one.finished)
        for one in found
    ]
    tree = grow_tree(trace, names)
    tree, leaves = list_leaves(tree, texts, decode, names=names, show=lambda tokens: " ".join(names(tokens)))
    return BeamTree(" ".join(names(text)), decode, candidates, tree, leaves)


DECODING: Final[Mapping[str, Option]] = {
    "length_penalty": Option("float", None, "α in score = sum / length^α", 0.0, limits.LENGTH_PENALTY),
    "max_length": Option("int", None, "the most tokens of a text", 1, limits.LENGTH_TOKENS),
    "min_length": Option("int", None, "the fewest tokens of a text", 0, limits.LENGTH_TOKENS),
    "stop": Option("choice", "bound", "the rule that ends the search", choices=("bound", "finished")),
    "finished": Option("int", None, "with stop = finished: texts that end the search", 1, limits.BEAM),
    "stop_at": Option("words", None, "strings before which a text ends"),
    "repetition_penalty": Option("float", None, "divide logits of tokens of the text by this", 0.01, 100.0),
    "frequency_penalty": Option("float", None, "subtract this for each time that the text has the token", -100, 100),
    "presence_penalty": Option("float", None, "subtract this if the text has the token", -100, 100),
    "groups": Option("int", None, "groups of the beam that differ", 1, limits.BEAM),
    "diversity": Option("float", None, "what a word of another group costs", 0.0, 100.0),
    "copy_unknown": Option("bool", None, "copy source words in place of unknown ones"),
    "sample": Option("bool", None, "draw tokens instead of searching"),
    "forbid": Option("words", None, "words never to write"),
    "require": Option("words", None, "words to write"),
    "prefix": Option("text", None, "how the text begins"),
    "forbid_unknown": Option("bool", None, "never write the unknown token"),
    "language": Option("text", None, "the language to translate to"),
}
"""The settings of the search; without a value each is that of the run."""

KIND = ViewKind(
    name="beam",
    question="What else did it consider, and when was it dropped?",
    function=beam,
    options={
        "beam": Option("int", 4, "hypotheses kept at each step", 1, limits.BEAM),
        "n_best": Option("int", None, "texts to search for", 1, limits.BEAM),
        "candidates": Option("int", 3, "dropped proposals of each hypothesis", 0, 50),
        **DECODING,
    },
)
