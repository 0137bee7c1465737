"""A forecaster: from a window of the past to the next steps of a series.

    z_t = (y_t - level) / scale                        of the window: mean and deviation of what the network reads
    b_h = Σ_k softmax(w_h + u_h)_k simple_k,h          a mixture of simple forecasts (forecast_skip.py), w learned
    direct       h_t = f(h_{t-1}, z_t, …)      [r_h; u_h] = g(h_L, known_h)                  all steps at once
    recursive    h_t = f(h_{t-1}, z_{t-1}, …)  [r_h; u_h] = g(h_{L+h})                       each step reads the last
    y_h = b_h + scale · (r_h + Σ_j V_hj z_{L-j})

g and V start near zero and w near the seasonal naive forecast, so training starts there. f is any recurrent cell, a
causal transformer, causal convolutions, or the last step as it is. B batch, L history, H horizon, R steps that f reads,
F features of a step.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.models.forecast_output import OUTPUTS, ForecastOutput
from weft.models.forecast_skip import SIMPLE, Mixture, fill_missing, simple_forecasts
from weft.models.forecaster_settings import ForecasterConfig
from weft.nn import Dropout

MIN_SCALE: Final = 0.05
"""The least scale of a window, in units of the deviation of its whole series: a flat window has no scale of its own."""

START_CORRECTION: Final = 0.01
"""The factor of the first weights of corrections: training starts near the simple forecasts."""

EVALUATION_ROWS: Final = 256
"""Windows that are evaluated together."""


class ForecastSizes(NamedTuple):
    """Sizes that follow from the data: steps of history, horizon and season; columns known of the past, of the future
    too, and of the whole series; the number of series, and of the categories in each column of texts."""

    history: int
    horizon: int
    season: int
    past: int = 0
    known: int = 0
    static: int = 0
    series: int = 1
    categories: tuple[int, ...] = ()


class SeriesWindow(NamedTuple):
    """target (B, L) in units of its series, 0 where it is missing; observed (B, L); past (B, L, P);
    known (B, L + H, K); series (B), 0 for one that is not in the training data; static (B, S); categories (B, C), 0 for
    one that is not in the training data."""

    target: Tensor
    observed: Tensor
    past: Tensor
    known: Tensor
    series: Tensor
    static: Tensor
    categories: Tensor


class WindowForecast(NamedTuple):
    """The parameters (B, H, size) of the output for each step, and the scale (B, 1) of each window."""

    parameters: Tensor
    scale: Tensor


class Normalised(NamedTuple):
    """The inputs of a network from a window: filled (B, L); level and scale (B, 1); simple forecasts (B, H, 6)."""

    filled: Tensor
    level: Tensor
    scale: Tensor
    simple: Tensor

    def standard(self, values: Tensor) -> Tensor:
        """values (B, T) in units of the window."""
        return (values - self.level) / self.scale


class Forecaster(nn.Module):
    """A window -> the parameters of the forecast of each step."""

    offsets: Tensor
    """Offsets of each quantile at each step (H, Q), in units of the window's scale, fitted on validation data."""

    def __init__(self, config: ForecasterConfig, sizes: ForecastSizes) -> None:
        super().__init__()
        self.sizes, self.reads = sizes, min(config.context, sizes.history)
        self.recursive = config.multistep == "recursive"
        self.levels = list(config.quantiles)
        self.output: ForecastOutput = OUTPUTS[config.output](self.levels)
        self.decoder = config.build_decoder(3 + sizes.past + sizes.known)
        self.series = nn.Embedding(sizes.series + 1, config.series_size, padding_idx=0) if sizes.series > 1 else None
        self.categories = nn.ModuleList(
            nn.Embedding(count + 1, config.series_size, padding_idx=0) for count in sizes.categories
        )
        self.dropout = Dropout(config.dropout)
        whole = sizes.static + config.series_size * (len(self.categories) + (self.series is not None))
        width = self.decoder.output_size
        steps = 1 if self.recursive else sizes.horizon
        self.each = max(8, min(32, width))
        self.unfold = nn.Linear(width + whole, steps * self.each)
        self.from_known = None if self.recursive or not sizes.known else nn.Linear(sizes.known, self.each)
        self.correct = nn.Linear(self.each, self.output.size + len(SIMPLE))
        self.linear = nn.Linear(self.reads, sizes.horizon, bias=False) if config.linear else None
        self.mixture = Mixture(sizes.horizon, season=sizes.season)
        self.register_buffer("offsets", torch.zeros(sizes.horizon, len(self.levels)))
        with torch.no_grad():
            self.correct.weight.mul_(START_CORRECTION)
            self.correct.bias.zero_()
            if self.linear is not None:
                self.linear.weight.zero_()

    @property
    def evaluation_tokens(self) -> int:
        """Steps of a batch in an evaluation."""
        return EVALUATION_ROWS * (self.sizes.history + self.sizes.horizon)

    @property
    def steps_read(self) -> tuple[int, int]:
        """The first step of a window that the network reads, and how many it reads: of the history, and with
        forecasts of its own all steps that those are made for."""
        first = self.sizes.history - self.reads
        return (first + 1, self.reads - 1 + self.sizes.horizon) if self.recursive else (first, self.reads)

    def forward(self, window: SeriesWindow, future: Tensor | None = None, *, truth: float = 1.0) -> WindowForecast:
        """Forecast the horizon. In training a recursive network is given the true future (B, H), NaN where it is
        missing, and reads each value of it with probability `truth`, and else its own forecast."""
        about = self.normalise(window)
        if not self.recursive:
            hidden = self.decoder(self._steps(window, about), None)[:, -1]
            return self._forecast(window, about, self._corrections(hidden, window))
        if future is None:
            return self._run(window, about, None)
        true = torch.where(future.isnan(), about.simple[..., SIMPLE.index("seasonal")], future)
        if truth < 1.0:
            kept = torch.rand(true.shape, device=true.device) < truth
            with torch.no_grad():
                own = self.output.point(self._run(window, about, (true, kept)).parameters)
            true = torch.where(kept, true, own)
        inputs = torch.cat([self._history(window, about), self._future(window, about, true)], dim=1)
        hidden = self.decoder(inputs, None)[:, -self.sizes.horizon :]
        return self._forecast(window, about, self._corrections(hidden, window))

    def quantiles(self, forecast: WindowForecast) -> Tensor:
        """The quantiles of a forecast (B, H, Q), with the offsets fitted on validation data; where these cross, the
        median stays and the others are moved to their neighbour."""
        found = self.output.quantiles(forecast.parameters) + self.offsets * forecast.scale[..., None]
        middle = self.levels.index(0.5)
        below = found[..., : middle + 1].flip(-1).cummin(-1).values.flip(-1)
        above = found[..., middle:].cummax(-1).values
        return torch.cat([below, above[..., 1:]], dim=-1)

    def normalise(self, window: SeriesWindow) -> Normalised:
        """The window without gaps, the level and scale of what the network reads, and simple forecasts."""
        filled = fill_missing(window.target, window.observed)
        simple = simple_forecasts(filled, window.observed, season=self.sizes.season, horizon=self.sizes.horizon)
        seen = window.observed[:, -self.reads :].to(filled.dtype)
        read, count = filled[:, -self.reads :], seen.sum(1, keepdim=True).clamp(min=1.0)
        level = (read * seen).sum(1, keepdim=True) / count
        scale = (((read - level).square() * seen).sum(1, keepdim=True) / count).sqrt().clamp(min=MIN_SCALE)
        return Normalised(filled, level, scale, simple)

    def _steps(self, window: SeriesWindow, about: Normalised) -> Tensor:
        """The features of the steps that a direct network reads (B, R, F)."""
        length, reads = self.sizes.history, self.reads
        places = torch.arange(length - reads, length, device=window.target.device)
        season = about.filled[:, (places - self.sizes.season).clamp(min=0)]
        own = [about.standard(about.filled[:, -reads:]), window.observed[:, -reads:], about.standard(season)]
        columns = torch.stack([column.to(about.filled.dtype) for column in own], dim=-1)
        return torch.cat([columns, window.past[:, -reads:], window.known[:, length - reads : length]], dim=-1)

    def _history(self, window: SeriesWindow, about: Normalised) -> Tensor:
        """The features of the history for a recursive network (B, R - 1, F): each step reads the value before it."""
        steps = self._steps(window, about)
        own = torch.stack([steps[:, :-1, 0], steps[:, :-1, 1], steps[:, 1:, 2]], dim=-1)
        past, known = self.sizes.past, self.sizes.known
        return torch.cat([own, steps[:, :-1, 3 : 3 + past], steps[:, 1:, 3 + past : 3 + past + known]], dim=-1)

    def _future(self, window: SeriesWindow, about: Normalised, values: Tensor) -> Tensor:
        """The features of the horizon (B, H, F) for a recursive network, given its values (B, H): each step reads the
        value before, and the last known row of columns that are known only of the past."""
        before = torch.cat([about.filled[:, -1:], values[:, :-1]], dim=1)
        season = about.simple[..., SIMPLE.index("seasonal")]
        own = torch.stack([about.standard(before), torch.ones_like(before), about.standard(season)], dim=-1)
        past = window.past[:, -1:].expand(-1, self.sizes.horizon, -1)
        return torch.cat([own, past, window.known[:, self.sizes.history :]], dim=-1)

    def _run(self, window: SeriesWindow, about: Normalised, mixed: tuple[Tensor, Tensor] | None) -> WindowForecast:
        """Forecast step by step, each from the forecast before it; with `mixed`, true values (B, H) and where they are
        read (B, H), from those."""
        history = self._history(window, about)
        values = about.simple[..., 0].clone()
        state = self.decoder.follow(history)[1] if self.decoder.carries_state and history.size(1) else None
        hidden: list[Tensor] = []
        for step in range(self.sizes.horizon):
            inputs = self._future(window, about, values)
            if state is not None:
                found, state = self.decoder.follow(inputs[:, step : step + 1], state)
                hidden.append(found[:, 0])
            else:
                every = torch.cat([history, inputs[:, : step + 1]], dim=1)
                hidden.append(self.decoder(every, None)[:, -1])
            corrections = self._corrections(torch.stack(hidden, dim=1), window)
            corrections = F.pad(corrections, (0, 0, 0, self.sizes.horizon - step - 1))
            forecast = self._forecast(window, about, corrections)
            own = self.output.point(forecast.parameters)[:, step]
            values[:, step] = own if mixed is None else torch.where(mixed[1][:, step], mixed[0][:, step], own)
        return forecast

    def _corrections(self, hidden: Tensor, window: SeriesWindow) -> Tensor:
        """hidden (B, D) of a direct network, or (B, H, D) -> the numbers for each step (B, H, size + 6)."""
        whole = [window.static] + ([self.series(window.series)] if self.series is not None else [])
        whole += [vectors(ids) for vectors, ids in zip(self.categories, window.categories.unbind(1), strict=True)]
        about = torch.cat(whole, dim=-1)
        about = about if hidden.dim() == 2 else about[:, None].expand(-1, hidden.size(1), -1)
        steps = self.unfold(torch.cat([hidden, about.to(hidden.dtype)], dim=-1))
        steps = steps.view(steps.size(0), -1, self.each)
        if self.from_known is not None:
            steps = steps + self.from_known(window.known[:, self.sizes.history :])
        return self.correct(self.dropout(F.gelu(steps)))  # type: ignore[no-any-return]

    def _forecast(self, window: SeriesWindow, about: Normalised, corrections: Tensor) -> WindowForecast:
        """The forecast with these corrections (B, H, size + 6) of the simple forecasts."""
        raw, weights = corrections[..., : self.output.size].float(), corrections[..., self.output.size :].float()
        base = self.mixture(about.simple, weights)
        if self.linear is not None:
            base = base + about.scale * self.linear(about.standard(about.filled[:, -self.reads :]))
        return WindowForecast(self.output.parameters(raw, base, about.scale), about.scale)
