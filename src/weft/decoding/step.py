"""The contract with models, under the name that the search uses."""

from weft.models.stepper import Step, Stepper

__all__ = ["Step", "Stepper"]
