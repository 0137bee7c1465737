"""Scheduled sampling: how often the decoder reads the true token and how often its own, by update.

i is the number of the update, counted from 1, and p(i) the probability of the true token.

    constant           p
    linear             max(ε, 1 - i / k)
    exponential        k^i                     k < 1
    inverse_sigmoid    k / (k + exp(i / k))    k ≥ 1
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Protocol, runtime_checkable

from pydantic import Field, PlainSerializer, PlainValidator, ValidationError
from torch import nn

from weft import limits
from weft.errors import ConfigError, did_you_mean
from weft.settings import Settings, explain
from weft.tasks import Loss


class Forcing(Protocol):
    """The probability of the true token at an update."""

    @property
    def kind(self) -> str: ...

    def __call__(self, step: int) -> float: ...


class ConstantForcing(Settings):
    """p at every update; 1 is teacher forcing."""

    kind: Literal["constant"] = "constant"
    p: float = Field(1.0, ge=0.0, le=1.0)
    """Probability of the true token."""

    def __call__(self, step: int) -> float:
        return self.p


class LinearForcing(Settings):
    """Falls along a straight line."""

    kind: Literal["linear"] = "linear"
    k: float = Field(gt=0.0, le=limits.COUNT)
    """Updates after which it would be zero."""
    epsilon: float = Field(0.0, ge=0.0, le=1.0)
    """The least probability of the true token."""

    def __call__(self, step: int) -> float:
        return max(self.epsilon, 1 - step / self.k)


class ExponentialForcing(Settings):
    """Falls by the same share at every update."""

    kind: Literal["exponential"] = "exponential"
    k: float = Field(gt=0.0, lt=1.0)
    """Factor of each update, such as 0.999."""

    def __call__(self, step: int) -> float:
        return math.pow(self.k, step)


class InverseSigmoidForcing(Settings):
    """Stays near one at first and falls to one half at about k · ln k updates."""

    kind: Literal["inverse_sigmoid"] = "inverse_sigmoid"
    k: float = Field(ge=1.0, le=limits.COUNT)
    """How slowly it falls."""

    def __call__(self, step: int) -> float:
        # Both sides are divided by exp(i / k), which overflows after some hundred times k.
        share = self.k * math.exp(-step / self.k)
        return share / (share + 1)


FORCINGS: Final[dict[str, type[Settings]]] = {
    "constant": ConstantForcing,
    "linear": LinearForcing,
    "exponential": ExponentialForcing,
    "inverse_sigmoid": InverseSigmoidForcing,
}
"""The tables that `train.teacher_forcing` accepts, by `kind`."""


def read_forcing(value: Any) -> float | Settings:
    """Validate a number, or a table of a kind and its settings; a constant becomes a number."""
    if type(value) in (int, float):
        value = {"p": float(value)}
    if isinstance(value, Settings):
        value = value.model_dump()
    if not isinstance(value, Mapping):
        raise ValueError(f'{value!r} is neither a number nor a table such as {{ kind = "linear", k = 1000.0 }}')
    kind = value.get("kind", "constant")
    if kind not in FORCINGS:
        where = f'teacher_forcing.kind = "{kind}"'
        raise ConfigError("is not one of " + ", ".join(FORCINGS), where=where, cure=did_you_mean(str(kind), FORCINGS))
    arm = FORCINGS[kind]
    try:
        found = arm.model_validate(dict(value))
    except ValidationError as error:
        path = ["teacher_forcing", *(str(part) for part in error.errors()[0]["loc"])]
        raise explain(error, path, arm.model_fields) from None
    return found.p if isinstance(found, ConstantForcing) else found


def _write_forcing(value: float | Settings) -> Any:
    return value.model_dump() if isinstance(value, Settings) else value


ForcingSetting = Annotated[float | Forcing, PlainValidator(read_forcing), PlainSerializer(_write_forcing)]
"""A probability, or the table of a schedule."""


@runtime_checkable
class Forced(Protocol):
    """A task whose model writes text, and can read its own tokens in place of the true ones."""

    name: str

    def forced_loss(self, model: nn.Module, batch: Any, *, truth: float, label_smoothing: float = 0.0) -> Loss: ...


class ScheduledSampling:
    """A task whose decoder reads the true token with a probability that depends on the update."""

    def __init__(self, task: Any, forcing: Forcing) -> None:
        if not isinstance(task, Forced):
            raise ConfigError(
                f"the model of {task.name} writes no tokens that it could read",
                where=f'train.teacher_forcing = {{ kind = "{forcing.kind}" }}',
                cure="remove it",
            )
        self.task, self.forcing, self.truth = task, forcing, forcing(1)

    def begin(self, number: int) -> None:
        self.truth = self.forcing(number)

    def loss(self, model: nn.Module, batch: Any, *, label_smoothing: float = 0.0) -> Loss:
        return self.task.forced_loss(model, batch, truth=self.truth, label_smoothing=label_smoothing)
