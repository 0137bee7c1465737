"""The facts of a run besides its numbers, ready for JSON: all that a program which runs an exported model reads.

task            the name of the task
kind            the kind of model: rnn, transformer, conv, linear, encoder_decoder, prefix, skipgram, cbow; a captioner
                has the kinds of its two parts with a + between
name            the name of the run
special         the ids of the special tokens: pad, unk, sos, eos, mask
tokenizers      by role ("" where one serves all; source, target; words, characters of a tagger): file (its name in a
                run folder), kind (char, word, bpe, unigram, imported), size, lowercase, punctuation (split,
                keep), unknown (a word of the files that means unknown, or null), blank_first (whether decoding
                drops one blank at the beginning)
positions       the most tokens that the network reads of a row, or null
features        mean and scale of each number of a step, where feature vectors are read in the place of tokens: the
                network reads (x - mean) / scale; else null
decode          the settings of `[decode]` that `weft predict` uses without options, or null for a task without a search

classify        labels; many (any number of labels, by sigmoid; else one, by softmax); thresholds (one for each label,
                or null: the likeliest label, of many those with p >= 0.5; else of one label the greatest
                log p - log t, and of many p >= t); frame (start, between, end: ids around a text and between two);
                pair (whether an input is two texts)
regress         mean and scale of the number: answer = logits[0] · scale + mean; frame, pair
tag             labels; input (words, features or subwords); crf (decode with Viterbi by the program's constants, else
                each word by itself); frame (of subwords)
mask            frame; n_best; no token below `first` may fill a gap; gap (the spellings of one); strips_blank (whether
                the blank before a gap belongs to the gap)
lm              begins (the ids before a text); forbid (ids that are never written)
translate       begins; ends (ids after a source); languages (names, and the id of the first one's token: it stands
                before the source); limit (a text has at most factor · tokens of the source + plus, but more than
                min_length); forbid; shared (one vocabulary for both sides); prefix (whether the source is read by
                the decoder, as a prompt, before `begins`)
caption         picture (size and channels) or features; begins; limit; forbid; grid (rows and columns of the positions
                that attention weights belong to) or null
forecast        history, horizon, season, recursive, levels (of the quantiles); series (name, mean, scale and floor of
                each known one; its number in the model is its place from 1 on, 0 is unknown); columns (target, time,
                series, static, past, known: names in the data); categories (the texts of static columns, numbered from
                1 on); calendar (cycles, each a sine and a cosine after the known columns); covariates (mean and scale
                of past then known columns) and numbers (those of static numbers), or null; frequency; no_floor (the
                floor that is none)
embed           size; ngrams (the shortest and longest character n-gram, or empty); buckets (rows that they share)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from weft.config.schema import positions
from weft.data import Statistics
from weft.data.series_time import read_frequency
from weft.decoding.search import NEVER, NEVER_CONTINUED
from weft.models import Captioner, Tagger, WordVectors
from weft.models.forecaster import Forecaster
from weft.run.folder.files import tokenizer_file
from weft.tasks.caption import Caption
from weft.tasks.deciding import thresholds_of
from weft.tasks.forecast_encoding import SeriesTask
from weft.tasks.forecast_scaling import COVARIATES, NO_FLOOR, STATIC
from weft.tasks.sections import Tree
from weft.tasks.translate import Translate
from weft.text import EOS, MASK, PAD, SOS, SPECIALS, UNK, Tokenizer, frame_of
from weft.text.gaps import BLANK_IN_TOKEN

if TYPE_CHECKING:
    from weft.run import Run

GAPS: Final = ("<mask>", "[MASK]")
"""The spellings of a gap."""


def host_facts(run: Run) -> Tree:
    """The facts of a run; the docstring of this file says what each is."""
    task, codec = run.task, run.task.codec
    searches = task.writes or bool(task.answer_options)
    common = {
        "task": task.name,
        "kind": kind_of(run),
        "name": run.config.name,
        "special": {"pad": PAD, "unk": UNK, "sos": SOS, "eos": EOS, "mask": MASK},
        "tokenizers": {role: describe_tokenizer(role, one) for role, one in codec.tokenizers.items()},
        "positions": positions(run.config),
        "features": describe_statistics(codec.statistics.get("features")),
        "decode": run.decode({}).model_dump(mode="json") if searches else None,
    }
    return common | FACTS[task.name](run)


def kind_of(run: Run) -> str:
    """The kind of model."""
    settings: Any = run.config.model
    own = getattr(settings, "kind", None)
    return str(own) if own is not None else f"{settings.encoder.kind}+{settings.decoder.kind}"


def describe_tokenizer(role: str, tokenizer: Tokenizer) -> Tree:
    config = tokenizer.config
    return {
        "file": tokenizer_file(role),
        "kind": tokenizer.kind,
        "size": len(tokenizer),
        "lowercase": config.lowercase,
        "punctuation": config.punctuation,
        "unknown": config.unknown,
        "blank_first": tokenizer.drops_first_blank,
    }


def describe_statistics(found: Statistics | None) -> Tree | None:
    return None if found is None else {"mean": list(found.mean), "scale": list(found.scale)}


def _frame(tokenizer: Tokenizer | None) -> Tree | None:
    if tokenizer is None:
        return None
    frame = frame_of(tokenizer.config)
    return {"start": list(frame.start), "between": list(frame.between), "end": [EOS]}


def _input(run: Run) -> Tree:
    """The frame of a task that reads whole inputs."""
    data: Any = run.config.data
    return {"frame": _frame(run.task.codec.tokenizers.get("")), "pair": data.pair is not None}


def _classify(run: Run) -> Tree:
    thresholds = thresholds_of(run.model)
    labels = list(run.task.codec.labels)
    chosen = None if thresholds is None else thresholds.tolist()
    return {"labels": labels, "many": run.task.many_labels, "thresholds": chosen, **_input(run)}


def _regress(run: Run) -> Tree:
    target = run.task.codec.statistics["target"]
    return {"mean": target.mean[0], "scale": target.scale[0], **_input(run)}


def _tag(run: Run) -> Tree:
    codec, model = run.task.codec, run.model
    words = codec.tokenizers.get("words")
    form = "features" if words is None else "words" if "characters" in codec.tokenizers else "subwords"
    chained = isinstance(model, Tagger) and model.crf is not None
    frame = _frame(words) if form == "subwords" else None
    return {"labels": list(codec.labels), "input": form, "crf": chained, "frame": frame}


def _mask(run: Run) -> Tree:
    tokenizer = run.task.codec.tokenizers[""]
    found = {"frame": _frame(tokenizer), "n_best": run.decode({}).n_best, "first": len(SPECIALS)}
    return found | {"gap": list(GAPS), "strips_blank": tokenizer.kind in BLANK_IN_TOKEN}


def _lm(run: Run) -> Tree:
    return {"begins": [SOS], "forbid": list(NEVER_CONTINUED)}


def _translate(run: Run) -> Tree:
    task = run.task
    assert isinstance(task, Translate)
    shared = task.source is task.target
    return {
        "begins": [SOS],
        "ends": [EOS],
        "languages": {"names": list(task.languages.names), "first": task.languages.ids.start},
        "limit": {"factor": task.longer, "plus": task.spare},
        "forbid": [*NEVER, *(task.languages.ids if shared else ())],
        "shared": shared,
        "prefix": kind_of(run) == "prefix",
    }


def _caption(run: Run) -> Tree:
    task = run.task
    assert isinstance(task, Caption)
    assert isinstance(run.model, Captioner)
    grid = task.source_grid(run.model)
    return {
        "picture": None if task.features is not None else {"size": task.data.size, "channels": task.channels},
        "begins": [SOS],
        "limit": {"factor": 0, "plus": task.data.max_length},
        "forbid": list(NEVER),
        "grid": None if grid is None else list(grid),
    }


def _forecast(run: Run) -> Tree:
    task, model = run.task, run.model
    assert isinstance(task, SeriesTask)
    assert isinstance(model, Forecaster)
    data, statistics = task.data, task.codec.statistics
    series = [
        {"name": name, "mean": one.mean, "scale": one.scale, "floor": one.floor} for name, one in task.scalings.items()
    ]
    columns = {name: getattr(data, name) for name in ("target", "time", "series", "static", "past", "known")}
    return {
        "history": task.history,
        "horizon": task.horizon,
        "season": task.season,
        "recursive": model.recursive,
        "levels": list(model.levels),
        "series": series,
        "columns": columns,
        "categories": dict(data.categories or {}),
        "calendar": list(data.calendar or ()),
        "covariates": describe_statistics(statistics.get(COVARIATES)),
        "numbers": describe_statistics(statistics.get(STATIC)),
        "frequency": str(read_frequency(data.frequency)) if data.frequency else None,
        "no_floor": NO_FLOOR,
    }


def _embed(run: Run) -> Tree:
    model = run.model
    assert isinstance(model, WordVectors)
    ngrams = list(model.config.ngrams)
    return {"size": model.inputs.size(1), "ngrams": ngrams, "buckets": model.config.buckets if ngrams else 0}


FACTS: Final[dict[str, Callable[[Any], Tree]]] = {
    "classify": _classify,
    "regress": _regress,
    "tag": _tag,
    "mask": _mask,
    "lm": _lm,
    "translate": _translate,
    "caption": _caption,
    "forecast": _forecast,
    "embed": _embed,
}
"""The facts of each task."""
