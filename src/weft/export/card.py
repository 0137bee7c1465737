"""The README.md of an exported folder: its origin, how near it is to the original, and example code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from weft.decoding import NEVER, NEVER_CONTINUED
from weft.export.tokenizer import TARGET
from weft.export.weights import Weights
from weft.models import LanguageModel, PrefixTranslator, Translator
from weft.run import Run
from weft.run.card_header import pipeline
from weft.run.folder.files import CARD, write_text
from weft.text import SPECIALS
from weft.version import __version__

PLACE: Final = "PATH_TO_THIS_FOLDER"
"""The placeholder of the folder in the example code."""

INPUT: Final = "…"
"""The placeholder of a text to read."""

READERS: Final = {
    "mask": "fill-mask",
    "classify": "text-classification",
    "regress": "text-classification",
    "tag": "token-classification",
}
"""The pipelines of models that read whole texts."""

LIBRARIES: Final = {"huggingface": "transformers", "ctranslate2": "ctranslate2"}


def write_card(run: Run, weights: Weights, folder: Path, *, to: str, facts: Sequence[str]) -> None:
    """Write README.md, with the header that model hubs read."""
    usage = _transformers_lines(run) if to == "huggingface" else _ctranslate2_lines(run, weights)
    _write_card(run, folder, to=to, facts=facts, usage=usage)


def write_reader_card(run: Run, folder: Path, *, facts: Sequence[str]) -> None:
    """Write README.md for a model that reads whole texts."""
    task = READERS[run.config.task]
    usage = ["from transformers import pipeline", "", f'read = pipeline("{task}", model="{PLACE}")']
    _write_card(run, folder, to="huggingface", facts=facts, usage=[*usage, f'print(read("{INPUT}"))'])


def _write_card(run: Run, folder: Path, *, to: str, facts: Sequence[str], usage: Sequence[str]) -> None:
    task = "lm" if isinstance(run.model, PrefixTranslator) else run.config.task  # for the hub, what continues a text
    head = ["---", f"library_name: {LIBRARIES[to]}", *pipeline(task), "---", ""]
    title = [f"# {run.config.name or f'weft {run.config.task}'}", ""]
    origin = [f"Trained and exported by weft {__version__}. Compared with the original on sentences made from the"]
    origin += ["vocabulary:", "", *(f"- {fact}" for fact in facts), ""]
    write_text(folder / CARD, "\n".join([*head, *title, *origin, "```python", *usage, "```", ""]))


def _transformers_lines(run: Run) -> list[str]:
    kind = "AutoModelForSeq2SeqLM" if isinstance(run.model, Translator) else "AutoModelForCausalLM"
    lines = [f"from transformers import {kind}, AutoTokenizer", "", f'folder = "{PLACE}"']
    lines += ["tokenizer = AutoTokenizer.from_pretrained(folder)", f"model = {kind}.from_pretrained(folder)"]
    writer = "tokenizer"
    if _apart(run):
        lines, writer = [*lines, f'target = AutoTokenizer.from_pretrained(folder, subfolder="{TARGET}")'], "target"
    inputs = f'inputs = tokenizer(["{INPUT}"], return_tensors="pt", padding=True)'
    if isinstance(run.model, PrefixTranslator):
        lines = [*lines, inputs, 'texts = model.generate(**inputs)[:, inputs["input_ids"].size(1) :]']
        return [*lines, "print(tokenizer.batch_decode(texts, skip_special_tokens=True))"]
    return [*lines, inputs, f"print({writer}.batch_decode(model.generate(**inputs), skip_special_tokens=True))"]


def _ctranslate2_lines(run: Run, weights: Weights) -> list[str]:
    writes = not isinstance(run.model, Translator)
    options = [f"    {name}={value!r}," for name, value in _search_options(run, weights).items()]
    lines = ["import ctranslate2", "from tokenizers import Tokenizer", "", f'folder = "{PLACE}"']
    lines += ['tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")']
    lines += ["tokenizer.encode_special_tokens = True  # <eos> in a text is text"]
    target = "tokenizer"
    if _apart(run):
        lines, target = [*lines, f'target = Tokenizer.from_file(f"{{folder}}/{TARGET}/tokenizer.json")'], "target"
    kind, call = ("Generator", "generate_batch") if writes else ("Translator", "translate_batch")
    lines += [f"model = ctranslate2.{kind}(folder)", f'texts = [tokenizer.encode(text) for text in ["{INPUT}"]]']
    lines += [f"answers = model.{call}(", "    [text.tokens for text in texts],", *options, ")"]
    if isinstance(run.model, PrefixTranslator):
        return [*lines, "for answer in answers:", "    print(tokenizer.decode(answer.sequences_ids[0]))"]
    lines += ["for text, answer in zip(texts, answers):" if writes else "for answer in answers:"]
    if writes:
        # The prompt is decoded with the text: tokens decoded alone may lose the blank before them.
        return [*lines, "    print(tokenizer.decode(text.ids + answer.sequences_ids[0]))"]
    return [*lines, f"    print({target}.decode([{target}.token_to_id(token) for token in answer.hypotheses[0]]))"]


def _search_options(run: Run, weights: Weights) -> dict[str, object]:
    """Return `[decode]` as options of CTranslate2."""
    decode, kind = run.config.decode, "decoding_length" if isinstance(run.model, Translator) else "length"
    options: dict[str, object] = {f"max_{kind}": weights.longest(decode.max_length), f"min_{kind}": decode.min_length}
    never = NEVER_CONTINUED if isinstance(run.model, LanguageModel) else NEVER
    options["suppress_sequences"] = [[SPECIALS[index]] for index in sorted(never)]
    if not isinstance(run.model, Translator):
        # The prompt would count as generated, and in a larger batch the rest of a longer one.
        options |= {"include_prompt_in_result": False, "max_batch_size": 1}
    if decode.sample:
        chance = {"sampling_temperature": decode.temperature, "sampling_topp": decode.top_p}
        return options | {"beam_size": 1, "sampling_topk": decode.top_k} | chance
    return options | {"beam_size": decode.beam, "length_penalty": decode.length_penalty}


def _apart(run: Run) -> bool:
    """Return whether the two sides have vocabularies of their own."""
    return TARGET in run.task.codec.tokenizers
