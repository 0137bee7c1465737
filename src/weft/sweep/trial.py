"""One run of a sweep: the metric that ranks it, the reports of its validations to Optuna, and its result."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from weft.catalog import TASKS
from weft.sweep.space import Value
from weft.tasks import Tree
from weft.training import Event, Started, Validated
from weft.training.progress import Watch

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial


class Goal(NamedTuple):
    """The validation metric that trials are ranked by: that of the settings (`asked`), or the task's own."""

    task: str
    metric: str
    asked: bool

    @classmethod
    def of(cls, tree: Tree, searched: Collection[str] = ()) -> Goal:
        """`searched` are the settings that differ between trials; scores by different metrics would not compare."""
        wanted = tree.get("train", {}).get("metric")
        task = tree["task"]
        return cls(task, wanted or TASKS[task].metric, wanted is not None or "train.metric" in searched)

    @property
    def lower_is_better(self) -> bool:
        return self.metric in TASKS[self.task].lower_is_better

    def name(self, metrics: Mapping[str, float]) -> str:
        """The metric that was asked for, or the task's own, which may depend on the data."""
        return self.metric if self.asked else TASKS[self.task].own_metric(metrics)

    def score(self, metrics: Mapping[str, float]) -> float:
        return metrics[self.name(metrics)]


@dataclass(frozen=True)
class Trial:
    """One run of a sweep. `ended` is complete, pruned or failed; only a complete one has a score."""

    number: int
    metric: str
    ended: str
    settings: dict[str, Value]
    score: float | None = None
    seconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The trials, the best first, then those without a score; `signal` is the one that stopped the sweep, or 0."""

    trials: list[Trial]
    signal: int = 0

    @property
    def best(self) -> Trial | None:
        return self.trials[0] if self.trials and self.trials[0].score is not None else None


class TrialWatch(Watch):
    """Shows nothing; reports each validation score to the study, and raises TrialPruned where the study ends the trial.

    Unless the settings name a metric, the goal is the one that suits the data, which is known when training starts.
    """

    def __init__(self, trial: optuna.Trial, goal: Goal) -> None:
        super().__init__(quiet=True)
        self.trial, self.goal, self.validations = trial, goal, 0

    def show(self, event: Event) -> None:
        from optuna import TrialPruned

        super().show(event)
        if isinstance(event, Started) and not self.goal.asked:
            self.goal = self.goal._replace(metric=event.metric, asked=True)
        if isinstance(event, Validated):
            self.validations += 1
            self.trial.report(self.goal.score(event.metrics), self.validations)
            if self.trial.should_prune():
                raise TrialPruned


def read_trial(frozen: FrozenTrial, goal: Goal) -> Trial:
    """Return the trial that Optuna stores."""
    names = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
    return Trial(
        number=frozen.number,
        metric=frozen.user_attrs.get("metric", goal.metric),
        ended=names[frozen.state.name],
        settings=dict(frozen.params),
        score=frozen.value if frozen.state.name == "COMPLETE" else None,
        seconds=frozen.duration.total_seconds() if frozen.duration else 0.0,
        error=frozen.user_attrs.get("error"),
    )


def ended_trials(study: optuna.Study) -> list[FrozenTrial]:
    """Return the trials that count; an interrupted one, which is run again, is stored as failed without an error."""
    from optuna.trial import TrialState

    done = study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL))
    return [trial for trial in done if trial.state is not TrialState.FAIL or "error" in trial.user_attrs]


def rank(study: optuna.Study, goal: Goal) -> list[Trial]:
    """Return the trials, the best first; those without a score last, in their order."""
    sign = 1 if goal.lower_is_better else -1
    found = [read_trial(frozen, goal) for frozen in ended_trials(study)]
    return sorted(found, key=lambda trial: (trial.score is None, sign * (trial.score or 0.0), trial.number))
