"""weft bench export"""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.options import Json, Markdown


def export(
    threads: Annotated[int, typer.Option(help="Threads of onnxruntime.", min=1)] = 1,
    rounds: Annotated[int, typer.Option(help="Rounds; the median is printed.", min=1)] = 30,
    markdown: Markdown = False,
    json: Json = False,
) -> None:
    """Time recurrent layers in onnxruntime: as weft exports them, and as torch exports nn.LSTM and nn.GRU.

    A layer of 256 numbers reads 64 steps of 1 and of 32 rows.

    Examples:
    weft bench export
    weft bench export --threads 2 --json
    """
    from weft.bench import describe, load_warning
    from weft.cli.bench import show, show_progress
    from weft.cli.output import note, print_json
    from weft.export.onnx.folder import check_onnx

    check_onnx()
    import torch

    from weft.bench.export import LAYERS, OWN_LOOP, measure_export, tabulate_export

    device = torch.device("cpu")
    if warning := load_warning(device):
        note("{}", warning)
    found = []
    for layer in (*LAYERS, OWN_LOOP):
        for rows in (1, 32):
            show_progress(f"{layer}, {rows}")
            found.append(measure_export(layer, rows, threads=threads, rounds=rounds))
    show_progress("")
    if json:
        print_json({"machine": describe(device), "rows": [one.tree() for one in found]})
    else:
        about = f"64 steps, 256 numbers, threads {threads}; median of {rounds} rounds"
        show(tabulate_export(found), describe(device), about, [], markdown=markdown)
