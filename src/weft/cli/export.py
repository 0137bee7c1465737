"""weft export RUN --to FORMAT --out DIR"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.imports import Imports, read_imports

if TYPE_CHECKING:
    from weft.export import Exported, ExportedHtml
    from weft.export.c.export import ExportedC


def export(
    run: Annotated[str, typer.Argument(help="A run folder or hf://OWNER/NAME; which one, depends on FORMAT.")],
    to: Annotated[
        str,
        typer.Option(
            help="c, html, onnx; huggingface, ctranslate2 (transformers); arpa (n-gram models), vectors (embed).",
            metavar="FORMAT",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(help="The folder to write, new or empty; for html, arpa and vectors the new file.", metavar="OUT"),
    ],
    quantization: Annotated[
        str | None,
        typer.Option(help="c, html, onnx, ctranslate2: the type of the weights, such as int8.", show_default="float32"),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="c, html, onnx in int8: the file by which the loss in score is measured; by default data.valid."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the comparison with the run as JSON.")] = False,
    imports: Imports = None,
) -> None:
    """Write a run as C, a web page, a folder, an ARPA file or word vectors that are used without weft.

    c and html: source code, or a page, with nothing else to install. onnx: graphs for onnxruntime and
    weft.export.onnx.Runner, which answers without torch. What was written is loaded, and its numbers and texts are
    compared with those of the run.

    Examples:
    weft export runs/tag-1 --to c --out tagger
    weft export runs/demo --to html --out demo.html --quantization int8
    weft export runs/translate-1 --to huggingface --out marian
    weft export runs/translate-1 --to ctranslate2 --out fast --quantization int8
    weft export runs/tags-1 --to onnx --out tagger --quantization int8
    weft export runs/lm-1 --to arpa --out model.arpa
    weft export runs/embed-1 --to vectors --out vectors.bin.gz
    """
    from weft.cli.output import note, print_json
    from weft.export import export_arpa, export_html, export_run, export_vectors
    from weft.run import load

    source = load(run, device="cpu", cells=read_imports(imports)) if imports else run
    if to == "arpa" and quantization is None:
        written = export_arpa(source, out=out)
        if json:
            print_json({**written._asdict(), "path": str(written.path)})
            return
        note(
            "written: [bold]{}[/], {} n-grams of each order", written.path, ", ".join(f"{n:,}" for n in written.ngrams)
        )
        note("read back and compared with the run: logarithms differ by {} at most", f"{written.difference:.2g}")
        if written.cutting:
            note("[yellow]note[/] {}", written.cutting)
        return
    if to == "vectors" and quantization is None:
        file = export_vectors(source, out=out)
        if json:
            print_json({**file._asdict(), "path": str(file.path)})
            return
        note("written: [bold]{}[/], {} vectors of {} numbers", file.path, f"{file.words:,}", file.size)
        note("read back and compared with the run: the same")
        return
    if to == "html":
        loaded = load(source, device="cpu") if isinstance(source, str) else source
        page = export_html(loaded, out=out, quantization=quantization, data=data)
        if json:
            print_json({**page._asdict(), "path": str(page.path)})
            return
        note("written: [bold]{}[/], {} MB", page.path, f"{page.bytes / 1e6:.1f}")
        note("its C compared with the run: {}", page.agreement.describe())
        if page.quantized is not None:
            note("compared with the run, in int8: {}", page.quantized.describe())
            show_loss(page)
        if page.left_out:
            note("left out, because the page has no counterpart: {}", ", ".join(page.left_out))
        return
    found = export_run(source, to=to, out=out, quantization=quantization, data=data)
    compared = {"exact": found.agreement} | ({quantization or "": found.quantized} if found.quantized else {})
    if json:
        about = {"folder": str(found.folder), "left_out": list(found.left_out), "loss": found.loss}
        about |= {"unmeasured": found.unmeasured}
        print_json(about | {name: one._asdict() for name, one in compared.items()})
        return
    note("written: [bold]{}[/]", found.folder)
    for name, one in compared.items():
        note("compared with the run{}: {}", "" if name == "exact" else f", in {name}", one.describe())
    if to in ("c", "onnx") and quantization == "int8":
        show_loss(found)
    if found.left_out:
        note("left out, because the format has no counterpart: {}", ", ".join(found.left_out))


def show_loss(found: Exported | ExportedC | ExportedHtml) -> None:
    """Print what int8 costs in score, or that it was not measured."""
    from weft.cli.output import note

    if found.loss:
        note("measured: {}", found.loss)
    else:
        note(
            "[yellow]note[/] what int8 costs in score was not measured: {}; give examples by --data FILE",
            found.unmeasured,
        )
