"""An encoder and a decoder, any with any, and the scores of the next target token."""

from __future__ import annotations

from torch import Tensor

from weft.models.embedding import Embedding, Output, build_embedding
from weft.models.forcing import mix
from weft.models.memory import DecoderSettings, Encoder, Memory
from weft.models.pair import PairModel, SourceRead
from weft.nn import Packing


class EncoderDecoder(PairModel):
    """source -> Memory -> hidden states of the target -> logits.

    `target` is the size of the target's vocabulary. The decoder has an embedding of its own unless one is given.
    """

    def __init__(
        self, encoder: Encoder, settings: DecoderSettings, target: int, *, embedding: Embedding | None = None
    ) -> None:
        super().__init__()
        self.encoder = encoder
        if embedding is None:
            embedding = build_embedding(settings.vectors, target, scaled=settings.scales_vectors)
        self.decoder = settings.build_decoder(embedding, encoder)
        self.output = Output(self.decoder.output_size, target, tied=self.decoder.embedding if settings.tie else None)

    @property
    def packs(self) -> bool:
        return self.encoder.packs and self.decoder.packs

    def encode(self, source: Tensor, lengths: Tensor | Packing) -> Memory:
        """source (B, S) or what else the encoder reads, lengths (B) -> Memory."""
        return self.encoder(source, lengths)  # type: ignore[no-any-return]

    def source_states(self, source: Tensor, lengths: Tensor) -> Tensor:
        return self.encode(source, lengths).states

    def read(self, source: Tensor, lengths: Tensor) -> SourceRead:
        return SourceRead(self.encode(source, lengths))

    def forward(
        self,
        source: Tensor,
        source_lengths: Tensor | Packing,
        target: Tensor,
        target_lengths: Tensor | Packing | None = None,
        *,
        truth: float = 1.0,
    ) -> Tensor:
        memory = self.encode(source, source_lengths)
        mixed = mix(self.decoder, self.output, target, memory, target_lengths, truth=truth)
        return self.decoder(mixed, memory, target_lengths)  # type: ignore[no-any-return]
