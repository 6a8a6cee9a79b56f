"""Jobs of the studio that tell what they find at first and then go on until they are ended.

Whoever tests that a job can be ended must find it at work, however fast the job and however slow the test.
"""

from __future__ import annotations

from multiprocessing import parent_process
from typing import Any

import pytest

from veilnet.studio import tasks


def _until_ended() -> None:
    """Waits; a process whose parent is gone does not stay behind."""
    parent = parent_process()
    assert parent is not None
    parent.join()


def trace(tell: Any, progress: Any, *given: Any) -> None:
    """The first point of the frontier, and never another."""

    def first(found: Any) -> None:
        tell(found)
        _until_ended()

    _REAL["trace"](first, progress, *given)


def search(_tell: Any, progress: Any, *_given: Any) -> None:
    """A search for a plan, or an attack on one, that finds nothing."""
    progress("searching", 0.0)
    _until_ended()


_REAL = {"trace": tasks.trace}


def make_endless(patch: pytest.MonkeyPatch) -> None:
    """Of all jobs but the fit."""
    patch.setattr(tasks, "trace", trace)
    patch.setattr(tasks, "refine", search)
    patch.setattr(tasks, "attack", search)
