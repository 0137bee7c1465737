"""Decoders as graphs: the state before the first token, many tokens at once, and one token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

from torch import nn

from weft.export.graph import lower_recurrent, lower_transformer
from weft.export.graph.build import Builder
from weft.export.graph.graph import StateField, Value
from weft.export.graph.lower_attention import keys_of, look_at, read_out
from weft.export.graph.lower_encoder import Encoded
from weft.export.graph.lower_input import dense, embed, place
from weft.export.graph.lower_transformer import KeysValues
from weft.export.graph.refusal import lowering_of
from weft.models.convolutional import ConvolutionalDecoder
from weft.models.decoders import AfterDecoder, InsideDecoder, PlainDecoder
from weft.models.forecaster_settings import LastStep
from weft.models.recurrent import RecurrentDecoder
from weft.models.transformer import TransformerDecoder
from weft.nn import DecoderBlock, DecoderStack, EncoderBlock
from weft.nn.conv import GatedConvolution

State = dict[str, Value]
"""The values of the fields of a state, by their names."""


class Decoded(NamedTuple):
    """Hidden (T, D), or (D) of one token; the next values of the fields that change; attention to the source (S) of one
    token, where there is one."""

    hidden: Value
    state: State
    attention: Value | None = None


class DecoderGraph:
    """The parts of the graphs of a decoder. A new decoder is a subclass and a line in `DECODERS`."""

    reads: ClassVar[bool] = True
    """Whether `read` is written; a decoder whose next query needs the state of the step has no pass over all tokens."""

    def __init__(self, decoder: Any) -> None:
        self.decoder = decoder

    def start(self, build: Builder, source: Encoded | None) -> State:
        """The fields before the first token, but those that grow."""
        return {}

    def growing(self) -> tuple[StateField, ...]:
        """The fields that are empty before the first token."""
        return ()

    @property
    def shared(self) -> frozenset[str]:
        """The fields that all hypotheses of a sentence have in common."""
        return frozenset()

    def read(self, build: Builder, tokens: Value, state: State) -> Decoded:
        """tokens (T), or the features of steps (T, F), after what the state has read."""
        raise NotImplementedError

    def step(self, build: Builder, token: Value, state: State) -> Decoded:
        """One token (), by default as a text of one."""
        found = self.read(build, build.reshape(token, (1, *token.shape)), state)
        return Decoded(build.reshape(found.hidden, found.hidden.shape[1:]), found.state, found.attention)


class RecurrentGraph(DecoderGraph):
    """A recurrent network without a source; also the part that all recurrent decoders share."""

    decoder: Any

    def start(self, build: Builder, source: Encoded | None) -> State:
        return self._named(lower_recurrent.first_states(build, self.decoder.rnn))

    def read(self, build: Builder, tokens: Value, state: State) -> Decoded:
        vectors = embed(build, self.decoder.embedding, tokens)
        hidden, after = lower_recurrent.run(build, self.decoder.rnn, vectors, self._states(build, state))
        return Decoded(hidden, self._named(after))

    def step(self, build: Builder, token: Value, state: State) -> Decoded:
        vector = embed(build, self.decoder.embedding, token)
        hidden, after = lower_recurrent.step(build, self.decoder.rnn, vector, self._states(build, state))
        return Decoded(hidden, self._named(after))

    def _names(self) -> list[str]:
        return lower_recurrent.state_names(self.decoder.rnn)

    def _named(self, states: lower_recurrent.States) -> State:
        return dict(zip(self._names(), [value for layer in states for value in layer], strict=True))

    def _states(self, build: Builder, state: State) -> lower_recurrent.States:
        rnn = self.decoder.rnn
        if not state:
            return lower_recurrent.first_states(build, rnn)
        return lower_recurrent.by_layer(rnn, [state[name] for name in self._names()])


class _Bridged(RecurrentGraph):
    """A recurrent decoder that starts from the last state of an encoder."""

    def start(self, build: Builder, source: Encoded | None) -> State:
        assert source is not None
        bridge, rnn = self.decoder.bridge, self.decoder.rnn
        if bridge.kind == "copy":
            return dict(zip(self._names(), [value for layer in source.final for value in layer], strict=True))
        if bridge.kind == "none":
            return self._named(lower_recurrent.first_states(build, rnn))
        top = build.concat(source.final[-1])
        parts = [build.unary("tanh", dense(build, linear, top)) for linear in bridge.maps]
        return dict(zip(self._names(), lower_recurrent.given_states(build, rnn, parts), strict=True))


class PlainGraph(_Bridged):
    """The source is the first state and, with `every`, its summary an input of every step."""

    decoder: PlainDecoder

    @property
    def shared(self) -> frozenset[str]:
        return frozenset({"summary"} if self.decoder.every else ())

    def start(self, build: Builder, source: Encoded | None) -> State:
        assert source is not None
        found = super().start(build, source)
        return found | {"summary": build.concat(source.final[-1])} if self.decoder.every else found

    def read(self, build: Builder, tokens: Value, state: State) -> Decoded:
        x = embed(build, self.decoder.embedding, tokens)
        summary = [build.spread(state["summary"], tokens)] if self.decoder.every else []
        x = build.concat([x, *summary])
        hidden, after = lower_recurrent.run(build, self.decoder.rnn, x, self._states(build, state))
        return Decoded(build.concat([hidden, *summary]), self._named(after))

    def step(self, build: Builder, token: Value, state: State) -> Decoded:
        summary = [state["summary"]] if self.decoder.every else []
        x = build.concat([embed(build, self.decoder.embedding, token), *summary])
        hidden, after = lower_recurrent.step(build, self.decoder.rnn, x, self._states(build, state))
        return Decoded(build.concat([hidden, *summary]), self._named(after))


class _Attending(_Bridged):
    """A recurrent decoder with attention to the source."""

    @property
    def shared(self) -> frozenset[str]:
        return frozenset({"source_keys", "source_states"})

    def start(self, build: Builder, source: Encoded | None) -> State:
        assert source is not None
        found = super().start(build, source)
        keys = keys_of(build, self.decoder.look, source.states)
        return found | ({} if keys is None else {"source_keys": keys}) | {"source_states": source.states}

    def _look(self, build: Builder, query: Value, state: State) -> tuple[Value, Value]:
        """query (Q) -> context (D), attention (S)."""
        context, weights = look_at(build, self.decoder.look, build.reshape(query, (1, *query.shape)), state)
        return build.reshape(context, context.shape[1:]), build.reshape(weights, weights.shape[2:])


class AfterGraph(_Attending):
    """Attention beside the recurrence."""

    decoder: AfterDecoder

    def read(self, build: Builder, tokens: Value, state: State) -> Decoded:
        found = super().read(build, tokens, state)
        context, _ = look_at(build, self.decoder.look, found.hidden, state)
        return found._replace(hidden=read_out(build, self.decoder.readout, context, found.hidden))

    def step(self, build: Builder, token: Value, state: State) -> Decoded:
        found = super().step(build, token, state)
        context, weights = self._look(build, found.hidden, state)
        hidden = read_out(build, self.decoder.readout, context, found.hidden)
        return Decoded(hidden, found.state, weights)


class InsideGraph(_Attending):
    """Attention inside the recurrence."""

    reads = False
    decoder: InsideDecoder

    def step(self, build: Builder, token: Value, state: State) -> Decoded:
        states = self._states(build, state)
        context, weights = self._look(build, states[-1][0], state)
        x = build.concat([embed(build, self.decoder.embedding, token), context])
        hidden, after = lower_recurrent.step(build, self.decoder.rnn, x, states)
        return Decoded(read_out(build, self.decoder.readout, context, hidden), self._named(after), weights)


class TransformerGraph(DecoderGraph):
    """A transformer with a cache of keys and values, and those of the source where it reads one."""

    decoder: TransformerDecoder

    @property
    def shared(self) -> frozenset[str]:
        count = len(self.decoder.stack.blocks)
        return frozenset(name for number in range(count) for name in _names(number, source=True))

    def growing(self) -> tuple[StateField, ...]:
        found = []
        blocks: Sequence[EncoderBlock | DecoderBlock] = self.decoder.stack.blocks
        for number, block in enumerate(blocks):
            own = block.attention
            for name, size in zip(_names(number), (own.head_size, own.value_head_size), strict=True):
                found.append(StateField(name, ("past", own.heads, size), grows="past"))
        return tuple(found)

    def start(self, build: Builder, source: Encoded | None) -> State:
        stack = self.decoder.stack
        if not isinstance(stack, DecoderStack):
            return {}
        assert source is not None
        every = lower_transformer.recall(build, stack, source.states)
        return {
            name: part
            for number, both in enumerate(every)
            for name, part in zip(_names(number, source=True), both, strict=True)
        }

    def read(self, build: Builder, tokens: Value, state: State) -> Decoded:
        stack, places = self.decoder.stack, build.positions(tokens)
        layers = range(len(stack.blocks))
        caches: list[KeysValues | None] = [None for _ in layers]
        if _names(0)[0] in state:
            caches = [KeysValues(*(state[name] for name in _names(number))) for number in layers]
            places = build.add(places, build.length(state[_names(0)[0]]))
        source = []
        if isinstance(stack, DecoderStack):
            source = [KeysValues(*(state[name] for name in _names(number, source=True))) for number in layers]
        x = place(build, self.decoder.placed, embed(build, self.decoder.embedding, tokens), places)
        found = lower_transformer.decode(build, stack, x, places, caches, source)
        after = {
            name: part
            for number, both in enumerate(found.caches)
            for name, part in zip(_names(number), both, strict=True)
        }
        attention = found.attention
        if attention is not None and attention.shape[1] == 1:
            mean = build.reduce("mean", attention, 0)
            return Decoded(found.hidden, after, build.reshape(mean, mean.shape[1:]))
        return Decoded(found.hidden, after)


class ConvolutionalGraph(DecoderGraph):
    """Causal convolutions; the state of a layer is its last inputs."""

    decoder: ConvolutionalDecoder

    def start(self, build: Builder, source: Encoded | None) -> State:
        starts = {name: layer.initial_state(1, layer.map.weight)[0] for name, layer in self._layers()}
        return {name: build.constant(zeros) for name, zeros in starts.items() if zeros.numel()}

    def read(self, build: Builder, tokens: Value, state: State) -> Decoded:
        x, after = self._widen(build, tokens), State()
        for name, layer in self._layers():
            reach, before = layer.kernel - 1, state.get(name)
            window = build.windows(x, reach, 0) if before is None else self._windows(build, x, before, reach)
            if before is not None:
                after[name] = self._last(build, x, before)
            x = self._gated(build, layer, x, window)
        return Decoded(x, after)

    def step(self, build: Builder, token: Value, state: State) -> Decoded:
        x, after = self._widen(build, token), State()
        for name, layer in self._layers():
            window = build.reshape(x, (1, *x.shape))
            if (before := state.get(name)) is not None:
                window = build.concat([before, window], 0)
                after[name] = build.slice(window, 1, layer.kernel, 0)
            x = self._gated(build, layer, x, build.reshape(window, (layer.kernel * layer.width,)))
        return Decoded(x, after)

    def _widen(self, build: Builder, tokens: Value) -> Value:
        x = embed(build, self.decoder.embedding, tokens)
        return dense(build, self.decoder.widen, x) if isinstance(self.decoder.widen, nn.Linear) else x

    def _layers(self) -> list[tuple[str, GatedConvolution]]:
        """Each layer with the name of its field."""
        layers = [layer for layer in self.decoder.layers if isinstance(layer, GatedConvolution)]
        return [(f"layer{number}_inputs", layer) for number, layer in enumerate(layers, 1)]

    def _gated(self, build: Builder, layer: GatedConvolution, x: Value, window: Value) -> Value:
        both, size = dense(build, layer.map, window), layer.width
        gate = build.unary("sigmoid", build.slice(both, size, 2 * size))
        return build.add(x, build.mul(build.slice(both, 0, size), gate))

    def _windows(self, build: Builder, x: Value, before: Value, reach: int) -> Value:
        """The windows that end at the steps of x, which follow those of the state."""
        seen = build.windows(build.concat([before, x], 0, joined="seen"), reach, 0)
        return build.gather(seen, build.add(build.positions(x), build.whole(reach)))

    def _last(self, build: Builder, x: Value, before: Value) -> Value:
        """The last inputs, after x."""
        seen = build.concat([before, x], 0, joined="seen")
        places = build.add(build.positions(before), build.length(x))
        return build.gather(seen, places)


class LastStepGraph(DecoderGraph):
    """The features of each step as they are."""

    decoder: LastStep

    def read(self, build: Builder, tokens: Value, state: State) -> Decoded:
        return Decoded(tokens, {})


def _names(layer: int, *, source: bool = False) -> tuple[str, str]:
    """The fields of the keys and values of a layer."""
    kind = "source_" if source else ""
    return f"layer{layer + 1}_{kind}keys", f"layer{layer + 1}_{kind}values"


DECODERS: Final[dict[type[Any], type[DecoderGraph]]] = {
    RecurrentDecoder: RecurrentGraph,
    TransformerDecoder: TransformerGraph,
    ConvolutionalDecoder: ConvolutionalGraph,
    PlainDecoder: PlainGraph,
    AfterDecoder: AfterGraph,
    InsideDecoder: InsideGraph,
    LastStep: LastStepGraph,
}


def decoder_graph(decoder: nn.Module) -> DecoderGraph:
    """The maker of a decoder's graphs."""
    return lowering_of(DECODERS, decoder, "a decoder")(decoder)  # type: ignore[no-any-return]
