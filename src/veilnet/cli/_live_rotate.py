"""``veilnet live rotate``: put away what is old in a centre's store."""

from __future__ import annotations

from pathlib import Path

from veilnet.cli._command_line import argument


def command(
    store: Path = argument("The centre's --out, while no centre runs."),
    archive: Path = argument("A new file, which gets all that the store holds."),
) -> int:
    """Copy a centre's store to an archive, and leave the newest 1,000 epochs in it.

    The centre goes on with the same store, which remembers up to which epoch all was put away: messages of those
    epochs are refused, so that nobody can have last year's count again. A store begun by hand knows nothing of that.
    """
    from veilnet._core.errors import InvalidRequest
    from veilnet.cli._shared import tell
    from veilnet.live.centre_store import EPOCHS_KEPT, CentreStore

    if not store.is_file():
        raise InvalidRequest(f"{store}: no such file; give the --out of 'veilnet center'")
    with CentreStore(store) as opened:
        last = opened.put_away(archive)
    if not last:
        tell(f"Nothing was put away: {store} holds no more than {EPOCHS_KEPT} epochs.")
        return 1
    tell(f"Epochs up to {last} were put away: {archive} holds all, {store} the rest.")
    return 0
