"""weft push RUN OWNER/NAME · weft pull OWNER/NAME"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.imports import Imports, read_imports


def push(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    to: Annotated[str, typer.Argument(help="The repository on the hub; a new one is made.", metavar="OWNER/NAME")],
    private: Annotated[bool, typer.Option("--private", help="Only you and your organisation may see it.")] = False,
    revision: Annotated[
        str | None, typer.Option(help="The branch to write to; a new one is made.", show_default="main")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the page, the commit and the files as JSON.")] = False,
) -> None:
    """Send a run to the Hugging Face hub, where `weft pull` and hf://OWNER/NAME find it.

    Sent are the model, its model card and its report, in one commit. Checkpoints and the journal stay here, and of
    absolute paths in the settings only the names of files are sent. A token is needed: hf auth login, or HF_TOKEN.

    Examples:
    weft push runs/translate-1 me/en-fr --private
    weft push runs/translate-2 me/en-fr --revision larger
    """
    from weft.cli.output import note, print_json
    from weft.run.hub.push import push_run

    found = push_run(run, to, private=private, revision=revision)
    if json:
        about = {"page": found.page, "commit": found.commit, "files": list(found.files), "cut": list(found.cut)}
        print_json({"address": str(found.address)} | about)
        return
    if found.cut:
        note("sent without the folders of this machine: {}", ", ".join(found.cut))
    note("sent: [bold]{}[/], {} files in commit {}", found.page, len(found.files), found.commit[:12])
    note('load it by weft.load("{}"), or: weft pull {}', found.address, str(found.address).removeprefix("hf://"))


def pull(
    address: Annotated[
        str,
        typer.Argument(
            help="A run on the hub; REVISION is a branch, a tag or a commit.", metavar="OWNER/NAME[@REVISION]"
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The run folder to make.", metavar="DIR", show_default="runs/NAME")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the folder and the commit as JSON.")] = False,
    imports: Imports = None,
) -> None:
    """Download a run from the Hugging Face hub into a run folder.

    Only files of runs are fetched. Each is compared with its hash, and the run is loaded once to check it; nothing in
    it is executed. A folder that is refused is not left behind; an interrupted download goes on where it ended.

    Examples:
    weft pull me/en-fr
    weft pull me/en-fr@larger --out runs/larger
    """
    from weft.cli.output import note, print_json
    from weft.run.hub.pull import pull_run

    found = pull_run(address, out, cells=read_imports(imports))
    if json:
        about = {"folder": str(found.folder), "address": str(found.address), "commit": found.commit}
        print_json(about | {"bytes": found.size})
        return
    note("written: [bold]{}[/], {} bytes of commit {}, checked", found.folder, f"{found.size:,}", found.commit[:12])
