"""Models of counts in C: n-grams, bags of words, hidden Markov models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from torch import nn

from weft.export.c.constants import Constants
from weft.export.c.formulas import literal
from weft.export.c.model_source import Plan, Sources, write_sources
from weft.export.c.source import read
from weft.export.c.tasks import options_source, plan_lm
from weft.models import NgramModel
from weft.models.ngram.tables import NEVER
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
    plan.defines |= {  # type: ignore[operator]
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


def _filled(numbers: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """Numbers, or one zero where there are none: a table of C is never empty."""
    kind = np.float32 if np.issubdtype(numbers.dtype, np.floating) else np.int32
    return numbers.astype(kind) if len(numbers) else np.zeros(1, kind)


COUNTED: Final[dict[type[nn.Module], Callable[[Run, Constants], Plan]]] = {NgramModel: plan_ngram}
"""The plan of each model of counts."""


def counted_sources(run: Run) -> Sources:
    """The files of a run of counts."""
    constants = Constants()
    plan = COUNTED[type(run.model)](run, constants)
    plan.sources = [options_source(run), *plan.sources]
    return write_sources(plan, None, constants)
