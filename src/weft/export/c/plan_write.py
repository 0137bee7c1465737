"""The plans of tasks that write texts: translators, language models, captioners."""

from __future__ import annotations

from weft.decoding.search import NEVER, NEVER_CONTINUED
from weft.export.c.constants import Constants
from weft.export.c.model_source import Plan
from weft.export.c.plan_reading import NO_LIMIT, features_of, longest_of, quoted, read_features, reading, strings
from weft.export.c.source import read
from weft.export.c.states import state_types, write_states
from weft.export.graph import Program
from weft.run import Run
from weft.tasks.caption import Caption
from weft.tasks.translate import Translate


def plan_translate(run: Run, program: Program, constants: Constants) -> Plan:
    task, prefix = run.task, "encode" not in program.graphs
    assert isinstance(task, Translate)
    languages, shared = task.languages, task.source is task.target
    plan = reading(run, [task.source] if shared else [task.source, task.target])
    add_writing(run, program, plan)
    plan.limits = {**plan.limits, "source": "tokens"}
    plan.graphs = ["start" if prefix else "encode", "step"]
    plan.defines |= {
        "WEFT_READS_SOURCE": 1,
        "WEFT_PREFIX": int(prefix),
        "WEFT_TIMES_SOURCE": task.longer,
        "WEFT_PLUS": task.spare,
        "WEFT_FORBIDDEN": ", ".join(map(str, [*NEVER, *(languages.ids if shared else ())])),
        "WEFT_SOURCE_POSITIONS": NO_LIMIT if prefix else longest_of(run.model.encoder),
        "WEFT_LANGUAGES": len(languages.names),
        "WEFT_FIRST_LANGUAGE": languages.ids.start,
    }
    plan.declared += strings("weft_languages", languages.names) if languages.names else []
    return plan


def plan_caption(run: Run, program: Program, constants: Constants) -> Plan:
    """The plan of a captioner: each line is a JSON of feature vectors, or names a file with a picture."""
    task = run.task
    assert isinstance(task, Caption)
    plan, features = reading(run, [task.target]), features_of(run)
    if features is not None:
        read_features(run, plan, features)
        plan.limits = {"source": "tokens"}
    else:
        side, channels = task.data.size, task.channels
        plan.defines |= {"WEFT_INPUT(m)": "(m)->pixels", "WEFT_SIDE": side, "WEFT_CHANNELS": channels}
        what = f"the file is no binary PGM or PPM of {side} by {side} pixels with values up to 255"
        plan.defines |= {
            "WEFT_PICTURE_HELP": quoted(what),
            "WEFT_READS_FILES": 1,
            "WEFT_LINE_BYTES": max(65536, 3 * side * side + 256),
        }
        plan.fields += ["float *pixels; /* rows of pixels, each of them its colours */"]
        plan.arrange += [f"m->pixels = weft_take(m, 4 * {side * side * channels});"]
        plan.sources = [*plan.sources, read("pixels.c")]
    limits = plan.limits
    add_writing(run, program, plan)
    plan.limits = {**plan.limits, **limits}
    plan.graphs = ["encode", "step"]
    plan.defines |= {
        "WEFT_READS_SOURCE": 1,
        "WEFT_PREFIX": 0,
        "WEFT_TIMES_SOURCE": 0,
        "WEFT_PLUS": task.data.max_length,
        "WEFT_FORBIDDEN": ", ".join(map(str, NEVER)),
        "WEFT_SOURCE_POSITIONS": longest_of(run.model.encoder),
        "WEFT_CAPTION": 1,
    }
    return plan


def plan_lm(run: Run, program: Program | None, constants: Constants) -> Plan:
    """The plan of a language model; one of counts has no program, and brings the functions of its state."""
    plan = reading(run, [run.task.tokenizer])  # type: ignore[attr-defined]
    add_writing(run, program, plan)
    plan.graphs = ["start", "step"] if program is not None else []
    plan.defines |= {
        "WEFT_READS_SOURCE": 0,
        "WEFT_PREFIX": 0,
        "WEFT_TIMES_SOURCE": 0,
        "WEFT_PLUS": 0,
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


def add_writing(run: Run, program: Program | None, plan: Plan) -> None:
    """Add the common part of tasks that write texts to a plan."""
    decode, vocabulary, attention = run.config.decode, len(run.task.codec.side("target")), "tokens"
    if program is not None:
        outputs = {value.name: value.shape for value in program.graphs["step"].outputs}
        (vocabulary,) = map(int, outputs["logits"])
        if "attention" in outputs and isinstance(outputs["attention"][0], int):
            attention = str(outputs["attention"][0])
    plan.limits = {"past": "(long)(tokens + steps)"}
    plan.defines |= {
        "WEFT_LANGUAGES": 0,
        "WEFT_CAPTION": 0,
        "WEFT_VOCABULARY": vocabulary,
        "WEFT_POSITIONS": longest_of(run.model),
        "WEFT_NEW_TOKENS": decode.max_length,
        "WEFT_BEAM": max(decode.beam, decode.n_best),
    }
    plan.fields += [
        "long source;          /* tokens of the source */",
        "int32_t *prompt;",
        "long past; /* tokens that the stream has read */",
        "long prompt_count, before; /* tokens read before the first step, and those that no penalty counts */",
        "float *attention;",
        "weft_search search;",
    ]
    plan.arrange += [
        "const uint64_t steps = (uint64_t)m->limits.new_tokens;",
        "m->prompt = weft_take(m, 4 * (tokens + 8));",
        f"m->attention = weft_take(m, 4 * {attention});",
        "search_arrange(m, &m->search, m->limits.beam, m->limits.new_tokens, (long)(tokens + steps));",
    ]
    plan.types = [*state_types(program.state if program is not None else ()), read("search_types.c")]
    states = [] if program is None else write_states(program, start="encode" if "encode" in program.graphs else "start")
    plan.before = [*states, read("random.c"), read("search.c")]
    plan.sources = [*plan.sources, read("task_write.c"), read("stream.c")]
    plan.header = read("stream.h")
