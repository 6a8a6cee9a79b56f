"""What a test does on a machine that lacks something."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_or_fail(reason: str) -> NoReturn:
    """Skip a test for what the machine lacks; continuous integration has it all, and skips nothing."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
