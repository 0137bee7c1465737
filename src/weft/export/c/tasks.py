"""The plan of an export for each task: its tokenizers, graphs, memory, and the constants that its C reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.decoding.search import NEVER, NEVER_CONTINUED
from weft.errors import ConfigError
from weft.export.c.constants import Constants
from weft.export.c.formulas import literal
from weft.export.c.model_source import Plan
from weft.export.c.source import read
from weft.export.c.states import state_types, write_states
from weft.export.c.text_tables import text_tables
from weft.export.graph import Program
from weft.run import Run
from weft.tasks.labels import on_one_line
from weft.text import SOS, Tokenizer

NO_LIMIT: Final = 1 << 30
SPELLINGS: Final = 2048
"""Words of which a tagger keeps what it has read from their letters."""

CHAIN: Final = ("start", "transitions", "end")
"""The parts of a chain of tags."""

FLOATS, WHOLES = "float *{0};", "int32_t *{0};"


def plan_classify(run: Run, program: Program | None, constants: Constants) -> Plan:
    task, labels = run.task, run.task.codec.labels
    plan = _sequence(run, numbers=len(labels))
    thresholds = getattr(run.model, "thresholds", None)
    many = bool(task.many_labels)
    given = [0.5 if many else 1.0] * len(labels) if thresholds is None else thresholds.tolist()
    shown = [label if many else on_one_line(label) for label in labels]
    plan.defines |= {"WEFT_LABELS": len(labels), "WEFT_MANY_LABELS": int(many)}  # type: ignore[operator]
    plan.declared = [*strings("weft_labels", shown), *numbers("weft_thresholds", given)]
    plan.kernels = {"softmax", "logistic"}
    plan.fields += ["float *numbers; /* the probabilities of the labels */", "int32_t *order;"]
    plan.arrange += ["m->numbers = weft_take(m, 4 * WEFT_LABELS);", "m->order = weft_take(m, 8 * WEFT_LABELS);"]
    plan.sources = [*plan.sources, read("task_classify.c")]
    plan.header = f"""/* The probability of each of the {len(labels)} labels of a line; 0 or an error. */
int weft_classify(weft_model *m, const char *line, size_t count, const float **probabilities);
"""
    return plan


def plan_regress(run: Run, program: Program | None, constants: Constants) -> Plan:
    plan, target = _sequence(run, numbers=1), run.task.codec.statistics["target"]
    plan.defines |= {"WEFT_SCALE": repr(float(target.scale[0])), "WEFT_MEAN": repr(float(target.mean[0]))}  # type: ignore[operator]
    plan.sources = [*plan.sources, read("task_regress.c")]
    plan.header = """/* The number for a line; 0 or an error. */
int weft_regress(weft_model *m, const char *line, size_t count, double *number);
"""
    return plan


def _sequence(run: Run, *, numbers: int) -> Plan:
    """The common part of tasks with one answer for a text or a pair of texts."""
    frame, pair = run.task.frame, run.task.data.pair is not None  # type: ignore[attr-defined]
    plan = _reading(run, [run.task.codec.tokenizers[""]])
    plan.graphs = ["forward"]
    plan.limits = {"source": "tokens"}
    plan.defines |= {  # type: ignore[operator]
        "WEFT_FRAME_START": len(frame.start),
        "WEFT_FRAME_PAIR": int(pair),
        "WEFT_FRAME_BETWEEN": len(frame.between),
        "WEFT_FRAME_MARK": "WEFT_SOS" if frame.between == (SOS,) else "WEFT_EOS",
        "WEFT_POSITIONS": plan.longest,
    }
    plan.fields += ["float *logits;"]
    plan.arrange += [f"m->logits = weft_take(m, 4 * {numbers});"]
    plan.sources = [*plan.sources, read("sequence.c")]
    return plan


def plan_tag(run: Run, program: Program | None, constants: Constants) -> Plan:
    """The plan of a tagger; a hidden Markov model has no program, reads characters, and brings its own scores."""
    task, labels = run.task, run.task.codec.labels
    spelled = program is not None and "spell" in program.graphs
    tokenizers = [task.words, *([task.characters] if spelled or program is None else [])]  # type: ignore[attr-defined]
    plan = _reading(run, tokenizers, sentences=True)
    plan.graphs = [] if program is None else ["spell", "forward"] if spelled else ["forward"]
    plan.limits = {"source": "tokens", "letters": "tokens"}
    width = program.graphs["spell"].outputs[0].shape[0] if spelled and program is not None else 0
    crf = program is not None and bool(program.constants)
    plan.defines |= {"WEFT_HMM": int(program is None), "WEFT_PAIRS": 0, "WEFT_SPELLINGS": SPELLINGS}  # type: ignore[operator]
    plan.defines |= {"WEFT_LABELS": len(labels), "WEFT_SPELLED": str(width), "WEFT_CRF": int(crf)}  # type: ignore[operator]
    plan.defines |= {"WEFT_POSITIONS": plan.longest}  # type: ignore[operator]
    if crf and program is not None:
        add_chain(plan, constants, {name: program.constants[f"crf_{name}"] for name in CHAIN})
    plan.declared = strings("weft_labels", labels)
    plan.fields += [
        "weft_span *words;",
        "int32_t *word_ids, *tags, *back;",
        "float *spelled, *logits, *shares, *best;",
        "float *spellings; /* of words that came before */",
        "char *spelling_words;",
        "double *alpha;",
    ]
    plan.arrange += [
        "m->words = weft_take(m, tokens * sizeof *m->words);",
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
   the number of words, or an error. weft_label is the name of a tag, weft_word the part of the line that a word is. */
long weft_tag(weft_model *m, const char *line, size_t count, const int32_t **tags, const float **probabilities);
const char *weft_label(int32_t tag);
void weft_word(const weft_model *m, long word, size_t *start, size_t *size);
"""
    return plan


def add_chain(plan: Plan, constants: Constants, chain: Mapping[str, NDArray[Any]]) -> None:
    """The scores of a chain of tags, which task_tag.c decodes."""
    plan.defines |= {"WEFT_CRF": 1}  # type: ignore[operator]
    for name in CHAIN:
        place = constants.plain(np.asarray(chain[name], np.float32), f"the {name} scores of the chain of tags")
        plan.defines |= {f"WEFT_CRF_{name.upper()}(m)": place}  # type: ignore[operator]


def plan_translate(run: Run, program: Program, constants: Constants) -> Plan:
    task, prefix = run.task, "encode" not in program.graphs
    if (language := getattr(run.config.data, "language", None)) is not None:
        cure = "export a run of one language"
        raise ConfigError("has no place in a line of input", where=f"data.language = {language}", cure=cure)
    source, target = task.source, task.target  # type: ignore[attr-defined]
    longer = 8 if source.kind == "word" else 6 if target.kind == "char" != source.kind else 2
    plan = _writing(run, program, [source] if source is target else [source, target])
    plan.limits = {**plan.limits, "source": "tokens"}
    plan.graphs = ["start" if prefix else "encode", "step"]
    plan.defines |= {  # type: ignore[operator]
        "WEFT_READS_SOURCE": 1,
        "WEFT_PREFIX": int(prefix),
        "WEFT_TIMES_SOURCE": longer,
        "WEFT_FORBIDDEN": ", ".join(map(str, NEVER)),
        "WEFT_SOURCE_POSITIONS": NO_LIMIT if prefix else _longest(run.model.encoder),
    }
    return plan


def plan_lm(run: Run, program: Program | None, constants: Constants) -> Plan:
    """The plan of a language model; one of counts has no program, and brings the functions of its state."""
    plan = _writing(run, program, [run.task.tokenizer])  # type: ignore[attr-defined]
    plan.graphs = ["start", "step"] if program is not None else []
    plan.defines |= {  # type: ignore[operator]
        "WEFT_READS_SOURCE": 0,
        "WEFT_PREFIX": 0,
        "WEFT_TIMES_SOURCE": 0,
        "WEFT_FORBIDDEN": ", ".join(map(str, NEVER_CONTINUED)),
        "WEFT_SOURCE_POSITIONS": NO_LIMIT,
    }
    plan.fields += ["int32_t *joined;", "char *line;", "size_t line_room;"]
    plan.arrange += [
        "m->joined = weft_take(m, 4 * (tokens + steps));",
        "m->line_room = 32 * (size_t)(tokens + steps) + 4 * m->limits.line_bytes;",
        "m->line = weft_take(m, m->line_room);",
    ]
    return plan


def _writing(run: Run, program: Program | None, tokenizers: Sequence[Tokenizer]) -> Plan:
    """The common part of tasks that write texts."""
    decode, vocabulary = run.config.decode, len(tokenizers[-1])
    if program is not None:
        (logits,) = (value for value in program.graphs["step"].outputs if value.name == "logits")
        vocabulary = int(logits.shape[0])
    plan = _reading(run, tokenizers)
    plan.limits = {"past": "(long)(tokens + steps)"}
    plan.defines |= {  # type: ignore[operator]
        "WEFT_VOCABULARY": vocabulary,
        "WEFT_POSITIONS": _longest(run.model),
        "WEFT_NEW_TOKENS": decode.max_length,
        "WEFT_BEAM": max(decode.beam, decode.n_best),
    }
    plan.fields += [
        "long source;          /* tokens of the source */",
        "const int32_t *input; /* the source */",
        "int32_t *prompt;",
        "long past; /* tokens that the stream has read */",
        "long prompt_count, before; /* tokens read before the first step, and those that no penalty counts */",
        "float *attention;",
        "weft_search search;",
    ]
    plan.arrange += [
        "const uint64_t steps = (uint64_t)m->limits.new_tokens;",
        "m->prompt = weft_take(m, 4 * (tokens + 8));",
        "m->attention = weft_take(m, 4 * tokens);",
        "search_arrange(m, &m->search, m->limits.beam, m->limits.new_tokens, (long)(tokens + steps));",
    ]
    plan.types = [*state_types(program.state if program is not None else ()), read("search_types.c")]
    states = [] if program is None else write_states(program, source="encode" in program.graphs)
    plan.before = [*states, read("random.c"), read("search.c")]
    plan.sources = [*plan.sources, read("task_write.c"), read("stream.c")]
    plan.header = read("stream.h")
    return plan


def _reading(run: Run, tokenizers: Sequence[Tokenizer], *, sentences: bool = False) -> Plan:
    """A plan with tokenizers."""
    entries = ", ".join(str(len(one)) for one in tokenizers)
    name = f"A run of {run.config.task}, model.kind = {getattr(run.config.model, 'kind', 'pair')}"
    plan = Plan(
        describe=f"{name}, as weft exported it.",
        defines={"WEFT_ENTRIES": entries, **decode_defines(run)},
        sources=[read("input.c")],
        sections=[text_tables(one, sentences=sentences and not number) for number, one in enumerate(tokenizers)],
        texts=len(tokenizers),
        longest=min(_longest(run.model), NO_LIMIT),
    )
    plan.fields = ["int32_t *ids; /* the tokens that are read */"]
    plan.arrange = ["m->ids = weft_take(m, 4 * (tokens + 1));"]
    return plan


def decode_defines(run: Run) -> dict[str, str | int]:
    """The settings of the search, which are the defaults of weft_options."""
    decode = run.config.decode
    return {"WEFT_NEW_TOKENS": decode.max_length, "WEFT_BEAM": 1}


def options_source(run: Run) -> str:
    """The function that sets the defaults of the options."""
    decode = run.config.decode
    values: dict[str, Any] = {
        "probabilities": 0,
        "beam": decode.beam if not decode.sample else max(1, decode.n_best),
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
    }
    lines = [f"    options->{name} = {value};" for name, value in values.items()]
    return "\n".join(["void weft_default_options(weft_options *options)", "{", *lines, "}", ""])


def _longest(model: Any) -> int:
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


def quoted(text: str) -> str:
    """A text as a string of C: whatever is not plain ASCII is written as octal bytes."""
    plain = (
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode("utf-8", "surrogatepass")
    )
    return '"' + "".join(plain) + '"'


TASKS: Final[dict[str, Callable[[Run, Program, Constants], Plan]]] = {
    "classify": plan_classify,
    "regress": plan_regress,
    "tag": plan_tag,
    "translate": plan_translate,
    "lm": plan_lm,
}
"""The plan of each task for networks."""
