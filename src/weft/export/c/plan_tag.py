"""The plan of taggers: words with their letters, subwords of imported tokenizers, or feature vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.export.c.constants import Constants
from weft.export.c.model_source import Plan
from weft.export.c.plan_reading import add_frame, input_plan, strings
from weft.export.c.source import read
from weft.export.graph import Program
from weft.run import Run
from weft.text import TextConfig, Tokenizer, frame_of

SPELLINGS: Final = 2048
"""Words of which a tagger keeps what it has read from their letters."""

CHAIN: Final = ("start", "transitions", "end")
"""The parts of a chain of tags."""


def plan_tag(run: Run, program: Program | None, constants: Constants) -> Plan:
    """The plan of a tagger; a hidden Markov model has no program, reads characters, and brings its own scores."""
    labels = run.task.codec.labels
    spelled = program is not None and "spell" in program.graphs
    texts = run.task.codec.tokenizers
    subwords = "words" in texts and "characters" not in texts
    tokenizers = [text for name, text in texts.items() if name == "words" or spelled or program is None]
    if subwords:  # a second one cuts a sentence into words; it knows none with punctuation
        tokenizers.append(Tokenizer.learn(["a"], TextConfig(kind="word")))
    plan = input_plan(run, tokenizers, sentences=int(subwords))
    if subwords:
        add_frame(plan, frame_of(texts["words"].config), pair=False)
    plan.graphs = [] if program is None else ["spell", "forward"] if spelled else ["forward"]
    plan.limits = {"source": "tokens", "letters": "tokens", "words": "tokens"}
    width = program.graphs["spell"].outputs[0].shape[0] if spelled and program is not None else 0
    crf = program is not None and bool(program.constants)
    plan.defines |= {"WEFT_HMM": int(program is None), "WEFT_PAIRS": 0, "WEFT_SPELLINGS": SPELLINGS}
    plan.defines |= {"WEFT_LABELS": len(labels), "WEFT_SPELLED": str(width), "WEFT_CRF": int(crf)}
    plan.defines |= {
        "WEFT_SUBWORDS": int(subwords),
        "WEFT_WORD_BLANK": int(subwords and not texts["words"].drops_first_blank),
    }
    plan.defines |= {"WEFT_POSITIONS": plan.longest, "WEFT_READS_WORDS": int(bool(texts))}
    if crf and program is not None:
        add_chain(plan, constants, {name: program.constants[f"crf_{name}"] for name in CHAIN})
    plan.declared += strings("weft_labels", labels)
    if texts:
        plan.fields += ["weft_span *words;", "char *word; /* one with a blank before it */"]
        plan.arrange += ["m->words = weft_take(m, tokens * sizeof *m->words);"]
        plan.arrange += ["m->word = weft_take(m, WEFT_WORD_BLANK ? m->limits.line_bytes + 1 : 0);"]
    plan.fields += [
        "int32_t *word_ids, *tags, *back;",
        "float *spelled, *logits, *shares, *best;",
        "float *spellings; /* of words that came before */",
        "char *spelling_words;",
        "double *alpha;",
    ]
    plan.arrange += [
        "m->word_ids = weft_take(m, 4 * tokens), m->tags = weft_take(m, 4 * tokens);",
        f"m->spelled = weft_take(m, 4 * tokens * {max(1, int(width))});",
        f"m->spellings = weft_take(m, WEFT_SPELLINGS * 4 * {int(width)});",
        f"m->spelling_words = weft_take(m, WEFT_SPELLINGS * {32 if width else 0});",
        "if (m->spelling_words) memset(m->spelling_words, 0, WEFT_SPELLINGS * 32);" if width else "",
        "m->logits = weft_take(m, 4 * tokens * WEFT_LABELS), m->shares = weft_take(m, 4 * tokens);",
        "m->back = weft_take(m, WEFT_CRF ? 4 * tokens * WEFT_LABELS : 0);",
        "m->best = weft_take(m, 8 * WEFT_LABELS);",
        "m->alpha = weft_take(m, WEFT_CRF ? 8 * (tokens + 3) * WEFT_LABELS : 0);",
    ]
    plan.sources = [*plan.sources, read("task_tag.c")]
    plan.header = """/* Tag a line: the number of the tag of each of its words, and its probability. Returned is
   the number of words, or an error. weft_label is the name of a tag, weft_word the part of the line that a word is.
   The options may be 0; with their `words` those of the line are separated by tabs. */
long weft_tag(weft_model *m, const weft_options *options, const char *line, size_t count, const int32_t **tags,
              const float **probabilities);
const char *weft_label(int32_t tag);
void weft_word(const weft_model *m, long word, size_t *start, size_t *size);
"""
    return plan


def add_chain(plan: Plan, constants: Constants, chain: Mapping[str, NDArray[Any]]) -> None:
    """The scores of a chain of tags, which task_tag.c decodes."""
    plan.defines |= {"WEFT_CRF": 1}
    for name in CHAIN:
        place = constants.plain(np.asarray(chain[name], np.float32), f"the {name} scores of the chain of tags")
        plan.defines |= {f"WEFT_CRF_{name.upper()}(m)": place}
