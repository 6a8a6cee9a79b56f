"""``veilnet live``: what goes with a network over a broker, one file per command of this group.

Add a command by a function as in any verb's module, and its name below.
"""

from __future__ import annotations

from collections.abc import Callable

from veilnet.cli import (
    _live_budget,
    _live_demo,
    _live_keys,
    _live_page,
    _live_read,
    _live_rotate,
    _live_status,
)

commands: dict[str, Callable[..., object]] = {
    "demo": _live_demo.command,
    "keys": _live_keys.command,
    "budget": _live_budget.command,
    "status": _live_status.command,
    "page": _live_page.command,
    "read": _live_read.command,
    "rotate": _live_rotate.command,
}
