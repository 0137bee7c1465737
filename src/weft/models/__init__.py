"""Encoders, decoders, heads, and the models assembled from them."""

from weft.models.classifier import Classifier, ClassifierConfig
from weft.models.decoders import CONTEXTS, DecoderConfig
from weft.models.language import LanguageModel, LanguageModelConfig
from weft.models.memory import Memory
from weft.models.recurrent import EncoderConfig, RecurrentConfig, RecurrentEncoder, SourceConfig
from weft.models.stepper import Step, Stepper
from weft.models.tagger import Spelling, Tagger, TaggerConfig
from weft.models.translator import Translator, TranslatorConfig

__all__ = [
    "CONTEXTS",
    "Classifier",
    "ClassifierConfig",
    "DecoderConfig",
    "EncoderConfig",
    "LanguageModel",
    "LanguageModelConfig",
    "Memory",
    "RecurrentConfig",
    "RecurrentEncoder",
    "SourceConfig",
    "Spelling",
    "Step",
    "Stepper",
    "Tagger",
    "TaggerConfig",
    "Translator",
    "TranslatorConfig",
]
