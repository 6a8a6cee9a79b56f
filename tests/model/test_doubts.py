"""Doubts travel: from fit into the file of the network, into plans, and to whoever uses them."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn

DOUBTS = (
    vn.Doubt("noise-law", 'The noise is not Gaussian: "T2" (excess kurtosis 4, skewness −1).'),
    vn.Doubt("few-rows", "Few rows: 12 for 2 parameters.", accepted=True),
)


def network(**given) -> vn.Network:
    return vn.Network(
        {"a": np.eye(2), "b": [[1.0, 1.0]]}, 1.0, {"u": [[1.0, 0.0]]}, {"g": [[0.0, 1.0]]}, **given
    )


@pytest.mark.parametrize("suffix", [".toml", ".json", ".npz"])
def test_files_keep_doubts_and_what_was_accepted(suffix, tmp_path) -> None:
    network(doubts=DOUBTS).save(tmp_path / f"n{suffix}")
    assert vn.Network.load(tmp_path / f"n{suffix}").doubts == DOUBTS
    network().save(tmp_path / f"plain{suffix}")
    assert vn.Network.load(tmp_path / f"plain{suffix}").doubts == ()


def test_plans_keep_them_and_what_is_accepted_later_makes_no_other_network(tmp_path) -> None:
    doubtful = network(doubts=DOUBTS)
    vn.design(doubtful).save(tmp_path / "plan")
    loaded = vn.Plan.load(tmp_path / "plan")
    assert loaded.network.doubts == DOUBTS
    for other in (doubtful.accepting(["noise-law"]), network()):
        assert all(check.ok for check in vn.verify(tmp_path / "plan", other))
        vn.design(other).save(tmp_path / "plan")


def test_one_row_of_a_stream_is_as_doubtful() -> None:
    moving = vn.Dynamics(transition=0.5 * np.eye(2), noise=np.eye(2))
    assert network(dynamics=moving, doubts=DOUBTS).one_row.doubts == DOUBTS


def test_accepting_says_so_of_those_and_no_others() -> None:
    found = network(doubts=DOUBTS).accepting(["noise-law"])
    assert [doubt.accepted for doubt in found.doubts] == [True, True]
    assert [doubt.words for doubt in found.doubts] == [doubt.words for doubt in DOUBTS]
    with pytest.raises(
        vn.InvalidRequest, match="no doubt 'noise'; the network's doubts are noise-law, few-rows"
    ):
        found.accepting(["noise"])
    assert network(doubts=DOUBTS).accepting("noise-law").doubts == found.doubts
    for wrong in (5, [5], [["noise-law"]]):
        with pytest.raises(vn.InvalidRequest, match="accept: expected the name of a doubt"):
            found.accepting(wrong)  # type: ignore[arg-type]
    with pytest.raises(vn.InvalidRequest, match="the network has no doubts"):
        network().accepting(["noise-law"])


@pytest.mark.parametrize(
    ("doubts", "words"),
    [
        (["noise"], "expected veilnet.Doubt, found str"),
        ([vn.Doubt("", "words")], "a name for each"),
        ([vn.Doubt("name", " ")], "expected words for each"),
        ([vn.Doubt("name", "words", 1)], "True or False, found 1"),
        ([DOUBTS[0], DOUBTS[0]], "'noise-law' is given twice"),
        (5, "expected a list of veilnet.Doubt, found 5"),
        (0, "expected a list of veilnet.Doubt, found 0"),
        (DOUBTS[0], "expected a list of veilnet.Doubt"),
        ([vn.Doubt("Noise law", "words")], "small letters, digits and hyphens"),
        ([vn.Doubt("a" * 41, "words")], "small letters, digits and hyphens"),
        ([vn.Doubt("name\n", "words")], "small letters, digits and hyphens"),
        ([vn.Doubt("name", "clear \x1b[2J")], "name: expected words of at most 2000 printable characters"),
        ([vn.Doubt("name", "left \u202e right")], "name: expected words of at most 2000 printable"),
        ([vn.Doubt("name", "w" * 2001)], "found 2001"),
    ],
)
def test_what_is_no_doubt_is_refused(doubts, words) -> None:
    with pytest.raises(vn.InvalidNetwork, match=words):
        network(doubts=doubts)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('[doubts]\nnoise = "white"', "doubts.noise: expected a table"),
        ("[doubts.noise]\naccepted = true", "doubts.noise.words: missing"),
        ('[doubts.noise]\nwords = "x"\naccepted = 1', "doubts.noise.accepted: expected true or false"),
        ('[doubts.noise]\nwords = "x"\nwhy = 1', "doubts.noise.why: no such key"),
        ('[doubts.noise]\nwords = "\\u001b[2J"', "printable characters"),
    ],
)
def test_files_with_something_else_for_doubts_are_refused(line, words, tmp_path) -> None:
    file = tmp_path / "n.toml"
    network().save(file)
    file.write_text(f"{file.read_text()}\n{line}\n")
    with pytest.raises(vn.InvalidNetwork, match=words):
        vn.Network.load(file)
