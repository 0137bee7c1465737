"""The training loop and its parts: optimizer, schedule, precision, journal, the best model so far."""

from weft.training.ahead import ahead
from weft.training.best import Average, Best
from weft.training.compilation import compile_model
from weft.training.config import TrainConfig
from weft.training.device import choose_device, device_type, keep_memory, precise, set_seed, set_threads
from weft.training.events import Awaited, Ended, Event, Measuring, Saving, Started, Update, Validated
from weft.training.forcing import FORCINGS, ScheduledSampling
from weft.training.gpu_batches import fill_gpu
from weft.training.interrupt import Interrupt
from weft.training.journal import Journal
from weft.training.layers import LayerRates
from weft.training.loop import steps
from weft.training.numbers import Numbers
from weft.training.objective import build_objective
from weft.training.optimizer import OPTIMIZERS, build_optimizer, freeze
from weft.training.scaling import Scaling
from weft.training.schedule import SCHEDULES, Plateau, Schedule
from weft.training.streams import Carry, Streams
from weft.training.update import LoopOptions

__all__ = [
    "FORCINGS",
    "OPTIMIZERS",
    "SCHEDULES",
    "Average",
    "Awaited",
    "Best",
    "Carry",
    "Ended",
    "Event",
    "Interrupt",
    "Journal",
    "LayerRates",
    "LoopOptions",
    "Measuring",
    "Numbers",
    "Plateau",
    "Saving",
    "Scaling",
    "Schedule",
    "ScheduledSampling",
    "Started",
    "Streams",
    "TrainConfig",
    "Update",
    "Validated",
    "ahead",
    "build_objective",
    "build_optimizer",
    "choose_device",
    "compile_model",
    "device_type",
    "fill_gpu",
    "freeze",
    "keep_memory",
    "precise",
    "set_seed",
    "set_threads",
    "steps",
]
