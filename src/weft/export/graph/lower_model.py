"""Whole models as programs, by their class. Each function's docstring says which graphs its program has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import nn

from weft.export.graph import lower_recurrent
from weft.export.graph.build import Builder
from weft.export.graph.graph import Graph, Program, StateField, Value
from weft.export.graph.lower_decoder import Decoded, DecoderGraph, decoder_graph
from weft.export.graph.lower_encoder import (
    Encoded,
    encode_picture,
    encode_tokens,
    encode_vectors,
    last_state,
)
from weft.export.graph.lower_forecaster import lower_forecaster
from weft.export.graph.lower_input import ACTIVATIONS, dense, embed, hidden_layers, norm, output
from weft.export.graph.making import RAGGED, Making, fields_of, read_state
from weft.export.graph.refusal import Lowerings, NoGraph, lowering_of
from weft.models import (
    Bag,
    Captioner,
    Classifier,
    LanguageModel,
    MaskedLanguageModel,
    NgramModel,
    PrefixTranslator,
    Tagger,
    Translator,
    WordVectors,
)
from weft.models.forecaster import Forecaster
from weft.models.hmm import HiddenMarkovModel
from weft.models.masked import MaskedOutput
from weft.models.speller import ConvolutionalSpeller, RecurrentSpeller
from weft.nn.pooling import AttentionPooling, FirstPooling, LastPooling, MaxPooling, MeanPooling


def _first_pooling(build: Builder, pooling: FirstPooling, states: Value) -> Value:
    return build.first(states)


def _last_pooling(build: Builder, pooling: LastPooling, states: Value) -> Value:
    return build.last(states)


def _mean_pooling(build: Builder, pooling: MeanPooling, states: Value) -> Value:
    return build.reduce("mean", states, 0)


def _max_pooling(build: Builder, pooling: MaxPooling, states: Value) -> Value:
    return build.reduce("max", states, 0)


def _attention_pooling(build: Builder, pooling: AttentionPooling, states: Value) -> Value:
    keys = build.unary("tanh", dense(build, pooling.to_key, states))
    queries, size = pooling.query.shape
    query = build.constant(pooling.query.detach()[:, None])
    keys, values = (build.reshape(x, (x.shape[0], 1, size)) for x in (keys, states))
    context, _ = build.attend(query, keys, values)
    return build.reshape(context, (queries * size,))


POOLINGS: Final[Lowerings] = {
    FirstPooling: _first_pooling,
    LastPooling: _last_pooling,
    MeanPooling: _mean_pooling,
    MaxPooling: _max_pooling,
    AttentionPooling: _attention_pooling,
}


def _sequence(build: Builder, features: int | None, name: str) -> Value:
    """The input of a model: the ids of tokens, or feature vectors of so many numbers."""
    return build.input("features", ("source", features)) if features else build.input(name, ("source",), "int")


def _states(making: Making, encoder: nn.Module) -> dict[str, Graph]:
    """The graph "states": tokens (source) -> states (source, D)."""
    build = making.begin("states")
    return {"states": build.graph(states=encode_tokens(build, encoder, _sequence(build, None, "tokens")).states)}


def _classifier(making: Making, model: Classifier) -> Program:
    """ "forward": tokens (source) or features (source, F) -> logits (C); "states" of tokens."""
    build = making.begin("forward")
    given = _sequence(build, model.features, "tokens")
    if model.pooling.kind == "last":
        pooled = last_state(build, model.encoder, given)
    else:
        states = encode_tokens(build, model.encoder, given).states
        pooled = lowering_of(POOLINGS, model.pooling.pool, "a pooling")(build, model.pooling.pool, states)
    graph = build.graph(logits=dense(build, model.scores, hidden_layers(build, model.head, pooled)))
    more = {} if model.features else _states(making, model.encoder)
    return Program({"forward": graph, **more}, ragged=RAGGED)


def _recurrent_speller(build: Builder, speller: RecurrentSpeller, letters: Value) -> Value:
    first = lower_recurrent.first_states(build, speller.rnn)
    _, states = lower_recurrent.run(build, speller.rnn, letters, first)
    h, _, back, _ = states[-1]
    return build.concat([h, back])


def _convolutional_speller(build: Builder, speller: ConvolutionalSpeller, letters: Value) -> Value:
    some = build.binary("gt", build.length(letters), build.whole(0))
    found = []
    for width, filters in zip(speller.widths, speller.filters, strict=True):
        assert isinstance(filters, nn.Linear)
        most = build.reduce("max", build.unary("tanh", dense(build, filters, build.windows(letters, 0, width - 1))), 0)
        found.append(build.where(some, most, build.number(-1.0)))
    return build.concat(found)


SPELLERS: Final[Lowerings] = {RecurrentSpeller: _recurrent_speller, ConvolutionalSpeller: _convolutional_speller}


def _tagger(making: Making, model: Tagger) -> Program:
    """ "spell": letters (letters) -> spelled (S), of one word; "forward": words (source) or features (source, F)[,
    spelled (source, S)] -> logits (source, L), in subwords tokens (source), places (words) -> logits (words, L).

    Constants of a CRF: crf_start (L), crf_transitions (L, L), crf_end (L), -inf where a tag may not stand.
    """
    graphs: dict[str, Graph] = {}
    build = making.begin("forward")
    if model.subwords:
        states = encode_tokens(build, model.encoder, _sequence(build, None, "tokens")).states
        states = build.gather(states, build.input("places", ("words",), "int"))
    else:
        vectors = embed(build, model.encoder.embedding, _sequence(build, model.features, "words"))
        if model.speller is not None:
            spelled = build.input("spelled", ("source", model.speller.output_size))
            vectors = build.concat([vectors, spelled])
            spell = making.begin("spell")
            letters = embed(spell, model.speller.embedding, spell.input("letters", ("letters",), "int"))
            found = lowering_of(SPELLERS, model.speller, "a speller")(spell, model.speller, letters)
            graphs["spell"] = spell.graph(spelled=found)
        states = encode_vectors(build, model.encoder, vectors).states
    graphs["forward"] = build.graph(logits=dense(build, model.scores, hidden_layers(build, model.head, states)))
    chain = {} if model.crf is None else model.crf.chain._asdict()
    constants = {f"crf_{name}": part.detach().cpu().numpy() for name, part in chain.items()}
    return Program(graphs, ragged=RAGGED, constants=constants)


def _masked_output(build: Builder, part: MaskedOutput, hidden: Value) -> Value:
    if part.transform is not None:
        made = build.unary(ACTIVATIONS[part.transform.activation], dense(build, part.transform.dense, hidden))
        hidden = norm(build, part.transform.norm, made)
    return output(build, part.scores, hidden)


def _masked(making: Making, model: MaskedLanguageModel) -> Program:
    """ "forward": tokens (source) -> logits (source, V); "states"."""
    build = making.begin("forward")
    states = encode_tokens(build, model.encoder, _sequence(build, None, "tokens")).states
    graph = build.graph(logits=_masked_output(build, model.output, states))
    return Program({"forward": graph, **_states(making, model.encoder)}, ragged=RAGGED)


def _language_model(making: Making, model: LanguageModel | PrefixTranslator) -> Program:
    """ "start": -> the state; "forward": tokens (time), state -> logits (time, V), state; "step": token (), state
    -> logits (V), state."""
    decoder, build = decoder_graph(model.decoder), making.begin("start")
    first = decoder.start(build, None)
    fields = fields_of(first, decoder.shared, decoder.growing())
    graphs = {"start": build.graph(**first)} | _writing(making, model, decoder, fields)
    return Program(graphs, fields, RAGGED)


def _writing(making: Making, model: Any, decoder: DecoderGraph, fields: tuple[StateField, ...]) -> dict[str, Graph]:
    """The graphs "step" and, where the decoder has a pass over many tokens, "forward"."""
    graphs = {}
    if decoder.reads:
        build = making.begin("forward")
        tokens = build.input("tokens", ("time",), "int")
        graphs["forward"] = _end(build, model, decoder.read(build, tokens, read_state(build, fields)))
    build = making.begin("step")
    token = build.input("token", (), "int")
    graphs["step"] = _end(build, model, decoder.step(build, token, read_state(build, fields)))
    return graphs


def _end(build: Builder, model: Any, found: Decoded) -> Graph:
    attention = {} if found.attention is None else {"attention": found.attention}
    after = {f"next_{name}": value for name, value in found.state.items()}
    return build.graph(logits=output(build, model.output, found.hidden), **attention, **after)


def _pairs(making: Making, model: Translator | Captioner, encode: Callable[[Builder], Encoded]) -> Program:
    decoder, build = decoder_graph(model.decoder), making.begin("encode")
    first = decoder.start(build, encode(build))
    fields = fields_of(first, decoder.shared, decoder.growing())
    graphs = {"encode": build.graph(**first)} | _writing(making, model, decoder, fields)
    return Program(graphs, fields, RAGGED)


def _translator(making: Making, model: Translator) -> Program:
    """ "encode": tokens (source) -> the state; "step": token (), state -> logits (V)[, attention (source)], state;
    "forward", unless attention is inside the recurrence: tokens (time), state -> logits (time, V), state; "states"."""
    program = _pairs(making, model, lambda build: encode_tokens(build, model.encoder, _sequence(build, None, "tokens")))
    graphs = {**program.graphs, **_states(making, model.encoder)}
    return Program(graphs, program.state, program.ragged)


def _captioner(making: Making, model: Captioner) -> Program:
    """ "encode": picture (H, W, C), bytes as floats, or features (source, F) -> the state; else as a translator."""

    def encode(build: Builder) -> Encoded:
        map_ = getattr(model.encoder, "map", None)
        if isinstance(map_, nn.Linear):
            return encode_picture(build, model.encoder, build.input("features", ("source", map_.in_features)))
        assert making.picture is not None, "the size of pictures is a fact of the data"
        side, channels = making.picture
        return encode_picture(build, model.encoder, build.input("picture", (side, side, channels)))

    return _pairs(making, model, encode)


def _vectors(making: Making, model: WordVectors) -> Program:
    """ "forward": tokens (source) -> vectors (source, D). Constants: counts (V), the occurrences of each word, and of a
    model with character n-grams buckets (N, D), whose mean is the vector of a word that is not in the vocabulary."""
    build = making.begin("forward")
    with torch.no_grad():
        table = model.table()
    vectors = build.embed(build.input("tokens", ("source",), "int"), table)
    constants = {"counts": model.counts.cpu().numpy()}
    if model.config.ngrams:
        constants["buckets"] = model.inputs.detach()[model.size :].cpu().numpy()
    return Program({"forward": build.graph(vectors=vectors)}, ragged=RAGGED, constants=constants)


MODELS: Final[dict[type[nn.Module], Callable[..., Program]]] = {
    Classifier: _classifier,
    Tagger: _tagger,
    MaskedLanguageModel: _masked,
    LanguageModel: _language_model,
    PrefixTranslator: _language_model,
    Translator: _translator,
    Captioner: _captioner,
    Forecaster: lower_forecaster,
    WordVectors: _vectors,
}

COUNTED: Final[dict[type[nn.Module], str]] = {
    Bag: "a bag of words",
    NgramModel: "an n-gram model",
    HiddenMarkovModel: "a hidden Markov model",
}
"""Models without a network."""


def program_of_model(model: nn.Module, *, picture: tuple[int, int] | None = None) -> Program:
    """The program of a model; `picture` are the side and channels of the pictures that a captioner reads."""
    if type(model) in COUNTED:
        raise NoGraph(f"{COUNTED[type(model)]} is no network of operations", cure="--to c also writes models of counts")
    training = model.training
    model.eval()  # a cell may do something else in training
    try:
        return lowering_of(MODELS, model, "a model")(Making.of(model, picture=picture), model)  # type: ignore[no-any-return]
    finally:
        model.train(training)
