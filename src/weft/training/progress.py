"""Progress of a training on standard error: a live bar on a terminal, plain lines in a pipe."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from weft.console import SafeConsole, styled
from weft.errors import counted
from weft.metric_text import metric_name, show_metric
from weft.training.events import Awaited, Ended, Event, Measuring, Started, Update, Validated

PLAIN_SECONDS = 10.0
"""Time between two lines about the loss without a terminal."""


class Watch:
    """Consumes the events of a training and shows them on standard error."""

    def __init__(self, *, quiet: bool = False, console: Console | None = None) -> None:
        self.console = console or SafeConsole(stderr=True)
        self.quiet = quiet
        self.bar: Progress | None = None
        self.job: TaskID | None = None
        self.started: Started | None = None
        self.loss: float | None = None
        self.speed = 0.0
        self.awaited = Awaited()
        self.shown = time.monotonic()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        with self._closed_terminal():
            self._close()

    @contextmanager
    def _closed_terminal(self) -> Iterator[None]:
        """Stop printing when the terminal was closed: that must not keep a training from being saved."""
        try:
            yield
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            self.quiet, self.bar = True, None

    @contextmanager
    def waiting(self, what: str) -> Iterator[Callable[[str], None]]:
        """Show that a task without a progress bar is running: a spinner on a terminal, a line in a pipe.

        Yields a function that replaces the text: on a terminal at once, in a pipe every few seconds.
        """
        if self.quiet:
            yield lambda _: None
        elif self.console.is_terminal:
            with self.console.status(styled("{}", what)) as status:
                yield lambda more: status.update(styled("{}", more))
        else:
            self._print("{}", what)
            yield self._now_and_then

    def _now_and_then(self, what: str) -> None:
        if time.monotonic() - self.shown > PLAIN_SECONDS:
            self.shown = time.monotonic()
            self._print("{}", what)

    def note(self, what: str) -> None:
        """Print a note for the user."""
        if not self.quiet:
            with self._closed_terminal():
                self._print("[yellow]note[/] {}", what)

    def show(self, event: Event) -> None:
        if self.quiet:
            return
        with self._closed_terminal():
            self._show(event)

    def _show(self, event: Event) -> None:
        match event:
            case Started():
                self._start(event)
            case Update():
                self._update(event)
            case Measuring():
                if self.bar is not None and self.job is not None:
                    self.bar.update(self.job, description=event.what)
            case Validated():
                self._validated(event)
            case Ended():
                self._close()

    def _print(self, template: str, *values: object) -> None:
        self.console.print(styled(template, *values), soft_wrap=True)

    def _start(self, event: Started) -> None:
        self.started = event
        for note in event.notes:
            self._print("[yellow]note[/] {}", note)
        sizes = f"{counted(event.examples, 'training example')}  {event.valid:,} validation"
        if event.parameters is not None:
            sizes += f"  {counted(event.parameters, 'parameter')}"
        self._print("[bold]{}[/]  {}  {}", event.task, sizes, event.device)
        if self.console.is_terminal:
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                TextColumn("{task.fields[state]}"),
                TimeRemainingColumn(compact=True),
                console=self.console,
                transient=True,
            )
            self.job = self.bar.add_task("training", total=event.steps, completed=event.done, state="")
            self.bar.start()

    def _update(self, update: Update) -> None:
        for note in update.notes:
            self._print("[yellow]note[/] {}", note)
        self.awaited.add(update)
        for arrived in self.awaited.arrived():
            # Losses of single batches vary; a running mean over about twenty is readable.
            weight = 0.05 if self.speed else 1.0
            if arrived.numbers.finite:  # else the update was skipped, and a note said so, or it has no loss
                self.loss = arrived.loss if self.loss is None else self.loss + weight * (arrived.loss - self.loss)
            self.speed += weight * (arrived.tokens / max(arrived.seconds, 1e-9) - self.speed)
        if not self.speed:
            return
        state = f"{self._loss()}{self.speed:,.0f} tokens/s"
        if self.bar is not None and self.job is not None:
            self.bar.update(self.job, completed=update.number, state=state, description=self._epoch(update.number))
        elif time.monotonic() - self.shown > PLAIN_SECONDS and self.started is not None:
            self.shown = time.monotonic()
            self._print("step {}/{}  {}", update.number, self.started.steps, state)

    def _validated(self, event: Validated) -> None:
        self.shown = time.monotonic()
        values = ((name, event.metrics[name]) for name in event.shown or event.metrics)
        numbers = "  ".join(f"{metric_name(name)} {show_metric(name, value)}" for name, value in values)
        mark = "[green]*[/]" if event.best else " "
        self._print("{}  {}valid: {} " + mark, self._epoch(event.step), self._loss(), numbers)

    def _loss(self) -> str:
        return "" if self.loss is None else f"loss {self.loss:.3f}  "

    def _epoch(self, step: int) -> str:
        if self.started is None:
            return f"step {step}"
        epochs = -(-self.started.steps // self.started.steps_per_epoch)
        return f"epoch {-(-step // self.started.steps_per_epoch):>{len(str(epochs))}}/{epochs}"

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None
