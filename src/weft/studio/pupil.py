"""A small model that learns a toy: a language model over the toy's tokens, recurrent or a transformer.

x_1 … x_n = y_1 … y_m          it reads all of it, and is trained to predict y_1 … y_m
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from weft.models.language import LanguageModel, build_language_model
from weft.models.recurrent import RecurrentLanguageConfig
from weft.models.transformer import TransformerDecoderConfig
from weft.nn import CELLS, RNN, choose_cell
from weft.studio.toys import ASK, END, Example, Toy

CLIP = 1.0
"""The largest norm of a gradient."""


class Pupil:
    """A model with its optimizer. Tokens are numbers of the toy's vocabulary."""

    def __init__(self, toy: Toy, settings: Mapping[str, Any], cells: Mapping[str, Any], *, seed: int) -> None:
        torch.manual_seed(seed)
        self.vocabulary = toy.tokens()
        self.ids = {token: number for number, token in enumerate(self.vocabulary)}
        hidden, layers = settings["hidden"], settings["layers"]
        recurrent = settings["kind"] == "rnn"
        self.name = settings["cell"] if recurrent else "transformer"
        config: Any
        if recurrent:
            chosen = choose_cell(settings["cell"], {**CELLS, **cells})
            sizes: dict[str, Any] = {"embedding": hidden, "hidden": hidden, "layers": layers, "dropout": 0.0}
            config = RecurrentLanguageConfig(cell=chosen, tie=False, **sizes)
        else:
            heads = next(heads for heads in (4, 2, 1) if hidden % heads == 0)
            config = TransformerDecoderConfig(width=hidden, heads=heads, layers=layers, dropout=0.0, tie=False)
        model = build_language_model(config, len(self.vocabulary))
        assert isinstance(model, LanguageModel)
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=settings["rate"])

    def rows(self, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """Examples -> what the model reads (B, T), and the answers that it must give (B, M)."""
        read = [[self.ids[token] for token in (*one.input, ASK, *one.answer[:-1])] for one in examples]
        answers = [[self.ids[token] for token in one.answer] for one in examples]
        return torch.tensor(read), torch.tensor(answers)

    def logits(self, tokens: Tensor, answers: int) -> Tensor:
        """tokens (B, T) -> scores (B, M, V) of the tokens at the last M places."""
        hidden = self.model(tokens)
        found: Tensor = self.model.output(hidden[:, -answers:])
        return found

    def loss(self, tokens: Tensor, answers: Tensor) -> Tensor:
        """The mean loss of all answer tokens."""
        return cross_entropy(self.logits(tokens, answers.size(1)).flatten(0, 1), answers.flatten())

    def learn(self, examples: Sequence[Example]) -> float:
        """Make one update, and return the loss before it."""
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(*self.rows(examples))
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        return float(loss.detach())

    @torch.no_grad()
    def accuracy(self, examples: Sequence[Example]) -> float:
        """Return the share of examples that are answered right as a whole.

        A greedy answer is right exactly if every token is the best one after the right tokens before it, so one pass
        over the right answers is enough.
        """
        self.model.eval()
        tokens, answers = self.rows(examples)
        best = self.logits(tokens, answers.size(1)).argmax(-1)
        return float((best == answers).all(1).float().mean())

    @torch.no_grad()
    def answer(self, examples: Sequence[Example]) -> list[tuple[str, ...]]:
        """Return the greedy answers."""
        self.model.eval()
        tokens = torch.tensor([[self.ids[token] for token in (*one.input, ASK)] for one in examples])
        length = len(examples[0].answer)
        for _ in range(length):
            tokens = torch.cat((tokens, self.logits(tokens, 1).argmax(-1)), dim=1)
        return [tuple(self.vocabulary[number] for number in row) for row in tokens[:, -length:].tolist()]

    def gradient_norms(self, examples: Sequence[Example]) -> list[float]:
        """Return ‖∂loss/∂x_t‖ of the token vector at each place t, the mean over examples."""
        self.model.train()
        tokens, answers = self.rows(examples)
        kept: list[Tensor] = []

        def keep(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
            vectors = output.detach().requires_grad_()
            kept.append(vectors)
            return vectors

        hook = self.model.decoder.embedding.register_forward_hook(keep)
        try:
            loss = self.loss(tokens, answers)
        finally:
            hook.remove()
        (gradient,) = torch.autograd.grad(loss, kept[:1])
        norms: list[float] = gradient.norm(dim=-1).mean(0).tolist()
        return norms

    def recurrent_layers(self) -> RNN | None:
        """Return the recurrent network inside the model; None for a transformer."""
        return next((module for module in self.model.modules() if isinstance(module, RNN)), None)

    def vectors(self, example: Example) -> tuple[Tensor, list[str]]:
        """The token vectors (1, T, E) that the model reads of an example, and the tokens."""
        tokens, _ = self.rows([example])
        with torch.no_grad():
            found: Tensor = self.model.decoder.embedding(tokens)
        return found, [self.vocabulary[number] for number in tokens[0].tolist()]


def show_tokens(tokens: Sequence[str]) -> str:
    """Return an answer or an input for a page; the tokens that fill it up are left out."""
    words = [token for token in tokens if token != END]
    return ("" if all(len(word) == 1 for word in words) else " ").join(words)
