"""The recurrence engine: trace a cell's step once, plan it, and run the plan at the speed of the machine.

trace    the step as a graph of operations
plan     split it (before, body, after), put the body in stages, derive the backward step, lay out the buffers
run      on generated C (CPU), on generated Triton kernels (CUDA), or in plain torch
"""

from weft.nn.recurrent.engine.backends import BACKENDS
from weft.nn.recurrent.engine.enrolled import enroll
from weft.nn.recurrent.engine.explain import explain
from weft.nn.recurrent.engine.known import dtype_of
from weft.nn.recurrent.engine.run import BackendChoice, choose, choose_enrolled, is_capturable, is_linear, run

__all__ = [
    "BACKENDS", "BackendChoice", "choose", "choose_enrolled", "dtype_of", "enroll", "explain", "is_capturable",
    "is_linear", "run",
]  # fmt: skip
