"""Encoders, decoders, heads, and the models assembled from them."""

from weft.models.bag import (
    Bag,
    BagBaseline,
    BagConfig,
    BagRegressorConfig,
    BagSettings,
    bag_defaults,
    fit_bag,
    fit_many_bag,
    fit_number_bag,
)
from weft.models.captioner import PICTURE_ENCODERS, Captioner, CaptionerConfig
from weft.models.classifier import (
    CLASSIFIERS,
    REGRESSORS,
    Classifier,
    RecurrentClassifierConfig,
    ScoringSettings,
    TransformerClassifierConfig,
)
from weft.models.convolutional import ConvolutionalConfig, ConvolutionalDecoder
from weft.models.decoders import CONTEXTS, RecurrentDecoderConfig
from weft.models.encoder_decoder import EncoderDecoder
from weft.models.fitting import (
    GRADIENT_SETTINGS,
    UPDATE_SETTINGS,
    Fit,
    FitOptions,
    FitStep,
    FittedModel,
    FittedSettings,
)
from weft.models.headed import HeadedKinds
from weft.models.heads import SequenceInputs, decide, decide_each
from weft.models.language import LANGUAGE_MODELS, AnyLanguageModel, LanguageModel, build_language_model
from weft.models.masked import MASKED_MODELS, MaskedLanguageModel, MaskedModelSettings
from weft.models.memory import (
    Decoded,
    Decoder,
    DecoderSettings,
    Encoder,
    EncoderSettings,
    Memory,
    PartSettings,
    stacks_of,
)
from weft.models.ngram import NgramConfig, NgramModel
from weft.models.pair import PairModel, SourceRead
from weft.models.prefix import PREFIX_DECODERS, PrefixConfig, PrefixTranslator
from weft.models.recurrent import (
    RecurrentConfig,
    RecurrentEncoder,
    RecurrentEncoderConfig,
    RecurrentLanguageConfig,
    RecurrentSourceConfig,
)
from weft.models.speller import SPELLERS, Spelling
from weft.models.stepper import Step, Stepper
from weft.models.tagger import (
    RecurrentTaggerConfig,
    SpelledSettings,
    Tagger,
    TaggerSettings,
    TaggerSizes,
    TaggingModel,
    TransformerTaggerConfig,
)
from weft.models.taggers import TAGGERS
from weft.models.tagging import TagDistribution
from weft.models.transformer import (
    TransformerDecoder,
    TransformerDecoderConfig,
    TransformerEncoder,
    TransformerEncoderConfig,
)
from weft.models.translator import DECODERS, ENCODERS, TRANSLATORS, PairSettings, Translator, TranslatorConfig
from weft.models.vectors import VECTORS, VectorSettings, WordVectors

__all__ = [
    "CLASSIFIERS",
    "CONTEXTS",
    "DECODERS",
    "ENCODERS",
    "GRADIENT_SETTINGS",
    "LANGUAGE_MODELS",
    "MASKED_MODELS",
    "PICTURE_ENCODERS",
    "PREFIX_DECODERS",
    "REGRESSORS",
    "SPELLERS",
    "TAGGERS",
    "TRANSLATORS",
    "UPDATE_SETTINGS",
    "VECTORS",
    "AnyLanguageModel",
    "Bag",
    "BagBaseline",
    "BagConfig",
    "BagRegressorConfig",
    "BagSettings",
    "Captioner",
    "CaptionerConfig",
    "Classifier",
    "ConvolutionalConfig",
    "ConvolutionalDecoder",
    "Decoded",
    "Decoder",
    "DecoderSettings",
    "Encoder",
    "EncoderDecoder",
    "EncoderSettings",
    "Fit",
    "FitOptions",
    "FitStep",
    "FittedModel",
    "FittedSettings",
    "HeadedKinds",
    "LanguageModel",
    "MaskedLanguageModel",
    "MaskedModelSettings",
    "Memory",
    "NgramConfig",
    "NgramModel",
    "PairModel",
    "PairSettings",
    "PartSettings",
    "PrefixConfig",
    "PrefixTranslator",
    "RecurrentClassifierConfig",
    "RecurrentConfig",
    "RecurrentDecoderConfig",
    "RecurrentEncoder",
    "RecurrentEncoderConfig",
    "RecurrentLanguageConfig",
    "RecurrentSourceConfig",
    "RecurrentTaggerConfig",
    "ScoringSettings",
    "SequenceInputs",
    "SourceRead",
    "SpelledSettings",
    "Spelling",
    "Step",
    "Stepper",
    "TagDistribution",
    "Tagger",
    "TaggerSettings",
    "TaggerSizes",
    "TaggingModel",
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
    "bag_defaults",
    "build_language_model",
    "decide",
    "decide_each",
    "fit_bag",
    "fit_many_bag",
    "fit_number_bag",
    "stacks_of",
]
