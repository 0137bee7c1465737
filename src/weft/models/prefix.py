"""One network over source, separator and target: a decoder alone translates.

    row       s_1 … s_n </s> <s> t_1 … t_m          the source's end and the target's start separate the two
    loss      -Σ_i log P(t_{i+1} | row up to t_i)    of the target's tokens only, its end included

The network is that of a language model, with one vocabulary for both sides. A search reads the source as a prompt, in
one pass. B batch, S source length, T target length; packed, N source tokens and M target tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple

import torch
from pydantic import Field, model_validator
from torch import Tensor

from weft.models.embedding import Output, build_embedding
from weft.models.forcing import mix
from weft.models.memory import DecoderSettings
from weft.models.pair import PairModel, SourceRead
from weft.models.recurrent import RecurrentLanguageConfig
from weft.models.transformer import TransformerDecoderConfig
from weft.nn import Packing
from weft.settings import OneOf, Settings, Unread
from weft.text import PAD

PREFIX_DECODERS: Final[dict[str, type[Settings]]] = {
    "transformer": TransformerDecoderConfig,
    "rnn": RecurrentLanguageConfig,
}
"""The settings of `[model.decoder]` where `model.kind = "prefix"`, by their `kind`."""


class PrefixConfig(Settings):
    """One decoder that reads source, separator and target."""

    kind: Literal["prefix"] = "prefix"
    decoder: Annotated[DecoderSettings, OneOf(PREFIX_DECODERS)] = Field(default_factory=TransformerDecoderConfig)

    @model_validator(mode="before")
    @classmethod
    def _has_no_encoder(cls, table: Any) -> Any:
        if isinstance(table, Mapping) and "encoder" in table:
            raise ValueError(
                'has no encoder: with kind = "prefix" one decoder reads source and target (remove encoder)'
            )
        return table

    @property
    def attends(self) -> bool:
        """Whether there are attention weights over the source: no, as the target's own tokens share them."""
        return False

    def unread(self) -> Iterator[Unread]:
        for found in self.decoder.unread_without_export():
            yield found._replace(name=f"decoder.{found.name}")

    def row_tokens(self, source: int, target: int) -> int:
        """The positions of a row with so many tokens on each side, its last one not counted, which is never read."""
        return source + target

    def build(self, source: int, target: int, *, shared: bool) -> PrefixTranslator:
        """`source` and `target` are the sizes of one vocabulary."""
        assert shared, "the task has checked that there is one vocabulary"
        return PrefixTranslator(self, target)


class PrefixTranslator(PairModel):
    """Source and target in one row -> hidden states of the target -> logits."""

    has_encoder = False

    def __init__(self, config: PrefixConfig, vocabulary: int) -> None:
        super().__init__()
        settings = config.decoder
        embedding = build_embedding(settings.vectors, vocabulary, scaled=settings.scales_vectors)
        self.decoder = settings.build_decoder(embedding, None)
        tied = self.decoder.embedding if settings.tie else None
        self.output = Output(self.decoder.output_size, vocabulary, tied=tied)

    @property
    def packs(self) -> bool:
        return self.decoder.packs

    def source_states(self, source: Tensor, lengths: Tensor) -> Tensor:
        return self.decoder(source, None, lengths)  # type: ignore[no-any-return]

    def read(self, source: Tensor, lengths: Tensor) -> SourceRead:
        """source (B, S), lengths (B) -> the prompts of a search. A decoder alone has no memory."""
        rows = zip(source.tolist(), lengths.tolist(), strict=True)
        return SourceRead(None, [row[:length] for row, length in rows])

    def forward(
        self,
        source: Tensor,
        source_lengths: Tensor | Packing,
        target: Tensor,
        target_lengths: Tensor | Packing | None = None,
        *,
        truth: float = 1.0,
    ) -> Tensor:
        if isinstance(source_lengths, Packing):
            assert isinstance(target_lengths, Packing)
            rows = join_packed(source, source_lengths, target, target_lengths)
        else:
            rows = join_padded(source, source_lengths, target)
            rows = rows.within(self.decoder.longest, source_lengths, target_lengths)
        tokens = mix(self.decoder, self.output, rows.tokens, None, rows.packing, truth=truth, free=rows.free)
        hidden: Tensor = self.decoder(tokens, None, rows.packing)
        if rows.packing is not None:
            return hidden.index_select(0, rows.places)
        return hidden.gather(1, rows.places[..., None].expand(-1, -1, hidden.size(-1)))


class JoinedRows(NamedTuple):
    """tokens (B, S + T), and the places (B, T) of the target in them; or packed, (N + M) and (M) with their packing.

    `free` marks the tokens of the target after its start token: only these may be replaced by predictions.
    """

    tokens: Tensor
    places: Tensor
    free: Tensor
    packing: Packing | None

    def within(self, longest: int | None, source: Tensor, target: Tensor | Packing | None) -> JoinedRows:
        """Drop columns in which every row has padding, where a decoder could not read all of them."""
        if longest is None or self.tokens.size(1) <= longest or not isinstance(target, Tensor):
            return self
        size = int((source + target).max())
        places = self.places.clamp(max=size - 1)  # of padding, whose hidden states are not read
        return self._replace(tokens=self.tokens[:, :size], free=self.free[:, :size], places=places)


def join_padded(source: Tensor, lengths: Tensor, target: Tensor) -> JoinedRows:
    """source (B, S) of lengths (B), target (B, T) -> each target directly after its source, and padding after it."""
    rows, size = source.size(0), target.size(1)
    places = lengths[:, None] + torch.arange(size, device=target.device)
    tokens = target.new_full((rows, source.size(1) + size), PAD)
    tokens[:, : source.size(1)] = source
    tokens = tokens.scatter(1, places, target)  # over the padding of the source
    free = torch.zeros_like(tokens, dtype=torch.bool).scatter(1, places[:, 1:], True)
    return JoinedRows(tokens, places, free, None)


def join_packed(source: Tensor, read: Packing, target: Tensor, written: Packing) -> JoinedRows:
    """source (N), target (M) and how they lie -> rows of both, end to end. Nothing is read back from the device."""
    count = max(read.count, written.count)
    begins, starts = (_offsets(packing, count) for packing in (read, written))
    sources = torch.arange(source.numel(), device=source.device) + starts[read.rows]
    targets = torch.arange(target.numel(), device=target.device) + begins[written.rows + 1]
    tokens = target.new_empty(source.numel() + target.numel())
    tokens[sources], tokens[targets] = source, target
    positions, rows = torch.empty_like(tokens), torch.empty_like(tokens)
    positions[sources], positions[targets] = read.positions, written.positions + begins.diff()[written.rows]
    rows[sources], rows[targets] = read.rows, written.rows
    free = torch.zeros_like(tokens, dtype=torch.bool)
    free[targets] = written.positions > 0
    packing = Packing((begins + starts).int(), positions, rows, read.longest + written.longest, count)
    return JoinedRows(tokens, targets, free, packing)


def _offsets(packing: Packing, count: int) -> Tensor:
    """(count + 1,): where each row begins; rows that the packing lacks are empty."""
    offsets = packing.offsets.long()
    return torch.cat([offsets, offsets[-1:].expand(count - packing.count)])
