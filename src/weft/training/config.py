"""The `[train]` section."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, field_validator, model_validator

from weft import limits
from weft.settings import Count, CountFromZero, Length, Number, Positive, Settings, Unread, known
from weft.training.forcing import ForcingSetting
from weft.training.optimizer import OPTIMIZERS
from weft.training.schedule import SCHEDULES


class TrainConfig(Settings):
    """How a model is trained. Some defaults depend on the task and on the size of the data; the task then sets them."""

    epochs: Count | None = None
    """Passes over the training data; give this or `steps`."""
    steps: Count | None = None
    """Updates in all; give this or `epochs`."""
    seconds: Positive | None = None
    """Time of training after which it stops, even before all updates are done; the last model is still validated."""
    batch_tokens: int = Field(4096, ge=1, le=limits.BATCH_TOKENS)
    """Tokens in a batch, padding counted."""
    accumulate: int = Field(1, ge=1, le=limits.ACCUMULATE)
    """Batches that make one update, as one batch of them all would."""
    optimizer: str = "adamw"
    """adam, adamw, radam or sgd."""
    rate: Positive = 2e-3
    """The peak learning rate."""
    beta2: float = Field(0.999, ge=0.0, lt=1.0)
    """How slowly Adam forgets the size of past gradients; 0.98 suits transformers."""
    momentum: float = Field(0.9, ge=0.0, lt=1.0)
    """SGD: the share of the last update that is added to the next; 0 is plain gradient descent."""
    schedule: str = "cosine"
    """The rate after the warm-up: constant, cosine, linear, inverse_sqrt or plateau."""
    plateau_factor: float = Field(0.5, gt=0.0, lt=1.0)
    """Factor by which schedule = "plateau" lowers the rate when validation brings no progress."""
    plateau_patience: Count = 2
    """Validations without a better score or a lower loss after which "plateau" lowers the rate."""
    warmup: CountFromZero | None = None
    """Updates over which the rate rises to its peak; by default 100, in short runs a quarter of all."""
    weight_decay: Number = 0.01
    """How strongly matrices are pulled towards zero."""
    clip: Number = 1.0
    """Largest norm of the gradient; 0 turns clipping off."""
    clip_value: Number = 0.0
    """Largest absolute value of any number of the gradient; 0 sets no bound."""
    skip_bad: CountFromZero = 10
    """Updates in a row that may be skipped because loss or gradient is not finite; 0 ends the run at the first."""
    start: str | dict[Literal["encoder", "decoder"], str] | None = None
    """A run whose weights the model starts from, or for a translator { encoder = RUN, decoder = RUN }."""
    new_rate: Positive | None = None
    """The peak rate of parameters that are new where a model starts from a run; by default that of all."""
    rate_decay: float = Field(1.0, gt=0.0, le=1.0)
    """The rate of a layer as a share of that of the layer above it; 1 is one rate for all layers."""
    unfreeze_every: Count | None = None
    """Updates after which one more layer begins to learn, from the top layer down; by default all learn at once."""
    freeze: list[str] = Field(default_factory=list)
    """Parameters that do not learn, by patterns of their names, such as "encoder.*" or "*.embedding.weight"."""
    label_smoothing: float = Field(0.0, ge=0.0, lt=1.0)
    """Share of the target's probability given to all other outcomes."""
    class_weights: Literal["balanced"] | dict[str, Positive] | None = None
    """How much errors weigh by label, for classify: "balanced", or a table such as { spam = 5.0 }; others weigh 1."""
    teacher_forcing: ForcingSetting = 1.0
    """How often a decoder reads the true token: a probability, or a table such as { kind = "linear", k = 1000.0 }."""
    truncate: Length | None = None
    """Steps of truncated backpropagation through time, for a recurrent language model."""
    evaluate_every: Count | None = None
    """Updates between two validations; by default an epoch, 1000 at most, and a 60th of all where epochs are short."""
    metric: str | None = None
    """The validation metric that picks the best model; by default the task's own, for translate by its targets."""
    patience: Count = 8
    """Validations without a better score or a lower loss after which training stops."""
    average: int = Field(0, ge=0, le=limits.COPIES)
    """Validations at the end whose weights are averaged; the mean is kept if better than the best. 0 keeps none."""
    checkpoint_every: Count | None = None
    """Updates between two checkpoints, from which a run can be resumed; by default there is one at every validation."""
    precision: Literal["auto", "float32", "bf16", "fp16"] = "auto"
    """auto is bf16 on CUDA and float32 elsewhere; fp16, with scaling of the loss, is for CUDA."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps; auto takes CUDA where there is one."""
    threads: int = Field(0, ge=0, le=limits.THREADS)
    """Processor threads; 0 uses all cores."""
    compile: Literal["auto"] | bool = "auto"
    """Compile the blocks of a transformer: true, false, or auto, which does on CUDA for 500 updates or more."""

    @field_validator("optimizer")
    @classmethod
    def _known_optimizer(cls, name: str) -> str:
        return known(name, OPTIMIZERS)

    @field_validator("schedule")
    @classmethod
    def _known_schedule(cls, name: str) -> str:
        return known(name, SCHEDULES)

    @field_validator("compile", mode="before")
    @classmethod
    def _auto_or_not(cls, value: object) -> object:
        if value not in ("auto", True, False):
            raise ValueError(f'compile = "{value}" is not one of auto, true, false')
        return value

    @model_validator(mode="after")
    def _one_way_of_teaching(self) -> TrainConfig:
        if self.truncate is not None and self.teacher_forcing != 1.0:
            raise ValueError(
                f"truncate = {self.truncate} reads the text as it is, teacher_forcing would not; remove one of the two"
            )
        return self

    def unread(self) -> Iterator[Unread]:
        if self.optimizer == "sgd":
            yield Unread("beta2", 'does nothing with optimizer = "sgd"', "remove one of the two")
        else:
            yield Unread("momentum", f'does nothing with optimizer = "{self.optimizer}"', 'use "sgd", or remove it')
        if self.schedule != "plateau":
            for name in ("plateau_factor", "plateau_patience"):
                why = f'does nothing with schedule = "{self.schedule}"'
                yield Unread(name, why, 'remove it, or use schedule = "plateau"')
        if self.start is None:
            yield Unread("new_rate", "nothing is new without train.start", "set train.start, or remove it")
        if self.average == 1:
            yield Unread("average", "averages nothing: the mean of one model is that model", "raise it, or remove it")

    @model_validator(mode="after")
    def _epochs_or_steps(self) -> TrainConfig:
        if self.epochs is not None and self.steps is not None:
            raise ValueError(f"epochs = {self.epochs} and steps = {self.steps} are both given; keep one of them")
        return self
