"""The loop, and what it needs: optimizer, schedule, precision, journal, the best model so far."""

from weft.training.ahead import ahead
from weft.training.best import Best
from weft.training.compilation import compile_model
from weft.training.config import TrainConfig
from weft.training.device import choose_device, keep_memory, precise, set_seed, set_threads
from weft.training.events import Ended, Event, Measuring, Started, Validated
from weft.training.interrupt import Interrupt
from weft.training.journal import Journal
from weft.training.loop import steps
from weft.training.optimizer import OPTIMIZERS, SCHEDULES, build_optimizer
from weft.training.step import Awaited, Numbers, Step

__all__ = [
    "OPTIMIZERS",
    "SCHEDULES",
    "Awaited",
    "Best",
    "Ended",
    "Event",
    "Interrupt",
    "Journal",
    "Measuring",
    "Numbers",
    "Started",
    "Step",
    "TrainConfig",
    "Validated",
    "ahead",
    "build_optimizer",
    "choose_device",
    "compile_model",
    "keep_memory",
    "precise",
    "set_seed",
    "set_threads",
    "steps",
]
