"""What is asked at the workbench is what the command line asks, down to the plan that answers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")

import veilnet as vn
from helpers.small_network import small_network
from veilnet import cli
from veilnet.io.template import house
from veilnet.plans.fingerprint import network_fingerprint
from veilnet.studio.app import network_text
from veilnet.studio.asking import Ask
from veilnet.studio.nearby import Nearby
from veilnet.studio.views import view
from veilnet.studio.workbench import Workbench

pytestmark = pytest.mark.small_search


@pytest.fixture
def bench() -> Iterator[Workbench]:
    made = Workbench()
    made.load("my network.toml", small_network())
    made.cancel("trace")
    yield made
    made.close()


def answered(bench: Workbench) -> None:
    """Wait for a search, and no other."""
    bench.cancel("trace")
    assert bench.jobs["refine"].wait(900)
    assert bench.jobs["refine"].state == "done", bench.jobs["refine"].error


ASKS = {
    "privacy": Ask(privacy={"who": 6.0, "when": 0.25}),
    "loss": Ask(loss=0.03),
    "much loss": Ask(loss=1.25),
    "directions and giving up": Ask(privacy={"who": 2.4}, worst=("who",), give_up=("when",)),
    "a change that is seen": Ask(privacy={"who": 0.7, "when": 0.25}, seen=("who",)),
    "free": Ask(),
}


class _Asked(vn.VeilnetError):
    """Raised in place of a design, once it is known what is asked of it."""


def asked_of(design_of: str, monkeypatch: pytest.MonkeyPatch, ask: Callable[[], object]) -> dict[str, Any]:
    """What ``design`` is called with; it is not run."""
    heard: dict[str, Any] = {}

    def design(network: vn.Network, **options: Any) -> None:
        left_out = {"method": "auto", "give_up": (), "partial": False, "prove": False}
        heard.update(network=network)
        heard.update({k: v for k, v in options.items() if v is not None and left_out.get(k) != v})
        heard.pop("progress", None)
        raise _Asked("enough")

    monkeypatch.setattr(design_of, design)
    with suppress(_Asked):
        ask()
    assert heard
    return heard


def growths(asked: dict[str, Any]) -> dict[tuple[str, str], float]:
    """What is asked of each parameter, and how, as one number: growths of variances, or an AUC."""
    targets = dict(asked.get("privacy") or {})
    if "utility_loss" in asked:
        targets["the public error"] = asked["utility_loss"]
    found = {}
    for name, each in targets.items():
        kind = "" if isinstance(each, float | vn.Times) else type(each).__name__
        number = {vn.Auc: "most", vn.Worst: "privacy", vn.Times: "growth"}.get(type(each))
        value = each if number is None else getattr(each, number)
        found[name, kind] = float(value)
    return found


@pytest.mark.parametrize("error", [None, 0.1])
@pytest.mark.parametrize("name", ASKS)
def test_the_command_line_asks_the_same(
    name: str, error: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    stated, ask = small_network(), ASKS[name]
    stated = stated.replace(
        private={**stated.private, **{each: vn.Secret(stated.private[each], 1.0) for each in ask.seen}}
    )
    network = stated if error is None else stated.replace(model_error=error)
    stated.save(tmp_path / "my network.toml")
    monkeypatch.chdir(tmp_path)
    words = shlex.split(ask.command("my network.toml", error))
    assert words[0] == "veilnet"
    typed = asked_of("veilnet.design", monkeypatch, lambda: cli.run(words[1:]))
    clicked = asked_of("veilnet.studio.asking.design", monkeypatch, lambda: ask.answered(network))
    assert network_fingerprint(typed.pop("network")) == network_fingerprint(clicked.pop("network"))
    assert typed.keys() == clicked.keys()
    assert typed.get("give_up") == clicked.get("give_up")
    # the command has six digits of each ratio of standard errors
    assert growths(typed) == pytest.approx(growths(clicked), abs=2e-5)
    assert "enough" in capsys.readouterr().err


def test_every_direction_is_asked_for_by_a_search_and_the_plan_before_stays_until_it_ends(
    bench: Workbench,
) -> None:
    before = bench.now.plan
    bench.ask({"privacy": {"who": 2.4}, "worst": ["who"]})
    shown = view(bench)["loaded"]
    assert bench.now.plan is before
    assert shown["searching"]
    assert shown["asked"]["worst"] == ["who"]
    assert "--private-error" not in shown["command"]  # the command of the plan that is shown
    answered(bench)
    shown = view(bench)["loaded"]
    assert not shown["searching"]
    assert f"who=worst:{3.4**0.5:.6g}x" in shown["command"]
    assert bench.now.plan.worst_direction["who"] >= 2.4
    assert shown["private"][0]["fold"] == pytest.approx(np.sqrt(1 + bench.now.plan.worst_direction["who"]))


def test_a_search_that_is_cancelled_leaves_the_question_before(bench: Workbench) -> None:
    bench.ask({"privacy": {"who": 2.4}, "worst": ["who"]})
    bench.cancel("refine")
    shown = view(bench)["loaded"]
    assert not shown["searching"]
    assert shown["asked"]["privacy"] == {}
    assert bench.now.plan.method == "perfect"


def test_what_is_given_up_is_no_floor_any_more() -> None:
    """At once, too; the note of it stays in the plan, and nothing else is given up with it."""
    network = house()
    kept = Nearby(vn.check(network))
    given_up = kept.giving_up(frozenset({"gait"}))
    assert kept.giving_up(frozenset()) is kept
    targets = {"presence": 12.0, "cooking": 0.0, "gait": 0.0}
    with_floor, without = kept.plan(targets), given_up.plan(targets)
    ceiling = kept.verdict.ceiling
    assert with_floor.privacy["gait"] >= ceiling["gait"] * (1 - 1e-6)
    assert without.privacy["cooking"] >= ceiling["cooking"] * (1 - 1e-6)
    assert without.given_up == ("gait",)
    assert "gait" not in without.floors
    assert without.privacy["gait"] < 0.5 * with_floor.privacy["gait"]


def test_what_is_given_up_is_in_the_command_until_it_has_a_number(bench: Workbench) -> None:
    bench.ask({"privacy": {"who": 6.0}, "give_up": ["when"]})
    assert bench.now.plan.given_up == ("when",)
    assert view(bench)["loaded"]["command"].endswith("--private-error who=2.64575x --give-up when --out plan")
    bench.ask({"privacy": {"who": 6.0, "when": 0.1}, "give_up": ["when"]})
    assert bench.now.plan.given_up == ()
    assert view(bench)["loaded"]["command"].endswith(
        "--private-error who=2.64575x --private-error when=1.04881x --out plan"
    )


def test_a_model_that_may_be_off_is_asked_the_same_question_again(bench: Workbench, tmp_path: Path) -> None:
    bench.ask({"privacy": {"who": 6.0}})
    bench.doubt_model({"model_error": 0.1})
    bench.cancel("trace")
    now = bench.now
    assert now.network.model_error == 0.1
    assert now.plan.privacy["who"] >= 6.0
    shown = view(bench)["loaded"]
    command = "veilnet design 'my network.toml' --model-error 0.1 --private-error who=2.64575x --out plan"
    assert shown["command"] == command
    assert shown["network"]["model_error"] == 0.1
    (tmp_path / "taken.toml").write_bytes(network_text(now))
    assert vn.Network.load(tmp_path / "taken.toml").model_error == 0.1
    bench.doubt_model({"model_error": 0.0})
    assert "--model-error" not in view(bench)["loaded"]["command"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"privacy": {"who": 6.0}, "give_up": "when"}, "give_up: expected a list"),
        ({"privacy": {"who": 6.0}, "give_up": ["warmth"]}, "'warmth' is no private parameter"),
        ({"privacy": {"who": 6.0}, "worst": [3]}, "worst: expected a list"),
    ],
)
def test_names_that_make_no_sense_are_refused(bench: Workbench, given, words: str) -> None:
    before = bench.now.plan
    with pytest.raises(vn.VeilnetError, match=words):
        bench.ask(given)
    assert bench.now.plan is before


@pytest.mark.parametrize("given", [{"model_error": 1.5}, {"model_error": "much"}, {}, {"run": 1}])
def test_an_error_that_no_model_has_is_refused(bench: Workbench, given) -> None:
    with pytest.raises(vn.VeilnetError, match="model"):
        bench.doubt_model(given)
    assert bench.now.network.model_error == 0.0


def test_networks_that_only_a_search_answers_say_so(bench: Workbench) -> None:
    assert view(bench)["loaded"]["by_search"] == ""
    bench.open_example(stream=True)
    shown = view(bench)["loaded"]
    assert not shown["quick"]
    assert "search" in shown["by_search"]
    assert "stream" in shown["network"]["why_not"]
    bench.load("n.toml", small_network(attic=[[0, 0, 0, 1], [0, 0, 0, 1]], hall=[[1, 1, 1, 0], [1, 2, 0, 0]]))
    shown = view(bench)["loaded"]
    assert not shown["quick"]
    assert "nothing about when" in shown["by_search"]


def test_secrets_are_dragged_by_their_auc() -> None:
    """Of one row the answer comes at once; of several, or below guessing, it does not."""
    network = small_network().replace(resolution=0)
    secrets = {"when": vn.Secret(network.private["when"], 3.0), "who": vn.Secret(network.private["who"], 1.0)}
    bench = Workbench()
    try:
        bench.load("network.toml", network.replace(private=secrets))
        bench.cancel("trace")
        shown = {each["name"]: each for each in view(bench)["loaded"]["private"]}
        free = bench.now.verdict.detectability["when"].auc
        assert shown["when"]["auc"]
        assert shown["when"]["free"] == shown["when"]["fold"] == free
        wanted = round(0.5 + 0.6 * (free - 0.5), 3)
        bench.ask({"privacy": {"when": wanted}})
        assert bench.now.plan.detectability["when"].auc == pytest.approx(wanted, abs=1e-4)
        assert bench.now.plan.detectability["when"].auc <= wanted
        loaded = view(bench)["loaded"]
        assert f"when=auc:{wanted}" in loaded["command"]
        assert f"AUC {wanted:.3f}" in loaded["private"][0]["words"]
        assert "AUC" in loaded["headline"]
        with pytest.raises(vn.Infeasible, match="guessing"):
            bench.ask({"privacy": {"when": 0.4}})
        bench.what_if({"betrayed": ["attic"]})
        assert "AUC" in str(view(bench)["loaded"]["html"]["what_if"])
        before = bench.now.plan
        bench.ask({"privacy": {"who": 0.55}})
        assert bench.now.plan is before
        assert view(bench)["loaded"]["searching"]
    finally:
        bench.close()
