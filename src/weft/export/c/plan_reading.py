"""The common parts of the plans of all tasks: the input as tokens or numbers, options, and constants of C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from weft.data import Statistics
from weft.export.c.formulas import literal
from weft.export.c.model_source import Plan
from weft.export.c.source import read
from weft.export.c.text_tables import text_tables
from weft.run import Run
from weft.text import SOS, Tokenizer

NO_LIMIT: Final = 1 << 30
FEATURES: Final = "features"


def reading(run: Run, tokenizers: Sequence[Tokenizer], *, sentences: int | None = None) -> Plan:
    """A plan with tokenizers; `sentences` is the number of the one that splits sentences into words."""
    entries = ", ".join(str(len(one)) for one in tokenizers)
    name = f"A run of {run.config.task}, model.kind = {getattr(run.config.model, 'kind', 'pair')}"
    plan = Plan(
        describe=f"{name}, as weft exported it.",
        defines={"WEFT_ENTRIES": entries, "WEFT_FEATURES": 0, "WEFT_INPUT(m)": "(m)->ids", **decode_defines(run)},
        sources=[read("input.c")] if tokenizers else [],
        sections=[text_tables(one, sentences=number == sentences) for number, one in enumerate(tokenizers)],
        texts=len(tokenizers),
        longest=min(longest_of(run.model), NO_LIMIT),
    )
    if tokenizers:
        plan.fields = ["int32_t *ids; /* the tokens that are read */"]
        plan.arrange = ["m->ids = weft_take(m, 4 * (tokens + 1));"]
    return plan


def features_of(run: Run) -> Statistics | None:
    """The statistics of feature vectors, where a run reads these and not texts."""
    found: Statistics | None = run.task.codec.statistics.get(FEATURES)
    return found


def input_plan(run: Run, tokenizers: Sequence[Tokenizer], **settings: Any) -> Plan:
    """A plan that reads tokens, or feature vectors."""
    features = features_of(run)
    plan = reading(run, () if features else tokenizers, **settings)
    if features:
        read_features(run, plan, features)
    return plan


def read_features(run: Run, plan: Plan, features: Statistics) -> None:
    """Let a plan read feature vectors: lines of JSON."""
    column: Any = run.config.data.features  # type: ignore[attr-defined]
    size = len(features.mean)
    what = f"the line is no list of steps with {size} number{'s' * (size > 1)} each, such as [{[0.5] * size}]"
    plan.defines |= {"WEFT_FEATURES": size, "WEFT_INPUT(m)": "(m)->features", "WEFT_NUMBERS_HELP": quoted(what)}
    plan.declared += [
        f"static const char weft_features_name[] = {quoted(column if isinstance(column, str) else FEATURES)};",
        *doubles("weft_feature_means", features.mean),
        *doubles("weft_feature_scales", features.scale),
    ]
    plan.fields += [f"float *features; /* (steps, {size}) */"]
    plan.arrange += [f"m->features = weft_take(m, 4 * tokens * {size});"]
    plan.sources = [*plan.sources, read("json.c"), read("features.c")]


def sequence(run: Run, *, numbers: int, graphs: bool = True) -> Plan:
    """The plan of a task with one answer for a text, for two, or for feature vectors."""
    plan = input_plan(run, list(run.task.codec.tokenizers.values()))
    frame, pair = run.task.frame, run.task.data.pair is not None  # type: ignore[attr-defined]
    plan.graphs = ["forward"] if graphs else []
    plan.limits = {"source": "tokens"}
    add_frame(plan, frame, pair=pair)
    plan.fields += ["float *logits;"]
    plan.arrange += [f"m->logits = weft_take(m, 4 * {numbers});"]
    plan.sources = [*plan.sources, read("sequence.c")]
    return plan


def add_frame(plan: Plan, frame: Any, *, pair: bool) -> None:
    """The special tokens around texts."""
    plan.defines |= {
        "WEFT_FRAME_START": len(frame.start),
        "WEFT_FRAME_PAIR": int(pair),
        "WEFT_FRAME_BETWEEN": len(frame.between),
        "WEFT_FRAME_MARK": "WEFT_SOS" if frame.between == (SOS,) else "WEFT_EOS",
        "WEFT_POSITIONS": plan.longest,
    }


def decode_defines(run: Run) -> dict[str, str | int]:
    """The limits that follow from the settings of the search."""
    decode = run.config.decode
    return {"WEFT_NEW_TOKENS": decode.max_length, "WEFT_BEAM": 1}


def options_source(run: Run) -> str:
    """The function that sets the defaults of the options."""
    decode = run.decode({}) if run.task.writes or run.task.answer_options else run.config.decode
    values: dict[str, Any] = {
        "probabilities": 0,
        "beam": decode.beam,
        "n_best": decode.n_best,
        "max_length": decode.max_length,
        "min_length": decode.min_length,
        "length_penalty": literal(decode.length_penalty, "float"),
        "by_bound": int(decode.stop == "bound"),
        "finished": decode.finished or 0,
        "repetition_penalty": literal(decode.repetition_penalty, "float"),
        "frequency_penalty": literal(decode.frequency_penalty, "float"),
        "presence_penalty": literal(decode.presence_penalty, "float"),
        "sample": int(decode.sample),
        "temperature": literal(decode.temperature, "float"),
        "top_p": literal(decode.top_p, "float"),
        "min_p": literal(decode.min_p, "float"),
        "top_k": decode.top_k,
        "seed": f"{decode.seed}u",
        "words": 0,
        "language": -1,
    }
    lines = [f"    options->{name} = {value};" for name, value in values.items()]
    return "\n".join(["void weft_default_options(weft_options *options)", "{", *lines, "}", ""])


def longest_of(model: Any) -> int:
    """The most tokens that a model reads."""
    for part in (model, getattr(model, "decoder", None), getattr(model, "encoder", None)):
        found = getattr(part, "longest", None)
        if isinstance(found, int):
            return found
    return NO_LIMIT


def strings(name: str, texts: Sequence[str]) -> list[str]:
    """An array of texts in C."""
    return [f"static const char *const {name}[] = {{", *(f"    {quoted(text)}," for text in texts), "};", ""]


def numbers(name: str, values: Sequence[float]) -> list[str]:
    return [
        f"static const float {name}[] = {{{', '.join(literal(float(np.float32(one)), 'float') for one in values)}}};",
        "",
    ]


def doubles(name: str, values: Sequence[float]) -> list[str]:
    return [f"static const double {name}[] = {{{', '.join(repr(float(one)) for one in values)}}};", ""]


def quoted(text: str) -> str:
    """A text as a string of C: whatever is not plain ASCII is written as octal bytes."""
    plain = (
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode("utf-8", "surrogatepass")
    )
    return '"' + "".join(plain) + '"'
