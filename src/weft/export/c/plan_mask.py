"""The plan of masked language models, which fill gaps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.export.c.constants import Constants
from weft.export.c.model_source import Plan
from weft.export.c.plan_reading import add_frame, reading
from weft.export.c.source import read
from weft.export.graph import Program
from weft.run import Run
from weft.text import SPECIALS, Tokenizer, frame_of
from weft.text.gaps import BLANK_IN_TOKEN


def plan_mask(run: Run, program: Program, constants: Constants) -> Plan:
    tokenizer: Tokenizer = run.task.codec.tokenizers[""]
    plan, ids = reading(run, [tokenizer]), range(len(tokenizer))
    plan.graphs = ["forward"]
    plan.limits = {"source": "tokens"}
    add_frame(plan, frame_of(tokenizer.config), pair=False)
    add_strings(plan, constants, "SAID", [tokenizer.pieces([index])[0].replace("▁", " ") for index in ids])
    add_strings(plan, constants, "ENTRY", tokenizer.tokens(ids))
    plan.kernels = {"softmax"}
    plan.defines |= {
        "WEFT_VOCABULARY": len(tokenizer),
        "WEFT_FIRST": len(SPECIALS),
        "WEFT_BLANK_IN_TOKEN": int(tokenizer.kind in BLANK_IN_TOKEN),
        "WEFT_BEAM": max(1, run.decode({}).n_best),
    }
    plan.fields += ["float *logits;", "float *best;", "int32_t *filled, *candidates;"]
    plan.arrange += [
        "m->logits = weft_take(m, 4 * tokens * WEFT_VOCABULARY);",
        "m->best = weft_take(m, 4 * (uint64_t)m->limits.beam);",
        "m->candidates = weft_take(m, 4 * (uint64_t)m->limits.beam * tokens);",
        "m->filled = weft_take(m, 4 * tokens);",
    ]
    plan.sources = [*plan.sources, read("task_mask.c")]
    return plan


def add_strings(plan: Plan, constants: Constants, name: str, texts: Sequence[str]) -> None:
    """Texts by their numbers: NAME_AT has where each begins, and where the last ends, in NAME_TEXT. That each ends
    behind its beginning is checked when the model is opened."""
    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    starts = np.cumsum([0, *map(len, parts)]).astype(np.int32)
    content = b"".join(parts) or bytes(1)
    text = constants.plain(np.frombuffer(content, np.int8), f"the texts of {name.lower()}")
    plan.defines |= {
        f"{name}_AT(m)": constants.plain(starts, f"where the texts of {name.lower()} begin"),
        f"{name}_TEXT(m)": f"((const char *){text})",
    }
    plan.arrange.append(f"if (!weft_are_ascending({name}_AT(m), {len(starts)})) return WEFT_DAMAGED;")
