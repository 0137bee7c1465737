"""A language model: P(w_t | w_1 … w_{t-1}) = softmax(W h_{t-1} + b), with h from a decoder without an encoder."""

from __future__ import annotations

from typing import Final, TypeAlias

from torch import Tensor

from weft.models.convolutional import ConvolutionalConfig
from weft.models.embedding import Output, build_embedding
from weft.models.forcing import mix
from weft.models.memory import Decoder, DecoderSettings
from weft.models.ngram import NgramConfig, NgramModel
from weft.models.recurrent import RecurrentLanguageConfig
from weft.models.stepper import Writer
from weft.models.transformer import TransformerDecoderConfig
from weft.nn import Packing, State
from weft.settings import Settings

LANGUAGE_MODELS: Final[dict[str, type[Settings]]] = {
    "rnn": RecurrentLanguageConfig,
    "conv": ConvolutionalConfig,
    "transformer": TransformerDecoderConfig,
    "ngram": NgramConfig,
}
"""The settings of `[model]` for a language model, by their `kind`."""


def build_language_model(config: DecoderSettings | NgramConfig, vocabulary: int) -> AnyLanguageModel:
    """A model over a vocabulary of that size, by settings from `LANGUAGE_MODELS`."""
    if isinstance(config, NgramConfig):
        return NgramModel(config, vocabulary)
    embedding = build_embedding(config.vectors, vocabulary, scaled=config.scales_vectors)
    decoder = config.build_decoder(embedding, None)
    return LanguageModel(decoder, vocabulary, tie=config.tie)


class LanguageModel(Writer):
    """Tokens -> hidden states -> logits of the next token; `start` and `step` do the same one token at a time.

    `forward` returns the hidden states. The loss maps them to logits by `output`, only where a token is expected.
    """

    def __init__(self, decoder: Decoder, vocabulary: int, *, tie: bool) -> None:
        super().__init__()
        self.decoder = decoder
        self.output = Output(decoder.output_size, vocabulary, tied=decoder.embedding if tie else None)

    @property
    def packs(self) -> bool:
        """Whether it takes packed batches."""
        return self.decoder.packs

    def forward(self, tokens: Tensor, lengths: Tensor | Packing | None = None, *, truth: float = 1.0) -> Tensor:
        """tokens (B, T) -> hidden (B, T, D); or packed, tokens (N) -> (N, D).

        Each token is read as it is with probability `truth`, and else replaced by the model's own prediction.
        """
        mixed = mix(self.decoder, self.output, tokens, None, lengths, truth=truth)
        return self.decoder(mixed, None, lengths)  # type: ignore[no-any-return]

    @property
    def follows(self) -> bool:
        """Whether `follow` continues from the state in which an earlier batch ended."""
        return self.decoder.carries_state

    def follow(self, tokens: Tensor, state: State = None, resets: Tensor | None = None) -> tuple[Tensor, State]:
        """tokens (B, T) that continue where a state was left -> hidden (B, T, D) and the state after them. Where resets
        (B, T) is True another text begins, which sees nothing of the one before it."""
        return self.decoder.follow(tokens, state, resets)


AnyLanguageModel: TypeAlias = LanguageModel | NgramModel
"""A network, or a model of counts, which has contexts in the place of hidden states."""
