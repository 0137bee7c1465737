"""The settings of recurrent networks, the recurrent encoder, and the recurrent decoder of a language model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, PlainSerializer, PlainValidator, ValidationInfo, model_validator
from torch import Tensor, nn

from weft.models.embedding import Embedding, has_table, untied
from weft.models.memory import Decoded, Decoder, Encoder, Memory, PartSettings
from weft.models.pretrained import EmbeddingSetting, embedding_size
from weft.nn import CELLS, RNN, ChosenCell, State, TimeDropout, choose_cell, reverse_rows
from weft.settings import Layers, Positive, Size, Unread

DEFAULT_CELL = "lstm"


def read_cell(value: Any, info: ValidationInfo) -> ChosenCell:
    """A name or a table of kind and options -> the cell; the validation context may add cells."""
    if isinstance(value, ChosenCell):
        return value
    if not isinstance(value, str | Mapping):
        raise ValueError(f'{value!r} is neither a name nor a table such as {{ kind = "{DEFAULT_CELL}", … }}')
    own = (info.context or {}).get("cells", {})
    return choose_cell(value if isinstance(value, str) else {"kind": DEFAULT_CELL, **value}, {**CELLS, **own})


CellSetting = Annotated[ChosenCell, PlainValidator(read_cell), PlainSerializer(ChosenCell.tree)]


class RecurrentConfig(PartSettings):
    """A stack of recurrent layers over embedded tokens."""

    kind: Literal["rnn"] = "rnn"
    embedding: EmbeddingSetting = 256
    """Size of the token vectors, "onehot", or a file of word vectors."""
    cell: CellSetting = Field(
        default_factory=lambda: choose_cell(DEFAULT_CELL),
        description=f"The recurrent cell: {', '.join(CELLS)}; with options a table of kind and options.",
    )
    hidden: Size | list[Size] = 256
    """Units of a layer; a list gives each layer its own."""
    layers: Layers = 1
    """Recurrent layers on top of each other."""
    skip: Literal["none", "residual", "dense"] = "none"
    """Connections past a layer."""
    initial: Literal["zeros", "learned", "random"] = "zeros"
    """The state before the first token; random: drawn for each sequence in training, zeros in evaluation."""
    initial_std: Positive = 1.0
    """Standard deviation of a random initial state."""
    dropout: float = Field(0.2, ge=0.0, lt=1.0)
    """Share of values dropped in training, on embeddings, between layers and before the output."""

    @model_validator(mode="after")
    def _one_size_per_layer(self) -> RecurrentConfig:
        if isinstance(self.hidden, int):
            return self
        if len(self.hidden) != self.layers:
            raise ValueError(f"hidden = {self.hidden} names {len(self.hidden)} sizes for layers = {self.layers}")
        if self.skip == "residual" and len(set(self.hidden)) > 1:
            raise ValueError(f'skip = "residual" needs layers of one size, not hidden = {self.hidden}')
        return self

    def unread(self) -> Iterator[Unread]:
        if self.initial != "random":
            why = f'does nothing with initial = "{self.initial}"'
            yield Unread("initial_std", why, 'remove it, or set initial = "random"')
        if self.layers == 1 and not self.adds_input():
            size = ", and its input has another size" if self.skip == "residual" else ""
            yield Unread("skip", f"joins nothing: there is one layer{size}", "raise layers, or remove it")

    def adds_input(self) -> bool:
        """Whether the input of the first layer is added to its output; true where the settings do not decide it."""
        inputs, hidden = self.input_size, self.hidden if isinstance(self.hidden, int) else self.hidden[0]
        if self.skip != "residual" or inputs is None:
            return self.skip == "residual"
        try:
            with torch.device("meta"):
                return inputs == self.merged_size(self.cell(inputs, hidden).output_size)
        except Exception:  # a custom cell that cannot be built on the meta device
            return True

    @property
    def input_size(self) -> int | None:
        """Features that the first layer reads; None where they depend on the data or on other settings."""
        return embedding_size(self.embedding)

    def merged_size(self, size: int) -> int:
        """The output size of a layer whose cells have outputs of `size`."""
        return size

    @property
    def vectors(self) -> EmbeddingSetting:
        return self.embedding

    def stack_settings(self) -> dict[str, Any]:
        without = {"dropout", *([] if self.initial == "random" else ["initial_std"])}
        own = self.model_dump(mode="json", include=set(RecurrentConfig.model_fields) - without)
        return own | {"embedding": embedding_size(self.embedding) or "onehot", "bidirectional": False}

    def build_rnn(self, input_size: int, **options: Any) -> RNN:
        return RNN(
            self.cell,
            input_size,
            self.hidden,
            layers=self.layers,
            skip=self.skip,
            initial=self.initial,
            initial_std=self.initial_std,
            dropout=self.dropout,
            **options,
        )


class RecurrentEncoderConfig(RecurrentConfig):
    """A recurrent encoder: reads the whole input, in both directions by default."""

    bidirectional: bool = True
    """Read from both ends."""
    merge: Literal["concat", "sum", "mean", "project"] = "concat"
    """How the outputs of the two directions are combined."""

    def unread(self) -> Iterator[Unread]:
        yield from super().unread()
        if not self.bidirectional:
            yield Unread("merge", "does nothing in one direction", "set bidirectional = true, or remove it")

    def unread_outputs(self) -> Iterator[Unread]:
        if self.layers == 1:
            yield Unread("merge", "changes outputs that the decoder does not read", "remove it")
        if self.skip == "residual" and self.layers <= 2 and not (self.layers == 2 and self.adds_input()):
            yield Unread("skip", "changes outputs that the decoder does not read", "remove it")

    def stack_settings(self) -> dict[str, Any]:
        own = super().stack_settings() | {"bidirectional": self.bidirectional}
        return own | {"merge": self.merge} if self.bidirectional else own

    def merged_size(self, size: int) -> int:
        return 2 * size if self.bidirectional and self.merge == "concat" else size

    def build_encoder(self, embedding: Embedding, *, extra: int = 0) -> RecurrentEncoder:
        """`extra` counts features that join each embedded token, such as its characters."""
        return RecurrentEncoder(self, embedding, extra=extra)


class RecurrentLanguageConfig(RecurrentConfig):
    """Recurrent layers over the tokens so far."""

    tie: bool = Field(default_factory=has_table)
    """Score the next token with the table of embeddings; one-hot vectors have none."""

    def unread(self) -> Iterator[Unread]:
        yield from super().unread()
        yield from untied(self.embedding)

    def build_decoder(self, embedding: Embedding, encoder: Encoder | None = None) -> RecurrentDecoder:
        return RecurrentDecoder(self, embedding)


class RecurrentSourceConfig(RecurrentEncoderConfig):
    """The encoder of a translator."""

    reverse_source: bool = False
    """Read the words of the source from the last to the first, so that its beginning is nearest to the decoder."""

    def stack_settings(self) -> dict[str, Any]:
        return super().stack_settings() | {"reverse_source": self.reverse_source}

    def build_encoder(self, embedding: Embedding, *, extra: int = 0) -> RecurrentEncoder:
        return RecurrentEncoder(self, embedding, extra=extra, reverse=self.reverse_source)


class RecurrentEncoder(Encoder):
    """Tokens -> embeddings -> recurrent layers -> `Memory`.

    With `reverse` it reads the tokens of a row from the last to the first, and the end token after them. The states of
    the memory are in the order of the tokens either way.
    """

    def __init__(
        self, config: RecurrentEncoderConfig, embedding: Embedding, *, extra: int = 0, reverse: bool = False
    ) -> None:
        super().__init__()
        self.reverse = reverse
        self.embedding = embedding
        self.dropout = TimeDropout(config.dropout)
        self.rnn = config.build_rnn(
            embedding.embedding_dim + extra, bidirectional=config.bidirectional, merge=config.merge
        )
        self.output_size = self.rnn.output_size

    def encode(self, vectors: Tensor, lengths: Tensor) -> Memory:
        """vectors (B, T, D), embedded already, lengths (B) -> Memory."""
        states, final = self.rnn(self._reversed(self.dropout(vectors), lengths), lengths=lengths)
        return Memory(self._reversed(self.dropout(states), lengths), lengths, final)

    def last(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """tokens (B, T), lengths (B) -> (B, D), the last state of each row, in each direction."""
        vectors = self._reversed(self.dropout(self.embedding(tokens)), lengths)
        return self.dropout(self.rnn.last(vectors, lengths=lengths)[:, None])[:, 0]  # type: ignore[no-any-return]

    def _reversed(self, steps: Tensor, lengths: Tensor) -> Tensor:
        """Reverse steps (B, T, D) within each row, except its last, the end token; applied twice it changes nothing."""
        return reverse_rows(steps, lengths - 1) if self.reverse else steps

    def each_layer(self) -> list[nn.Module]:
        return list(self.rnn.layers)

    def reading_order(self, length: int) -> list[int]:
        return [*range(length - 2, -1, -1), *range(max(0, length - 1), length)] if self.reverse else list(range(length))

    def final_like(self) -> State:
        return self.rnn.initial_state(1, torch.empty(0))


class RecurrentDecoder(Decoder):
    """Tokens -> hidden states without a memory: h_t = f(h_{t-1}, w_t)."""

    can_prefill = True
    carries_state = True

    def __init__(self, config: RecurrentConfig, embedding: Embedding) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = TimeDropout(config.dropout)
        self.rnn = config.build_rnn(embedding.embedding_dim)
        self.output_size = self.rnn.output_size

    def forward(self, tokens: Tensor, memory: None = None, lengths: Tensor | None = None) -> Tensor:
        """tokens (B, T) -> hidden (B, T, D). Causal, so padding at the end changes nothing before it."""
        return self.follow(tokens)[0]

    def follow(self, tokens: Tensor, state: State = None, resets: Tensor | None = None) -> tuple[Tensor, State]:
        """tokens (B, T) that continue where a state was left -> hidden (B, T, D), the state after them. Where resets
        (B, T) is True the state is the initial one again."""
        hidden, state = self.rnn(self.dropout(self.embedding(tokens)), state=state, resets=resets)
        return self.dropout(hidden), state

    def prefill_rows(self, tokens: Tensor, lengths: Tensor, state: State) -> State:
        """tokens (N, T), lengths (N,) -> the state after them."""
        return self.rnn(self.embedding(tokens), lengths, state)[1]

    def each_layer(self) -> list[nn.Module]:
        return list(self.rnn.layers)

    def start(self, memory: None, rows: Tensor) -> State:
        return self.rnn.initial_state(rows.numel(), next(self.rnn.parameters()))

    def step(self, tokens: Tensor, state: State) -> Decoded:
        hidden, state = self.rnn.step(self.embedding(tokens), state)
        return Decoded(hidden, state, None)
