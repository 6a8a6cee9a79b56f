"""The studio's audit: on simulated rows, on rows that were held out, and, saying what that is worth, on the fit's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")

import veilnet as vn
from veilnet.studio import tasks
from veilnet.studio.app import report_page
from veilnet.studio.views import view
from veilnet.studio.workbench import Workbench

COLUMNS = ("T_out", "people", "k1", "k2", "h1")
ROLES = {"agents": {"kitchen": ["k1", "k2"], "hall": ["h1"]}, "public": ["T_out"], "private": ["people"]}


def rows_of(seed: int, leak: float = 0.0, count: int = 400) -> bytes:
    """A log; ``leak`` is how much more the hall's reading tells of people than it did when the model was made."""
    mixing = np.random.default_rng(4).standard_normal((2, 3))
    rng = np.random.default_rng([4, seed])
    x = rng.standard_normal((count, 2)) * [5.0, 2.0]
    readings = x @ mixing + 0.3 * rng.standard_normal((count, 3))
    readings[:, 2] += leak * x[:, 1]
    lines = [",".join(COLUMNS), *(",".join(f"{v:.6f}" for v in row) for row in np.hstack([x, readings]))]
    return "\n".join(lines).encode() + b"\n"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workbench]:
    # Only what the rows decide: the other sections are the same for all of them.
    fewer = partial(vn.audit, only=["attackers"], trials=vn.Trials(quick=True, attackers=()))
    monkeypatch.setattr(tasks, "audit", fewer)
    made = Workbench()
    made.open_table("log.csv", rows_of(0))
    assert made.table is not None
    made._fitted(made.table, vn.fit_report(made.table.file, **ROLES))
    made.cancel("trace")
    yield made
    made.close()


def test_rows_that_were_held_out_are_judged_as_the_library_judges_them(
    bench: Workbench, tmp_path: Path
) -> None:
    bench.hold_out("other day.csv", rows_of(1))
    bench.open_table("next.csv", b"a,b\n1,2\n3,4\n")  # neither takes the other's place
    choices = {choice["rows"]: choice for choice in view(bench)["loaded"]["audit"]}
    assert choices["held out"]["table"] == "other day.csv"
    assert choices["held out"]["command"] == "veilnet audit plan --data 'other day.csv'"
    found = tasks.attack(lambda _: None, lambda *_: None, *_given(bench, "held out"))
    (tmp_path / "held.csv").write_bytes(rows_of(1))
    expected = tasks.audit(bench.now.plan, tmp_path / "held.csv")
    assert [(row.what, row.verdict) for row in found.rows] == [
        (row.what, row.verdict) for row in expected.rows
    ]
    assert found.on_data == expected.on_data is not None
    bench._audited(found)
    assert "people" in view(bench)["loaded"]["html"]["audit"]


def test_rows_the_model_was_made_from_are_called_no_honest_audit(bench: Workbench) -> None:
    found = tasks.attack(lambda _: None, lambda *_: None, *_given(bench, "fitted to"))
    caution = found.rows[-1]
    assert caution.verdict == "warn"
    assert "fitted to these rows" in caution.sentence
    bench._audited(found)
    assert "fitted to these rows" in view(bench)["loaded"]["html"]["audit"]
    assert b"fitted to these rows" in report_page(bench.now)
    simulated = _given(bench, "simulated")
    assert simulated[1:] == (None, False)


def _given(bench: Workbench, rows: str) -> tuple[Any, ...]:
    """What the job is handed; the job itself is not begun."""
    begun: list[tuple[Any, ...]] = []
    bench._start = lambda _name, _task, given, _done: begun.append(given)  # type: ignore[method-assign,assignment]
    bench.audit({"rows": rows})
    return begun[0]


@pytest.mark.parametrize("rows", ["all", "held out", 3])
def test_rows_that_are_not_there_are_refused(bench: Workbench, rows: object) -> None:
    with pytest.raises(vn.VeilnetError, match="rows:"):
        bench.audit({"rows": rows})
    assert "audit" not in bench.jobs


def test_a_table_without_the_truth_fails_with_the_message_of_the_library(bench: Workbench) -> None:
    bench.hold_out("half.csv", b"k1,k2,h1\n" + b"1,2,3\n" * 200)
    with pytest.raises(vn.VeilnetError, match="no column 'people'"):
        tasks.attack(lambda _: None, lambda *_: None, *_given(bench, "held out"))
