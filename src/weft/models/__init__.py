"""Encoders, decoders, heads, and the models assembled from them."""

from weft.models.classifier import (
    CLASSIFIERS,
    Classifier,
    ClassifierSettings,
    RecurrentClassifierConfig,
    TransformerClassifierConfig,
)
from weft.models.convolutional import ConvolutionalConfig, ConvolutionalDecoder
from weft.models.decoders import CONTEXTS, RecurrentDecoderConfig
from weft.models.fitting import (
    GRADIENT_SETTINGS,
    UPDATE_SETTINGS,
    Fit,
    FitOptions,
    FitStep,
    FittedModel,
    FittedSettings,
)
from weft.models.language import LANGUAGE_MODELS, LanguageModel, build_language_model
from weft.models.linear import LinearClassifier, fit_linear
from weft.models.memory import Decoded, Decoder, DecoderSettings, Encoder, EncoderSettings, Memory
from weft.models.recurrent import (
    RecurrentConfig,
    RecurrentEncoder,
    RecurrentEncoderConfig,
    RecurrentLanguageConfig,
    RecurrentSourceConfig,
)
from weft.models.stepper import Step, Stepper
from weft.models.tagger import (
    TAGGERS,
    RecurrentTaggerConfig,
    Spelling,
    Tagger,
    TaggerSettings,
    TransformerTaggerConfig,
)
from weft.models.transformer import (
    TransformerDecoder,
    TransformerDecoderConfig,
    TransformerEncoder,
    TransformerEncoderConfig,
)
from weft.models.translator import DECODERS, ENCODERS, Translator, TranslatorConfig
from weft.models.vectors import VECTORS, VectorSettings, WordVectors

__all__ = [
    "CLASSIFIERS",
    "CONTEXTS",
    "DECODERS",
    "ENCODERS",
    "GRADIENT_SETTINGS",
    "LANGUAGE_MODELS",
    "TAGGERS",
    "UPDATE_SETTINGS",
    "VECTORS",
    "Classifier",
    "ClassifierSettings",
    "ConvolutionalConfig",
    "ConvolutionalDecoder",
    "Decoded",
    "Decoder",
    "DecoderSettings",
    "Encoder",
    "EncoderSettings",
    "Fit",
    "FitOptions",
    "FitStep",
    "FittedModel",
    "FittedSettings",
    "LanguageModel",
    "LinearClassifier",
    "Memory",
    "RecurrentClassifierConfig",
    "RecurrentConfig",
    "RecurrentDecoderConfig",
    "RecurrentEncoder",
    "RecurrentEncoderConfig",
    "RecurrentLanguageConfig",
    "RecurrentSourceConfig",
    "RecurrentTaggerConfig",
    "Spelling",
    "Step",
    "Stepper",
    "Tagger",
    "TaggerSettings",
    "TransformerClassifierConfig",
    "TransformerDecoder",
    "TransformerDecoderConfig",
    "TransformerEncoder",
    "TransformerEncoderConfig",
    "TransformerTaggerConfig",
    "Translator",
    "TranslatorConfig",
    "VectorSettings",
    "WordVectors",
    "build_language_model",
    "fit_linear",
]
