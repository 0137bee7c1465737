"""`weft pull`: a run of the hub as a run folder of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from weft.run.folder.files import check_path
from weft.run.folder.lock import claim_folder
from weft.run.hub.address import Address, parse_address
from weft.run.hub.client import Hub
from weft.run.hub.fetch import Cells, fetch


class Pulled(NamedTuple):
    """The folder, the commit that it is a copy of, and the bytes of its files."""

    folder: Path
    address: Address
    commit: str
    size: int


def pull_run(address: str, out: str | Path | None = None, *, cells: Cells | None = None) -> Pulled:
    """Download OWNER/NAME or OWNER/NAME@REVISION into the folder `out`, by default runs/NAME.

    The folder is complete and checked, or absent. `cells` are those of the user's own that the run has.
    """
    found = parse_address(address)
    if out is not None:
        check_path(out, "--out")
    hub = Hub(found)
    remote = hub.files()
    with claim_folder(out if out is not None else Path("runs", found.name), found.name, resume=None) as folder:
        part = folder.with_name(f".{folder.name}.{remote.commit}.part")
        fetch(hub, remote, part, folder, cells=cells)
    return Pulled(folder, found, remote.commit, sum(path.stat().st_size for path in folder.iterdir()))
