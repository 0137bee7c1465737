"""Models of counts in C: n-grams, bags of words, hidden Markov models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch import nn

from weft.export.c.constants import Constants
from weft.export.c.formulas import literal
from weft.export.c.model_source import Plan, Sources, write_sources
from weft.export.c.plan_labels import plan_classify, plan_regress
from weft.export.c.plan_reading import options_source
from weft.export.c.plan_tag import add_chain, plan_tag
from weft.export.c.plan_write import plan_lm
from weft.export.c.source import read
from weft.models import Bag, NgramModel
from weft.models.hmm import HiddenMarkovModel
from weft.models.hmm.shapes import SHAPES
from weft.models.ngram.tables import NEVER
from weft.nn.crf import Chain
from weft.run import Run


def plan_ngram(run: Run, constants: Constants) -> Plan:
    """Contexts are rows of the order below; the words after each lie side by side."""
    model, plan = run.model, plan_lm(run, None, constants)
    assert isinstance(model, NgramModel)
    tables, cases, contexts = model.tables, list[str](), 0
    for order, (keys, logs, backoffs) in enumerate(tables.orders, 1):
        count = len(logs)
        begins = words = "0"
        if order > 1:
            numbers = keys.numpy()
            ends = np.searchsorted(numbers, np.arange(contexts + 1) * model.vocabulary)
            begins = constants.plain(ends.astype(np.int32), f"where the words after {order - 1} tokens begin")
            words = constants.plain(_filled(numbers % model.vocabulary), f"the last words of {order}-grams")
        log = constants.plain(_filled(logs.numpy()), f"log-probabilities of {order}-grams")
        backoff = constants.plain(_filled(backoffs.numpy()), f"backoffs of {order}-grams") if len(backoffs) else "0"
        cases.append(
            f"    case {order}: return (ngram_table){{{begins}, {words}, {log}, {backoff}, {contexts}, {count}}};"
        )
        contexts = count
    table = [
        "/* The table of an order. */",
        "static ngram_table ngram_of(const weft_model *m, int order)",
        "{",
        "    switch (order) {",
        *cases,
        "    default: return (ngram_table){0, 0, 0, 0, 0, 0};",
        "    }",
        "}",
        "",
    ]
    plan.defines |= {
        "NGRAM_ORDER": model.order,
        "NGRAM_BACKS_OFF": int(tables.backs_off),
        "NGRAM_UNIFORM": literal(tables.uniform, "float"),
        "NGRAM_NEVER": ", ".join(str(token) for token in NEVER if token < model.vocabulary),
        "WEFT_STATE_FIELDS": 1,
    }
    source = read("ngram.c")
    head, tail = source.split("static void ngram_range", 1)
    plan.before = [head, *table, f"static void ngram_range{tail}", *plan.before]
    return plan


def plan_bag(run: Run, constants: Constants) -> Plan:
    """The n-grams of a text by their buckets, which lie in rising order."""
    model = run.model
    assert isinstance(model, Bag)
    plan = (plan_classify if run.config.task == "classify" else plan_regress)(run, None, constants)
    alphabet, kinds = model.alphabet, model.config.kinds
    arrays = {
        "CODES": alphabet.codes,
        "KINDS": alphabet.kinds.astype(np.int32),
        "PLACES": model.buckets.numpy(),
        "IDF": model.idf.numpy(),
        "WEIGHTS": model.weights.detach().numpy(),
        "BIAS": model.bias.detach().numpy(),
        "PRIOR": model.prior.numpy(),
        "OUTPUT": np.zeros((1, 1), np.float32) if model.output is None else model.output.detach().numpy(),
    }
    for name, array in arrays.items():
        plan.defines |= {f"BAG_{name}(m)": constants.plain(_filled(array), name.lower())}
    plan.defines |= {
        "BAG_BASE": "0x9E3779B97F4A7C15u",
        "BAG_ENTRIES": len(alphabet.codes),
        "BAG_BUCKETS": kinds.buckets,
        "BAG_WORDS": kinds.words,
        "BAG_LEAST": kinds.least if kinds.most else 1,
        "BAG_MOST": kinds.most,
        "BAG_NGRAMS": len(model.buckets),
        "BAG_WIDTH": model.width or model.labels,
        "BAG_HIDDEN": int(model.output is not None),
        "BAG_OUTPUTS": model.labels,
    }
    plan.fields += [
        "int32_t *bag_codes, *bag_starts; /* the words of a text */",
        "uint64_t *bag_hashes;",
        "uint32_t *bag_found;",
        "long bag_words;",
    ]
    each = max(1, kinds.words) + 2 * max(0, kinds.most - kinds.least + 1)
    plan.arrange += [
        "m->bag_codes = weft_take(m, 8 * (tokens + 1)), m->bag_starts = weft_take(m, 4 * (tokens + 1));",
        "m->bag_hashes = weft_take(m, 16 * (tokens + 1));",
        f"m->bag_found = weft_take(m, 4 * {each} * (tokens + 1));",
    ]
    plan.graphs, plan.before = [], [read("bag.c"), *plan.before]
    return plan


def plan_hmm(run: Run, constants: Constants) -> Plan:
    """Counts of words, of endings by a tree, and the chain of tags, of order 1 or 2."""
    model, labels = run.model, len(run.task.codec.labels)
    assert isinstance(model, HiddenMarkovModel)
    plan, lexicon = plan_tag(run, None, constants), model.lexicon
    keys, symbols = lexicon.tree.keys.numpy(), lexicon.tree.symbols
    begins = np.searchsorted(keys, np.arange(len(keys) + 2) * symbols)
    arrays: dict[str, NDArray[Any]] = {
        "CLASSES": lexicon.tree.classes.numpy().astype(np.int32),
        "BEGINS": begins.astype(np.int32),
        "SYMBOLS": (keys % symbols).astype(np.int32),
        "PRIOR": model.prior.detach().numpy(),
    }
    for name, part in (("WORD", lexicon.words), ("ENDING", lexicon.endings)):
        arrays |= {f"{name}_OFFSETS": part.offsets.numpy(), f"{name}_TAGS": part.tags.numpy()}
        arrays[f"{name}_COUNTS"] = part.counts.detach().numpy()
        plan.defines |= {f"HMM_{name}_PAIRS": len(part.tags)}
    plan.defines |= {
        "HMM_KEYS": len(keys),
        "HMM_LONGEST": lexicon.tree.longest,
        "HMM_SHAPES": SHAPES,
        "WEFT_PAIRS": int(model.config.order == 2),
    }
    logs, legal = model.transitions.detach().log(), model.sizes.legal
    if model.config.order == 1:
        chain = Chain(logs[labels, :labels], logs[:labels, :labels], logs[:labels, labels]).where(legal)
        add_chain(plan, constants, {name: part.numpy() for name, part in chain._asdict().items()})
    else:
        trellis = model._trellis(logs)
        arrays |= {"TRANSITIONS": trellis.transitions.numpy(), "END": trellis.end.numpy()}
        plan.fields += ["float *pairs;"]
        pairs = (labels + 1) * labels
        plan.arrange += [
            f"m->pairs = weft_take(m, 4 * tokens * {pairs});",
            f"m->alpha = weft_take(m, 8 * ((tokens + 2) * {pairs} + {labels + 1}));",
        ]
        plan.defines |= {"WEFT_TOKENS": 512}
    for name, array in arrays.items():
        note = name.lower().replace("_", " ")
        plan.defines |= {f"HMM_{name}(m)": constants.plain(_filled_any(array), note)}
    plan.before = [read("hmm.c"), *plan.before]
    return plan


def _filled_any(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.size and array.ndim > 1 else _filled(array)


def _filled(numbers: NDArray[Any]) -> NDArray[Any]:
    """Numbers, or one zero where there are none: a table of C is never empty."""
    kind = np.float32 if np.issubdtype(numbers.dtype, np.floating) else np.int32
    return numbers.astype(kind) if len(numbers) else np.zeros(1, kind)


COUNTED: Final[dict[type[nn.Module], Callable[[Run, Constants], Plan]]] = {
    NgramModel: plan_ngram,
    Bag: plan_bag,
    HiddenMarkovModel: plan_hmm,
}
"""The plan of each model of counts."""


def counted_sources(run: Run) -> Sources:
    """The files of a run of counts."""
    constants = Constants()
    plan = COUNTED[type(run.model)](run, constants)
    plan.sources = [options_source(run), *plan.sources]
    return write_sources(plan, None, constants)
