"""The runner of exported folders; nothing here imports torch."""

from weft.export.onnx.runner.runner import Runner

__all__ = ["Runner"]
