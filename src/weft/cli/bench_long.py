"""weft bench recurrence --long"""

from __future__ import annotations

from weft.errors import ConfigError


def refuse_beside_long(**options: object) -> None:
    """--long measures a recurrence of its own, for which these options mean nothing."""
    for name, value in options.items():
        if value:
            option = f"--{name.removesuffix('s') if name == 'imports' else name}"
            raise ConfigError("does nothing with --long", where=option, cure="remove one of the two")


def bench_long(
    sizes: list[str],
    dtypes: list[str],
    device: str,
    *,
    contenders: list[str],
    threads: int,
    repeats: int,
    markdown: bool,
    json: bool,
) -> None:
    """Time a recurrence without products over many steps."""
    from weft.bench import check_contenders, describe, load_warning
    from weft.bench.recurrence.long import CONTENDERS, long_cases, long_remarks, measure_long, tabulate_long
    from weft.cli.bench import show, show_progress
    from weft.cli.output import note, print_json
    from weft.training import set_threads

    chosen = check_contenders(contenders, CONTENDERS)
    chosen = tuple(name for name in CONTENDERS if name == "weft" or name in chosen)
    cases = long_cases(sizes, dtypes, device)
    set_threads(threads)
    if warning := load_warning(cases[0][2]):
        note("{}", warning)
    machine = describe(cases[0][2])
    rows = []
    for number, (size, dtype, place) in enumerate(cases, 1):
        show_progress(f"{size} {dtype} ({number} of {len(cases)})")
        rows.append(measure_long(size, dtype, place, repeats=repeats, contenders=chosen))
    show_progress("")
    if json:
        print_json({"machine": machine, "settings": {"repeats": repeats}, "rows": [row.tree() for row in rows]})
    else:
        about = f"h' = a h + b alone, forward and backward, median of {repeats}"
        show(tabulate_long(rows), machine, about, long_remarks(rows), markdown=markdown)
