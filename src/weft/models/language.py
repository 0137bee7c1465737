"""A language model: P(w_t | w_1 … w_{t-1}) = softmax(W h_{t-1} + b), where h comes from a decoder without memory."""

from __future__ import annotations

from typing import Final

from torch import Tensor

from weft.models.convolutional import ConvolutionalConfig
from weft.models.embedding import Output, build_embedding
from weft.models.forcing import mix
from weft.models.memory import Decoder, DecoderSettings
from weft.models.recurrent import RecurrentDecoder, RecurrentLanguageConfig
from weft.models.stepper import Writer
from weft.models.transformer import TransformerDecoder, TransformerDecoderConfig
from weft.nn import Packing, State
from weft.settings import Settings

LANGUAGE_MODELS: Final[dict[str, type[Settings]]] = {
    "rnn": RecurrentLanguageConfig,
    "conv": ConvolutionalConfig,
    "transformer": TransformerDecoderConfig,
}
"""What `[model]` of a language model may be, by its `kind`."""


def build_language_model(config: DecoderSettings, vocabulary: int) -> LanguageModel:
    """A model over a vocabulary of that size, as one of the `LANGUAGE_MODELS` says."""
    decoder = config.build_decoder(build_embedding(config.vectors, vocabulary), None)
    return LanguageModel(decoder, vocabulary, tie=config.tie)


class LanguageModel(Writer):
    """Tokens -> hidden states -> logits of the next token; `start` and `step` do the same one token at a time."""

    def __init__(self, decoder: Decoder, vocabulary: int, *, tie: bool) -> None:
        super().__init__()
        self.decoder = decoder
        self.output = Output(decoder.output_size, vocabulary, tied=decoder.embedding if tie else None)

    @property
    def packs(self) -> bool:
        """Whether it takes packed batches."""
        return isinstance(self.decoder, TransformerDecoder)

    def forward(self, tokens: Tensor, lengths: Tensor | Packing | None = None, *, truth: float = 1.0) -> Tensor:
        """tokens (B, T) -> hidden (B, T, D); or packed, tokens (N) -> (N, D).

        Each token is read as it is with probability `truth`, and else as the model would have written it.
        """
        return self.decoder(mix(self.decoder, self.output, tokens, None, lengths, truth=truth), None, lengths)

    @property
    def follows(self) -> bool:
        """Whether it goes on from the state that earlier text left behind."""
        return isinstance(self.decoder, RecurrentDecoder)

    def follow(self, tokens: Tensor, state: State = None) -> tuple[Tensor, State]:
        """tokens (B, T) that go on where a state was left -> hidden (B, T, D) and the state after them."""
        assert isinstance(self.decoder, RecurrentDecoder)
        return self.decoder.follow(tokens, state)
