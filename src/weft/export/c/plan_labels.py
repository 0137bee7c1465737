"""The plans of tasks with one answer for a text: a label, several, or a number."""

from __future__ import annotations

from weft.export.c.constants import Constants
from weft.export.c.model_source import Plan
from weft.export.c.plan_reading import numbers, sequence, strings
from weft.export.c.source import read
from weft.export.graph import Program
from weft.run import Run
from weft.tasks.labels import on_one_line


def plan_classify(run: Run, program: Program | None, constants: Constants) -> Plan:
    task, labels = run.task, run.task.codec.labels
    plan = sequence(run, numbers=len(labels))
    thresholds = getattr(run.model, "thresholds", None)
    many = bool(task.many_labels)
    given = [0.5 if many else 1.0] * len(labels) if thresholds is None else thresholds.tolist()
    shown = [label if many else on_one_line(label) for label in labels]
    plan.defines |= {"WEFT_LABELS": len(labels), "WEFT_MANY_LABELS": int(many)}
    plan.declared += [*strings("weft_labels", shown), *numbers("weft_thresholds", given)]
    plan.kernels = {"softmax", "logistic"}
    plan.fields += ["float *numbers; /* the probabilities of the labels */", "int32_t *order;"]
    plan.arrange += ["m->numbers = weft_take(m, 4 * WEFT_LABELS);", "m->order = weft_take(m, 8 * WEFT_LABELS);"]
    plan.sources = [*plan.sources, read("task_classify.c")]
    plan.header = f"""/* The probability of each of the {len(labels)} labels of a line; 0 or an error. */
int weft_classify(weft_model *m, const char *line, size_t count, const float **probabilities);
"""
    return plan


def plan_regress(run: Run, program: Program | None, constants: Constants) -> Plan:
    plan, target = sequence(run, numbers=1), run.task.codec.statistics["target"]
    plan.defines |= {"WEFT_SCALE": repr(float(target.scale[0])), "WEFT_MEAN": repr(float(target.mean[0]))}
    plan.sources = [*plan.sources, read("task_regress.c")]
    plan.header = """/* The number for a line; 0 or an error. */
int weft_regress(weft_model *m, const char *line, size_t count, double *number);
"""
    return plan
