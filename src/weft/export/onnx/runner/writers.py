"""Language models, translators and captioners: what each reads before it writes a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.data import Pair, Picture, Steps, Text
from weft.errors import ConfigError, DataError
from weft.export.onnx.runner.answering import text_of
from weft.export.onnx.runner.graphs import Array, pad
from weft.export.onnx.runner.options import SearchOptions
from weft.export.onnx.runner.texts import Given, WritesText
from weft.text import EOS, UNK


class ContinuesTexts(WritesText):
    """A language model."""

    encodes = False

    def prepare(self) -> None:
        self.target = self.side("")

    def is_blank(self, source: Any) -> bool:
        """Nothing and blanks are prompts."""
        return False

    def given(self, source: Any, wording: Mapping[str, Any], options: SearchOptions) -> Given:
        text = source.text if isinstance(source, Text) else text_of(source, (), "inputs")
        if wording["prefix"]:
            raise ConfigError("a language model goes on from its input", where="prefix", cure="write it at the end")
        return Given(text, text, None, (), self.target.encode(text), text, options.max_length)

    def to_score(self, item: Any) -> tuple[Given, str]:
        text = item.text if isinstance(item, Text) else text_of(item, (), "inputs")
        return Given(text, text, None, (), (), None, 0), text


class Translates(WritesText):
    """A translator, with an encoder or as one decoder that reads the source first."""

    def prepare(self) -> None:
        self.source, self.target = self.side("source"), self.side("target")
        self.languages: list[str] = self.facts["languages"]["names"]
        self.encodes = "encode" in self.graphs  # type: ignore[misc]

    def given(self, source: Any, wording: Mapping[str, Any], options: SearchOptions) -> Given:
        text, language = self._pair(source, wording["language"])
        marks = self._language(language)
        read = [*marks, *self.source.encode(text), EOS]
        prefix = wording["prefix"] or ""
        prompt = self.target.encode(prefix) if prefix else []
        if UNK in prompt:
            raise ConfigError(f'"{prefix}" is not in the vocabulary', where="prefix")
        most = self.facts["limit"]
        limit = max(most["factor"] * len(read) + most["plus"], options.min_length + 1)
        names = [f"<{language}>"] * len(marks) + self.source.tokens(read[len(marks) :])
        words: tuple[str, ...] = ()
        if options.copy_unknown:
            if self.target.kind != "word":
                raise ConfigError("copies nothing: the vocabulary has no unknown words", where="copy_unknown")
            words = (*[""] * len(marks), *self.source.words(text), "")
        before = () if self.encodes else read
        return Given(text, text, read if self.encodes else None, before, prompt, None, limit, tuple(names), words)

    def _pair(self, source: Any, language: str | None) -> tuple[str, str | None]:
        if isinstance(source, Pair):
            return source.source, source.language or language
        if isinstance(source, Mapping):
            language = source.get(self.facts["columns"]["language"] or "language", language)
        return text_of(source, (self.facts["columns"]["source"],), "inputs"), language

    def _language(self, language: str | None) -> list[int]:
        """The token of a language, behind the vocabulary of the source."""
        known = ", ".join(self.languages)
        if not self.languages:
            if language is not None:
                raise DataError("this run has no languages", where=f"language = {language}", cure="leave it out")
            return []
        if language not in self.languages:
            what = "no language to translate to" if language is None else f'"{language}" is not a language of this run'
            raise DataError(what, where="language", cure=f"it has {known}")
        return [self.facts["languages"]["first"] + self.languages.index(language)]

    def embed(self, texts: Sequence[Any]) -> Array:
        if "states" not in self.graphs:
            return super().embed(texts)
        found = [text_of(one, (self.facts["columns"]["source"],), "texts") for one in texts]
        ids = self.source.encode_many(found)
        return self.mean_states([[*row, EOS] for row in ids], 0, [len(row) for row in ids])

    def to_score(self, item: Any) -> tuple[Given, str]:
        if isinstance(item, Pair):
            item = (item.source, item.target, *([item.language] if item.language else []))
        if not isinstance(item, tuple | list) or len(item) != 2 + bool(self.languages):
            raise DataError(f"{item!r:.40} is no pair to score", cure="give (source, target)")
        source, target, *language = item
        wording = {"prefix": None, "language": language[0] if language else None, "forbid_unknown": False}
        return self.given(source, wording, self.defaults), target


class Describes(WritesText):
    """A captioner of pictures, or of feature vectors."""

    def prepare(self) -> None:
        self.target = self.side("")
        self.pictures = "features" not in self.statistics

    def is_one_input(self, inputs: Any) -> bool:
        if isinstance(inputs, list | tuple):
            return False
        return (
            super().is_one_input(inputs)
            or hasattr(inputs, "__fspath__")
            or hasattr(inputs, "getbands")
            or hasattr(inputs, "ndim")
        )

    def given(self, source: Any, wording: Mapping[str, Any], options: SearchOptions) -> Given:
        from weft.data.images import picture_of, read_pixels

        prefix = wording["prefix"] or ""
        prompt = self.target.encode(prefix) if prefix else []
        if UNK in prompt:
            raise ConfigError(f'"{prefix}" is not in the vocabulary', where="prefix")
        limit = max(self.facts["limit"]["plus"], options.min_length + 1)
        if not self.pictures:
            steps = (
                source if isinstance(source, Steps) else Steps.of(np.atleast_2d(np.asarray(source, dtype=np.float64)))
            )
            rows = self.standardise(steps)
            return Given(str(steps), steps.key, rows, (), prompt, None, limit, tuple(map(str, range(len(rows)))))
        picture = source if isinstance(source, Picture) else picture_of(source, place="")
        side, channels = self.facts["picture"]["size"], self.facts["picture"]["channels"]
        pixels = read_pixels(picture, size=side, channels=channels, place="")
        rows, columns = self.facts["grid"]
        names = tuple(f"{row},{column}" for row in range(rows) for column in range(columns))
        return Given(picture.name, picture.digest, pixels, (), prompt, None, limit, names)

    def source_inputs(self, sources: Sequence[Any]) -> dict[str, Array]:
        if self.pictures:
            return {"picture": np.stack(sources).astype(np.float32)}
        features, lengths = pad(sources, kind=np.float32)
        return {"features": features, "source_lengths": lengths}

    def to_score(self, item: Any) -> tuple[Given, str]:
        if isinstance(item, Pair):
            item = (item.picture or item.steps, item.target)
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise DataError(f"{item!r:.40} is not what is scored", cure="give (picture, caption)")
        wording = {"prefix": None, "language": None, "forbid_unknown": False}
        return self.given(item[0], wording, self.defaults), item[1]
