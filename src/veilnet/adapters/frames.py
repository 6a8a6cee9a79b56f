"""Data frames in and out: what an agent sends of a frame, and what the centre makes of such frames.

Columns are identified by their names, in and out: an agent's readings by the names the network gives
them, the numbers it sends ``z1``, ``z2``, ..., estimates by the public parameters, as in the files of ``veilnet
sanitize`` and ``veilnet fuse``. A pandas frame keeps its index; a polars frame its order.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

import numpy as np

from veilnet._core.errors import InvalidReading, InvalidRequest, MissingExtra
from veilnet._core.extras import missing_extra
from veilnet.agent.release import NotPrivate
from veilnet.agent.sanitizer import Sanitizer
from veilnet.centre.estimates import Estimate
from veilnet.centre.fusion import Fusion

__all__ = ["estimate_frame", "fuse_frames", "sanitize_frame"]

Kind = Literal["pandas", "polars"]


def sanitize_frame(sanitizer: Sanitizer, frame: Any, *, rng: np.random.Generator | int | None = None) -> Any:
    """What an agent sends of its readings, as a frame of the same kind with the columns z1, z2, ...

    sanitizer: the agent's.
    frame:     its readings, a pandas or polars frame; columns of other names are left alone.
    rng:       as in :meth:`veilnet.Sanitizer.sanitize`: for simulations alone. A column ``private`` then says 0.
    """
    kind = _kind(frame, "frame")
    sent = sanitizer.sanitize(frame, rng=rng)
    columns: dict[str, Any] = {f"z{k + 1}": np.asarray(sent)[:, k] for k in range(sanitizer.sent)}
    if isinstance(sent, NotPrivate):
        columns["private"] = np.zeros(len(sent), dtype=np.int64)
    return _made(columns, kind, getattr(frame, "index", None))


def fuse_frames(fusion: Fusion, messages: Mapping[str, Any]) -> Any:
    """What the centre makes of frames of messages, as :func:`estimate_frame` gives it.

    fusion:   the centre.
    messages: agent -> frame with the columns z1, z2, ..., all of one kind and as long as one another; pandas frames
              need the same index too, since it identifies rows.
    """
    if not isinstance(messages, Mapping) or not messages:
        raise InvalidRequest("messages: expected agent -> frame, found something else or none")
    kinds = {_kind(frame, f"messages[{agent!r}]") for agent, frame in messages.items()}
    if len(kinds) > 1:
        raise InvalidRequest("messages: expected frames of one kind, found pandas and polars")
    first, index = None, None
    for agent, frame in messages.items():
        if first is None:
            first, index = agent, getattr(frame, "index", None)
        elif index is not None and not index.equals(frame.index):
            raise InvalidReading(
                f"messages: the index of {agent!r} differs from that of {first!r}; give every frame the same one, as "
                "frame.reindex(index) does: rows without a message are then not a number"
            )
    return estimate_frame(fusion.estimate(messages), kinds.pop(), index=index)


def estimate_frame(estimate: Estimate, kind: Kind = "pandas", *, index: Any = None) -> Any:
    """Estimates as a frame: a column for each public parameter, ``deviation of`` it, ``missing``, ``contradicting``.

    estimate: of one row or many.
    kind:     "pandas" or "polars".
    index:    of the rows, for pandas.
    """
    if kind not in ("pandas", "polars"):
        raise InvalidRequest(f"kind: expected 'pandas' or 'polars', found {kind!r}")
    deviation = np.atleast_2d(np.where(estimate.estimable, estimate.deviation, np.nan))
    columns: dict[str, Any] = dict(zip(estimate.labels, np.atleast_2d(estimate.public).T, strict=True))
    columns |= {
        f"deviation of {label}": each for label, each in zip(estimate.labels, deviation.T, strict=True)
    }
    for name in ("missing", "contradicting"):
        agents = getattr(estimate, name)
        columns[name] = [";".join(each) for each in ([agents] if estimate.single else agents)]
    return _made(columns, kind, index)


def _kind(frame: Any, name: str) -> Kind:
    found = type(frame).__module__.partition(".")[0]
    if not hasattr(frame, "columns") or found not in ("pandas", "polars"):
        raise InvalidRequest(
            f"{name}: expected a pandas or polars frame, found {type(frame).__name__}; arrays go to sanitize and "
            "estimate themselves"
        )
    return "pandas" if found == "pandas" else "polars"


def _made(columns: Mapping[str, Any], kind: Kind, index: Any) -> Any:
    try:
        package = import_module(kind)
    except ImportError as error:
        if kind == "polars":
            raise MissingExtra("frames of polars need it: pip install polars") from error
        raise missing_extra("frames of pandas need it", "tables") from error
    return package.DataFrame(dict(columns), **({"index": index} if kind == "pandas" else {}))
