"""A captioner: an encoder that reads pictures, or feature vectors of them, and any decoder that attends to positions.

conv      x' = (x / 255 - mean) / scale,  states = ResidualNet(x') at each of its S positions
linear    states = norm(W f_s + b) for each given feature vector f_s

The last state, from which a recurrent decoder starts, is the mean of the states.
B batch, C channels, H height, W width, S positions, F features, D size of a state
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from weft.models.decoders import RecurrentDecoderConfig
from weft.models.encoder_decoder import EncoderDecoder
from weft.models.memory import DecoderSettings, Encoder, Memory, PartSettings
from weft.models.translator import DECODERS
from weft.nn import State, TimeDropout, length_mask
from weft.nn.vision import ResidualNet, flip_pictures, shift_pictures
from weft.settings import Layers, OneOf, Settings, Size, Unread

MAX_STAGES = 8
"""Stages of a residual network: after eight, the largest picture has a few positions left."""


class PictureSource(Protocol):
    """The facts of the training data that an encoder is built from: the mean and scale of each channel or feature."""

    @property
    def mean(self) -> tuple[float, ...]: ...

    @property
    def scale(self) -> tuple[float, ...]: ...


class PictureEncoder(Encoder):
    """An encoder whose input is not tokens."""

    def grid(self, side: int) -> tuple[int, int]:
        """The rows and columns of positions that the memory of a picture with such sides has."""
        raise NotImplementedError

    def final_like(self) -> State:
        return (torch.empty(1, self.output_size),)


class ConvolutionalPictureConfig(PartSettings):
    """A residual network of convolutions over pictures."""

    kind: Literal["conv"] = "conv"
    reads_features: ClassVar[bool] = False
    channels: Size | Annotated[list[Size], Field(min_length=1, max_length=MAX_STAGES)] = Field(
        default_factory=lambda: [32, 64]
    )
    """Channels of each stage, which halves the height and width of the picture; a number is one stage."""
    layers: Layers = 1
    """Residual blocks of each stage."""
    dropout: float = Field(0.1, ge=0.0, lt=1.0)
    """Share of values dropped in training, on the states."""
    shift: float = Field(0.05, ge=0.0, lt=1.0)
    """In training a picture is moved by up to this share of its side in each direction."""
    flip: bool = False
    """In training half of the pictures are mirrored; harmful where left and right, or letters, matter."""

    def build_encoder(self, source: PictureSource) -> ConvolutionalPictureEncoder:
        return ConvolutionalPictureEncoder(self, source)


class ConvolutionalPictureEncoder(PictureEncoder):
    """Pictures -> residual network -> a state for each position -> `Memory`."""

    def __init__(self, config: ConvolutionalPictureConfig, source: PictureSource) -> None:
        super().__init__()
        stages = [config.channels] if isinstance(config.channels, int) else config.channels
        self.net = ResidualNet(len(source.mean), stages, blocks=config.layers)
        self.dropout = TimeDropout(config.dropout)
        self.shift, self.flip = config.shift, config.flip
        self.output_size = self.net.output_size
        # Facts of the data, which are saved with the run.
        self.mean: Tensor
        self.scale: Tensor
        for name, numbers in (("mean", source.mean), ("scale", source.scale)):
            self.register_buffer(name, torch.tensor(numbers).view(-1, 1, 1), persistent=False)

    def grid(self, side: int) -> tuple[int, int]:
        return self.net.grid(side, side)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Memory:
        """pictures (B, H, W, C), bytes -> Memory of S positions, row by row."""
        pictures = (tokens.permute(0, 3, 1, 2).to(self.mean.dtype) / 255 - self.mean) / self.scale
        if self.training:
            pictures = shift_pictures(pictures, round(self.shift * min(pictures.shape[2:])))
            pictures = flip_pictures(pictures) if self.flip else pictures
        states = self.net(pictures).flatten(2).transpose(1, 2)
        counts = torch.full_like(lengths, states.size(1))
        return Memory(self.dropout(states), counts, (states.mean(1),))


class LinearFeaturesConfig(PartSettings):
    """A linear map of given feature vectors."""

    kind: Literal["linear"] = "linear"
    reads_features: ClassVar[bool] = True
    width: Size = 256
    """Size of the states."""
    dropout: float = Field(0.1, ge=0.0, lt=1.0)
    """Share of values dropped in training, on the states."""

    def build_encoder(self, source: PictureSource) -> LinearFeaturesEncoder:
        return LinearFeaturesEncoder(self, source)


class LinearFeaturesEncoder(PictureEncoder):
    """Feature vectors -> linear map -> layer norm -> `Memory`."""

    def __init__(self, config: LinearFeaturesConfig, source: PictureSource) -> None:
        super().__init__()
        self.map = nn.Linear(len(source.mean), config.width)
        self.norm = nn.LayerNorm(config.width)
        self.dropout = TimeDropout(config.dropout)
        self.output_size = config.width

    def forward(self, tokens: Tensor, lengths: Tensor) -> Memory:
        """features (B, S, F), lengths (B) -> Memory."""
        real = length_mask(lengths, tokens.size(1))[..., None]
        states = self.norm(self.map(tokens)) * real
        return Memory(self.dropout(states), lengths, (states.sum(1) / lengths[:, None],))


PICTURE_ENCODERS: Final[dict[str, type[Settings]]] = {
    "conv": ConvolutionalPictureConfig,
    "linear": LinearFeaturesConfig,
}
"""The settings of `[model.encoder]` of a captioner, by their `kind`."""


class PictureEncoderSettings(Protocol):
    """The settings of an encoder of pictures: a `PartSettings` with these."""

    reads_features: ClassVar[bool]
    """Whether it reads given feature vectors, and not pictures."""

    def build_encoder(self, source: PictureSource) -> PictureEncoder: ...


class CaptionerConfig(Settings):
    """An encoder that reads a picture and a decoder that writes its caption."""

    encoder: Annotated[PictureEncoderSettings, OneOf(PICTURE_ENCODERS)] = Field(
        default_factory=ConvolutionalPictureConfig
    )
    decoder: Annotated[DecoderSettings, OneOf(DECODERS)] = Field(default_factory=RecurrentDecoderConfig)

    def unread(self) -> Iterator[Unread]:
        for found in self.decoder.unread_without_export():
            yield found._replace(name=f"decoder.{found.name}")

    def build(self, source: PictureSource, target: int) -> Captioner:
        """`source` has the channels of pictures or the features; `target` is the size of the vocabulary."""
        return Captioner(self, source, target)


class Captioner(EncoderDecoder):
    """picture -> Memory -> hidden states of the caption -> logits."""

    encoder: PictureEncoder

    def __init__(self, config: CaptionerConfig, source: PictureSource, target: int) -> None:
        super().__init__(config.encoder.build_encoder(source), config.decoder, target)
