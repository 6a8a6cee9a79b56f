"""The template: a house that shows what is at stake, and the command that writes it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.network_files import (
    assert_same,
)
from veilnet.cli import run
from veilnet.io.template import house, template_text


def test_the_house_shows_what_is_at_stake() -> None:
    network = house()
    prior = network.prior
    assert prior is not None
    assert prior.covariance is not None
    raw = vn.crlb(network)
    for name, rows in network.private.items():
        known = np.trace(rows @ raw @ rows.T)
        assert known < 0.15 * np.trace(rows @ prior.covariance @ rows.T), name
    assert set(network.units) <= {*network.parameters, *network.public, *network.private}
    # offset and prior mean are physical: an ordinary room at 20 °C, some 500 ppm of CO2
    expected = network.H @ prior.mean + network.offset
    kitchen = expected[network.blocks.rows(network.position["kitchen"])]
    assert 18 < kitchen[0] < 25
    assert 420 < kitchen[1] < 900


def test_init_writes_the_template(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    assert run(["init", str(path)]) == 0
    assert str(path) in capsys.readouterr().out.replace("\n", "")
    assert path.read_text(encoding="utf-8") == template_text()
    assert_same(vn.Network.load(path), house())
    path.write_text("precious")
    assert run(["init", str(path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert path.read_text() == "precious"
    assert run(["init", str(path), "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"written": str(path)}
    assert path.read_text(encoding="utf-8") == template_text()
    assert run(["init", str(tmp_path / "mine.json")]) == 2
    assert "ending in .toml" in capsys.readouterr().err
    assert run(["init", "-"]) == 0
    assert capsys.readouterr().out == template_text()


def test_init_without_a_name_writes_house_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init"]) == 0
    assert (tmp_path / "house.toml").read_text(encoding="utf-8") == template_text()
