"""The tokenizer of a checkpoint: its tokenizer.json, or the files that older checkpoints have in its place.

vocab.txt                   WordPiece: BERT, DistilBERT
vocab.json, merges.txt      byte-level BPE: GPT-2, RoBERTa
vocab.json, source.spm …    unigram pieces of SentencePiece: Marian
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from weft.errors import DataError
from weft.importing.checkpoint import Checkpoint, name_some
from weft.importing.sentencepiece import read_sentencepiece
from weft.importing.vocabulary import Pieces
from weft.limits import TOKENIZER_FILE_BYTES, VOCABULARY
from weft.text.imported import HIDDEN, MODELS, part_steps
from weft.text.vocabulary import SPECIALS, UNK

FILE: Final = "tokenizer.json"
SETTINGS: Final = "tokenizer_config.json"
SPECIAL_NAMES: Final = "special_tokens_map.json"

POST_PROCESSORS: Final = ("TemplateProcessing", "BertProcessing", "RobertaProcessing", "ByteLevel", "Sequence")
"""Known types of the part that adds special tokens around a text, which tasks of weft do themselves."""

MODEL_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "WordPiece": {"unk_token": "", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100},
    "BPE": {
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
    },
    "Unigram": {"unk_id": UNK, "byte_fallback": False},
}
"""The options of each model with the values of a file that does not mention them."""

BYTE_LEVEL: Final = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
LANGUAGE: Final = re.compile(r">>[^\s<>]+<<")
"""The entry of a language, which stands at the beginning of a source to name that of the target."""

LANGUAGE_SCORE: Final = 0.0
"""The score of such a piece: above that of all others, so that it is never cut."""

METASPACE: Final = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}


def read_pieces(checkpoint: Checkpoint) -> Pieces:
    """The tokenizer of a checkpoint with one vocabulary."""
    if checkpoint.has(FILE):
        return _read_file(checkpoint, FILE)
    if checkpoint.has("vocab.txt"):
        return _read_wordpiece(checkpoint)
    if checkpoint.has("vocab.json") and checkpoint.has("merges.txt"):
        return _read_byte_pairs(checkpoint)
    what = f"has no {FILE}, no vocab.txt, and not both vocab.json and merges.txt"
    raise DataError(what, where=str(checkpoint.folder), cure="copy the tokenizer's files into it")


def special_names(checkpoint: Checkpoint) -> dict[str, str]:
    """The spelling of special tokens, such as cls_token."""
    names: dict[str, str] = {}
    for file in (SPECIAL_NAMES, SETTINGS):
        for role, value in (checkpoint.table(file) if checkpoint.has(file) else {}).items():
            text = value.get("content") if isinstance(value, dict) else value
            if role.endswith("_token") and isinstance(text, str):
                names[role] = text
    return names


def describe_mask(checkpoint: Checkpoint, token: str) -> tuple[str, ...]:
    """A note where transformers would read the blank before a gap as a token of its own, which weft never does."""
    tree = checkpoint.table(FILE, most=TOKENIZER_FILE_BYTES) if checkpoint.has(FILE) else {}
    for one in tree.get("added_tokens") or []:
        if one["content"] == token and tree["model"].get("type") == "BPE" and one.get("lstrip") is not True:
            what = f"{token} has lstrip = false: transformers reads the blank before it as a token"
            return (f'{what}, weft as part of the gap; "a{token}" is the same in both',)
    return ()


def _read_file(checkpoint: Checkpoint, name: str) -> Pieces:
    """Read a tokenizer.json; raise where it has a part that weft would have to leave out."""
    tree, where = checkpoint.table(name, most=TOKENIZER_FILE_BYTES), str(checkpoint.folder / name)
    try:
        return _read_tree(tree, set(special_names(checkpoint).values()))
    except (TypeError, AttributeError):
        what = "a part of it has another type than in files of the tokenizers library"
        raise DataError(what, where=where, cure="save the tokenizer again with save_pretrained") from None
    except (ValueError, KeyError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(what, where=where, cure="weft imports WordPiece, byte-level BPE and Unigram") from None


def _read_tree(tree: dict[str, Any], specials: Set[str]) -> Pieces:
    """The pieces of a tokenizer.json; `specials` are the tokens that have roles in the checkpoint."""
    model = tree["model"]
    kind = model.get("type") or ("BPE" if "merges" in model else "")
    if kind not in MODELS:
        raise ValueError(f"its model is of the type {kind!s:.40}")
    vocab = model["vocab"]
    scores = None
    if kind == "Unigram":
        entries = dict(enumerate(str(piece) for piece, _ in vocab))
        scores = {str(piece): float(score) for piece, score in vocab}
    else:
        entries = _by_id(vocab)
    added = {one["id"]: one for one in tree.get("added_tokens") or []}
    for index, one in added.items():
        if one["content"] != entries.get(index, one["content"]):
            both = f"{entries[index]!r:.40} in its vocabulary and {one['content']!r:.40} in its added_tokens"
            raise ValueError(f"the id {index} is {both}")
    plain = [one["content"] for one in added.values() if not one.get("special") and one["content"] not in specials]
    if plain:
        raise ValueError(f"it adds tokens that are found in texts ({name_some(plain)}), which weft cannot")
    entries |= {index: one["content"] for index, one in added.items()}
    post = tree.get("post_processor")
    if post is not None and post.get("type") not in POST_PROCESSORS:
        raise ValueError(f"its post_processor is of the type {post.get('type')!s:.40}")
    return Pieces(
        _in_order(entries),
        frozenset(added),
        {
            "normalizer": _steps("normalizer", tree.get("normalizer")),
            "pre_tokenizer": _pre_tokenizer(tree.get("pre_tokenizer")),
            "decoder": _steps("decoder", tree.get("decoder")),
            "model": _model(kind, model),
        },
        scores,
        [_pair(merge) for merge in model["merges"]] if kind == "BPE" else None,
    )


def _model(kind: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """The model without its vocabulary, with weft's unknown token."""
    options = {name: found.get(name, usual) for name, usual in MODEL_OPTIONS[kind].items()}
    own: dict[str, dict[str, Any]] = {
        "WordPiece": {"unk_token": HIDDEN + SPECIALS[UNK]},
        "Unigram": {"unk_id": UNK},
        "BPE": {"unk_token": None},
    }
    return {"type": kind, **options, **own[kind]}


def _steps(part: str, found: Any) -> list[Any]:
    """The steps of a part in the form of the current library."""
    return [_current(step) for step in part_steps(part, found)]


def _pre_tokenizer(found: Any) -> dict[str, Any] | None:
    steps = _steps("pre_tokenizer", found)
    return {"type": "Sequence", "pretokenizers": steps} if len(steps) > 1 else steps[0] if steps else None


def _current(step: Any) -> Any:
    """A step of an older file with the options of the current library."""
    if not isinstance(step, dict):
        return step
    if step.get("type") == "ByteLevel":
        return {**BYTE_LEVEL, **step}
    if step.get("type") == "Metaspace" and "prepend_scheme" not in step:
        scheme = "always" if step.get("add_prefix_space", True) else "never"
        return {**METASPACE, "replacement": step.get("replacement", "▁"), "prepend_scheme": scheme}
    return step


def _pair(merge: Any) -> tuple[str, str]:
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def _by_id(vocab: Mapping[str, int]) -> dict[int, str]:
    """The entries of a vocabulary by their ids, of which each is there once."""
    found: dict[int, str] = {}
    for entry, index in vocab.items():
        if found.setdefault(index, entry) != entry:
            raise ValueError(f"the entries {found[index]!r:.40} and {entry!r:.40} have one id, {index}")
    return found


def _in_order(entries: Mapping[int, str]) -> list[str]:
    if len(entries) > VOCABULARY or set(entries) != set(range(len(entries))):
        raise ValueError(f"its ids are not 0, 1, 2, … up to {VOCABULARY:,}")
    found = [entries[index] for index in range(len(entries))]
    places: dict[str, int] = {}
    for index, entry in enumerate(found):
        if not isinstance(entry, str):
            raise ValueError(f"the entry of the id {index} is no text")
        if places.setdefault(entry, index) != index:
            raise ValueError(f"the entry {entry!r:.40} is there twice, with the ids {places[entry]} and {index}")
    return found


def _lines_of(checkpoint: Checkpoint, name: str) -> str:
    """The text of a file with an entry in each line."""
    try:
        return checkpoint.content(name, most=TOKENIZER_FILE_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DataError("not text in UTF-8", where=f"{checkpoint.folder / name}:{line}", cure="copy it again") from None


def _read_wordpiece(checkpoint: Checkpoint) -> Pieces:
    settings = checkpoint.table(SETTINGS) if checkpoint.has(SETTINGS) else {}
    text = _lines_of(checkpoint, "vocab.txt")
    entries = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
    normal = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": settings.get("tokenize_chinese_chars", True),
        "strip_accents": settings.get("strip_accents"),
        "lowercase": settings.get("do_lower_case", True),
    }
    named = set(special_names(checkpoint).values()) | {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    rules = {
        "normalizer": [normal],
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": [{"type": "WordPiece", "prefix": "##", "cleanup": True}],
        "model": _model("WordPiece", {}),
    }
    found = _checked(entries, checkpoint, "vocab.txt")
    return Pieces(found, frozenset(index for index, entry in enumerate(found) if entry in named), rules)


def _read_byte_pairs(checkpoint: Checkpoint) -> Pieces:
    settings = checkpoint.table(SETTINGS) if checkpoint.has(SETTINGS) else {}
    entries = _ids_in_order(checkpoint, "vocab.json")
    text = _lines_of(checkpoint, "merges.txt")
    lines = [line.rstrip("\r") for line in text.split("\n")]
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    if any(len(pair) != 2 for pair in merges):
        raise DataError("has a line that is not two pieces", where=str(checkpoint.folder / "merges.txt"))
    cut = {**BYTE_LEVEL, "add_prefix_space": bool(settings.get("add_prefix_space", False))}
    rules = {"normalizer": [], "pre_tokenizer": cut, "decoder": [BYTE_LEVEL], "model": _model("BPE", {})}
    named = set(special_names(checkpoint).values()) | {"<|endoftext|>", "<s>", "</s>", "<pad>", "<unk>", "<mask>"}
    hidden = frozenset(index for index, entry in enumerate(entries) if entry in named)
    return Pieces(entries, hidden, rules, merges=[(pair[0], pair[1]) for pair in merges])


def read_sentencepieces(checkpoint: Checkpoint, spm: str, vocabulary: str) -> Pieces:
    """Pieces of a .spm file with the ids of a vocab.json; entries that the file does not know are hidden, except the
    codes of languages, which are words of a text."""
    found = read_sentencepiece(checkpoint.content(spm, most=TOKENIZER_FILE_BYTES), str(checkpoint.folder / spm))
    entries = _ids_in_order(checkpoint, vocabulary)
    rules = {
        "normalizer": found.normalizer,
        "pre_tokenizer": found.pre_tokenizer,
        "decoder": [METASPACE],
        "model": _model("Unigram", {}),
    }
    codes = {entry: LANGUAGE_SCORE for entry in entries if LANGUAGE.fullmatch(entry)}
    if found.pre_tokenizer["prepend_scheme"] == "always":  # then every word begins with the mark of a blank
        renamed = {entry: f"▁{entry}" for entry in codes if f"▁{entry}" not in entries}
        entries = [renamed.get(entry, entry) for entry in entries]
        codes = {renamed.get(entry, entry): score for entry, score in codes.items()}
    known = {**found.scores, **codes}
    # A character that the file does not know is looked up too, as transformers does.
    hidden = frozenset(i for i, entry in enumerate(entries) if entry not in known and len(entry) > 1)
    lowest = min(found.scores.values())
    scores = {entry: known.get(entry, lowest) for i, entry in enumerate(entries) if i not in hidden}
    return Pieces(entries, hidden, rules, scores)


def _ids_in_order(checkpoint: Checkpoint, name: str) -> list[str]:
    try:
        return _in_order(_by_id(checkpoint.table(name, most=TOKENIZER_FILE_BYTES)))
    except (ValueError, TypeError) as error:
        raise DataError(str(error), where=str(checkpoint.folder / name)) from None


def _checked(entries: Sequence[str], checkpoint: Checkpoint, name: str) -> list[str]:
    try:
        return _in_order(dict(enumerate(entries)))
    except ValueError as error:
        raise DataError(str(error), where=str(checkpoint.folder / name)) from None
