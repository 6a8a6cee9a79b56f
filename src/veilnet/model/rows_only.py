"""Questions that are about rows which have nothing to do with one another, and so are refused for streams."""

from __future__ import annotations

from veilnet._core.errors import InvalidRequest
from veilnet.model.network import Network

__all__ = ["refuse_stream"]


def refuse_stream(network: Network) -> None:
    """Refuse a stream where the answer would be about one row alone, as if the others told nothing of it."""
    if network.is_stream:
        raise InvalidRequest(
            "network: this is answered for rows that have nothing to do with one another, and the rows of a stream "
            "tell of each other; ask it of network.one_row if one row by itself is meant"
        )
