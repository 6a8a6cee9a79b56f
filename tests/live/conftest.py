"""Keys for two agents and a reader, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from veilnet.live.keys import KeyFolder, make_keys

AGENTS = ("kitchen", "Küche/+")


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyFolder:
    return make_keys(Path(tmp_path_factory.mktemp("keys")), AGENTS, readers=["telegraf"]).keys
