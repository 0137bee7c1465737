"""The settings of forecasters: those of the network over the past, and those that all of them have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, Literal, Protocol

from pydantic import Field, field_validator
from torch import Tensor

from weft.models.convolutional import ConvolutionalDecoder, ConvolutionalStackConfig
from weft.models.heads import build_input
from weft.models.memory import Decoder, PartSettings
from weft.models.pretrained import EmbeddingSetting
from weft.models.recurrent import RecurrentConfig, RecurrentDecoder
from weft.models.transformer import TransformerDecoder
from weft.models.transformer_settings import TransformerConfig
from weft.nn.positions import BOUNDED
from weft.settings import Length, Settings, Size, Unread


class ForecasterSettings(Settings):
    """The settings of a forecaster beside those of its network."""

    output: Literal["quantile", "point", "student_t"] = "quantile"
    """The form of a forecast for each step: quantiles, one number, or a Student-t distribution."""
    quantiles: list[Annotated[float, Field(gt=0.0, lt=1.0)]] = Field(
        default_factory=lambda: [0.1, 0.5, 0.9], min_length=1, max_length=99
    )
    """The levels of the quantiles of a forecast, in rising order, with 0.5."""
    multistep: Literal["direct", "recursive"] = "direct"
    """direct forecasts all steps at once; recursive reads each forecast to make the next."""
    context: Length = 128
    """The last steps of the history that the network reads; simple forecasts read all of it."""
    series_size: Size = 8
    """Size of the learned vector of each series, where there are several, and of each category of a static text."""

    @field_validator("quantiles")
    @classmethod
    def _rising(cls, levels: list[float]) -> list[float]:
        if levels != sorted(set(levels)) or 0.5 not in levels:
            raise ValueError(f"quantiles = {levels} must rise and contain 0.5")
        return levels


class NetworkForecasterSettings(ForecasterSettings):
    """The settings of a forecaster with a network over time."""

    linear: bool = True
    """Add a linear map of the steps that the network reads."""


class RecurrentForecasterConfig(NetworkForecasterSettings, RecurrentConfig):
    """Recurrent layers over the past."""

    def build_decoder(self, features: int) -> Decoder:
        return RecurrentDecoder(self, _projection(self.vectors, features))


class TransformerForecasterConfig(NetworkForecasterSettings, TransformerConfig):
    """A causal transformer over the past."""

    has_export: ClassVar[bool] = False
    counted: ClassVar[tuple[str, ...]] = BOUNDED

    def unread(self) -> Iterator[Unread]:
        yield from super().unread()
        yield Unread("embedding_scale", "scales nothing: steps have no token vectors", "remove it")

    def build_decoder(self, features: int) -> Decoder:
        return TransformerDecoder(self, _projection(self.vectors, features), memory_size=None)


class ConvolutionalForecasterConfig(NetworkForecasterSettings, ConvolutionalStackConfig):
    """Causal convolutions over the past."""

    def build_decoder(self, features: int) -> Decoder:
        return ConvolutionalDecoder(self, _projection(self.vectors, features))


class LinearForecasterConfig(ForecasterSettings, PartSettings):
    """No network over time: simple forecasts, a linear map of the past, and a layer over the last step."""

    kind: Literal["linear"] = "linear"
    dropout: float = Field(0.2, ge=0.0, lt=1.0)
    """Share of values dropped in training, before the output."""
    linear: ClassVar[bool] = True

    def build_decoder(self, features: int) -> Decoder:
        return LastStep(features)


class LastStep(Decoder):
    """The features of each step as they are, in the place of a network that remembers those before."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.output_size = features

    def forward(self, tokens: Tensor, memory: Any = None, lengths: Any = None) -> Tensor:
        """steps (B, T, F) -> the same."""
        return tokens


FORECASTERS: Final[dict[str, type[Settings]]] = {
    "rnn": RecurrentForecasterConfig,
    "transformer": TransformerForecasterConfig,
    "conv": ConvolutionalForecasterConfig,
    "linear": LinearForecasterConfig,
}
"""The settings of `[model]` for a forecaster, by their `kind`."""


def _projection(setting: EmbeddingSetting, features: int) -> Any:
    """The map of the features of a step, in the place of an embedding."""
    return build_input(setting, 0, features)


class ForecasterConfig(Protocol):
    """The settings that all forecasters have."""

    output: str
    quantiles: list[float]
    multistep: str
    context: int
    series_size: int
    dropout: float

    @property
    def linear(self) -> bool:
        """Whether a linear map of the steps that the network reads is added."""

    def build_decoder(self, features: int) -> Decoder:
        """The network over steps of so many features."""
