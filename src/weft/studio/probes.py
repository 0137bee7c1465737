"""Gates of a model in the learning playground, from the views of `weft.inspect`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.studio.pupil import Pupil
    from weft.studio.toys import Example


def gate_means(pupil: Pupil, example: Example) -> dict[str, Any] | None:
    """Return the mean of each gate at each token of an example; None for a model without gates."""
    from weft import inspect

    network, gates = pupil.recurrent_layers(), getattr(inspect, "gates", None)
    if network is None or gates is None:
        return None
    vectors, tokens = pupil.vectors(example)
    found = gates(network, vectors[0]).to_dict().get("values", [])
    if not found:
        return None
    return {"tokens": tokens, "names": [gate["name"] for gate in found], "values": [gate["mean"] for gate in found]}
