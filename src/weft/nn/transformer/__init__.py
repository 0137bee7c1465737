"""Transformers: the parts of a block, the block, and stacks of them."""

from weft.nn.transformer.block import DecoderBlock, EncoderBlock
from weft.nn.transformer.feedforward import Activation, FeedForward
from weft.nn.transformer.norm import NORMS, PostNorm, PreNorm, ReZero
from weft.nn.transformer.stack import DecoderStack, DecoderState, EncoderStack, Lengths, padding_mask

__all__ = [
    "NORMS",
    "Activation",
    "DecoderBlock",
    "DecoderStack",
    "DecoderState",
    "EncoderBlock",
    "EncoderStack",
    "FeedForward",
    "Lengths",
    "PostNorm",
    "PreNorm",
    "ReZero",
    "padding_mask",
]
