"""The plan of word vectors: the words nearest to a word, or to a sum of words."""

from __future__ import annotations

from typing import Final

import numpy as np

from weft.export.c.constants import Constants
from weft.export.c.model_source import Plan
from weft.export.c.plan_mask import add_strings
from weft.export.c.plan_reading import reading
from weft.export.c.source import read
from weft.export.graph import Program
from weft.models import WordVectors
from weft.run import Run
from weft.tasks.embed import NEIGHBOURS

MAX_TERMS: Final = 64
"""Words of a sum."""


def plan_embed(run: Run, program: Program, constants: Constants) -> Plan:
    """Vectors have length 1 and are 0 where a word never occurred, which is no neighbour."""
    tokenizer, model = run.task.codec.tokenizers[""], run.model
    assert isinstance(model, WordVectors)
    plan, ngrams = reading(run, [tokenizer], sentences=0), model.config.ngrams
    words = model.normalized().numpy().astype(np.float32)
    table, scale = constants.rows(words, "the vectors of words")
    add_strings(plan, constants, "WORD", tokenizer.tokens(range(len(tokenizer))))
    counted = (program.constants["counts"] > 0).astype(np.int32)
    plan.defines |= {
        "VECTOR_ROWS(m)": table,
        "VECTOR_SCALES(m)": scale or "((const float *)0)",
        "VECTOR_COUNTED(m)": constants.plain(counted, "whether a word occurred"),
        "VECTOR_INT8": int(scale is not None),
        "VECTOR_SIZE": words.shape[1],
        "VECTOR_WORDS": len(words),
        "VECTOR_TERMS": MAX_TERMS,
        "VECTOR_NEIGHBOURS": NEIGHBOURS,
        "VECTOR_BUCKETS": model.config.buckets if ngrams else 0,
        "VECTOR_LEAST": ngrams[0] if ngrams else 0,
        "VECTOR_MOST": ngrams[1] if ngrams else 0,
    }
    if ngrams:
        buckets, bucket_scale = constants.rows(program.constants["buckets"], "the vectors of n-grams")
        plan.defines |= {
            "BUCKET_ROWS(m)": buckets,
            "BUCKET_SCALES(m)": bucket_scale or "((const float *)0)",
            "BUCKET_INT8": int(bucket_scale is not None),
        }
    plan.fields += ["float *target, *one;", "unsigned char *word; /* in lower case */"]
    plan.arrange += [
        "m->target = weft_take(m, 4 * VECTOR_SIZE), m->one = weft_take(m, 4 * VECTOR_SIZE);",
        f"m->word = weft_take(m, {'2 * m->limits.line_bytes + 8' if ngrams else '0'});",
    ]
    plan.sources = [*plan.sources, read("task_embed.c")]
    return plan
