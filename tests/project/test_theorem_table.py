"""The theorem table is true: what it names exists, all of the paper is listed. And lemmas that have no code."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import null_space

import veilnet as vn
from helpers import networks
from veilnet.bounds.knowledge import gain

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "reference" / "theorems.md"
STATUS = {"printed", "mended", "extended"}

# Everything numbered in the paper, and the labels of the equations and problems the code stands on.
NUMBERED = [
    "Definition 1",
    "Lemma 1 (i)",
    "Lemma 1 (ii)",
    "Lemma 2",
    "Lemma 3",
    "Proposition 1 (i)",
    "Proposition 1 (ii)",
    "Theorem 1",
    "Theorem 2",
    "Algorithm 1",
    "Algorithm 2",
    "Algorithm 3",
    "Example 1",
    "Example 2",
    "Table I",
    "Figure 1",
    "Figure 2",
    "Figure 3",
    "Figure 4",
    "Problem P0",
    "Problem P1",
    "Problem P2",
]
# What has no number in the paper and is a statement all the same: how its row begins.
UNNUMBERED = [
    "Bounds in order (section II)",
    "Square H (section IV)",
    "Partial case of Theorem 2 (section IV)",
    "Decision procedure (section V)",
]
LABELS = [
    "eq:Utility_Loss",
    "eq:Privacy_Gain",
    "eq:utility_function",
    "eq:privacy_function",
    "eq:perturbed_CRLB",
    "eq:decomposed_eq_no_prior",
    "eq:decomposed_eq_with_prior",
    "eq:perturbed_CRLB_with_prior",
    "eq:constraint_privacy",
    "eq:seq_opt_crlb",
    "alt_u",
    "alt_p",
    "opt:P0",
    "opt:P1",
    "opt:P2",
    "opt:P3",
    "fig:maximum_privacy_no_prior",
    "fig:maximum_privacy_with_prior",
    "fig:utility_privacy_tradeoff",
    "fig:sequential_iteration",
]
ERRATA = range(1, 15)
ERRATA_PAGE = ROOT / "docs" / "explanation" / "mathematics.md"


def rows() -> list[list[str]]:
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]
    assert all(len(each) in (5, 6) for each in cells), [each[0] for each in cells if len(each) not in (5, 6)]
    return cells


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@cache
def functions_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def find(name: str) -> object:
    """The object of a dotted name: the longest part of it that is a module, then attributes."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError as error:
            if not ".".join(parts[:cut]).startswith(str(error.name)):
                raise
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AssertionError(f"{name} does not exist")


@pytest.mark.parametrize("row", rows(), ids=lambda row: str(row[0]).split(" (")[0])
def test_every_name_in_the_table_exists(row: list[str]) -> None:
    _, _, code, tests, status, *_ = row
    assert status in STATUS
    names = quoted(code)
    assert names
    for name in names:
        assert callable(find(name)), name
    named = quoted(tests)
    assert named
    for reference in named:
        file, _, test = reference.partition("::")
        assert test in functions_in(ROOT / file), reference
        assert test.startswith("test_")
    if status == "mended":
        assert "erratum" in row[5], "a mended item says what was wrong"


def test_everything_in_the_paper_is_listed() -> None:
    titles = [row[0] for row in rows()]
    for item in NUMBERED:
        assert [title for title in titles if re.match(rf"{re.escape(item)}(?![\w]| \(i)", title)], item
    for beginning in UNNUMBERED:
        assert [title for title in titles if title.startswith(beginning)], beginning
    listed = " ".join(titles)
    for label in LABELS:
        assert re.search(rf"{re.escape(label)}\b(?!_)", listed), label


def test_every_erratum_is_in_a_mended_row() -> None:
    mended = " ".join(row[5] for row in rows() if row[4] == "mended")
    for number in ERRATA:
        assert re.search(rf"erratum {number}\b", mended), number


def test_every_erratum_has_its_number_in_the_mathematics_and_a_test_of_its_own() -> None:
    section = ERRATA_PAGE.read_text(encoding="utf-8").split("## 6. Errata of the paper")[1].split("\n## ")[0]
    assert [int(each) for each in re.findall(r"^(\d+)\. ", section, re.MULTILINE)] == list(ERRATA)
    for number in ERRATA:
        rows_with_it = [
            row for row in rows() if row[4] == "mended" and re.search(rf"erratum {number}\b", row[5])
        ]
        named = [reference for row in rows_with_it for reference in quoted(row[3])]
        assert [each for each in named if f"::test_erratum_{number}_" in each], number


def test_the_table_test_would_notice() -> None:
    with pytest.raises((AssertionError, AttributeError)):
        find("veilnet.bounds.knowledge.no_such_function")
    with pytest.raises(AssertionError):
        find("no_such_package.anything")
    assert "test_no_such_test" not in functions_in(Path(__file__))


# --- the lemmas that are steps of proofs, and no function of their own


def test_lemma_2_a_bounded_matrix_does_not_matter_in_the_limit() -> None:
    """tr(A (S_n + B)^-1 A') -> 0 iff tr(A S_n^-1 A') -> 0, for commuting S_n growing in some directions."""
    rng = np.random.default_rng(2)
    root = rng.standard_normal((6, 6))
    basis = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    growing = basis[:, :3]

    def traces(rows: np.ndarray, size: float) -> tuple[float, float]:
        matrix = basis @ np.diag([size, size, size, 1.0, 1.0, 1.0]) @ basis.T
        both = (np.linalg.solve(each, rows.T) for each in (matrix + root @ root.T, matrix))
        with_b, without = (float(np.trace(rows @ solved)) for solved in both)
        return with_b, without

    inside = rng.standard_normal((2, 3)) @ growing.T
    outside = inside + 0.3 * basis[:, 4]
    assert max(traces(inside, 1e9)) < 1e-7
    assert min(traces(outside, 1e9)) > 1e-3


@pytest.mark.parametrize("prior", ["none", "covariance"])
def test_perfect_utility_iff_no_noise_meets_a_share(prior: str) -> None:
    """What Lemma 2 gives: u(I, Θ) = 0 iff U Ψ_i Θ_i = 0 for every agent."""
    network = networks.random_network(seed=4, sizes=(4, 5, 3), noise="joint", prior=prior)
    rng = np.random.default_rng(5)
    psi = gain(network)
    free, meeting = {}, {}
    for place, agent in enumerate(network.agents):
        share = network.U @ psi[:, network.blocks.rows(place)]
        hidden = null_space(share)
        columns = hidden @ rng.standard_normal((hidden.shape[1], 2))
        free[agent] = vn.Sanitizer(noise=10 * columns @ columns.T)
        bent = columns + 0.1 * share.T @ np.ones((share.shape[0], 2)) / np.linalg.norm(share)
        meeting[agent] = vn.Sanitizer(noise=10 * bent @ bent.T)
    assert abs(vn.utility(network, free)) < 1e-10
    for agent in network.agents:
        assert vn.utility(network, {**free, agent: meeting[agent]}) < -1e-5


def test_lemma_3_noise_that_spares_one_and_drowns_the_other() -> None:
    """Some S has tr(ASA') = 0 and tr(B (nS + I/n)^-1 B') -> 0 iff AB' = 0."""
    rng = np.random.default_rng(6)
    spared = rng.standard_normal((2, 7))
    hidden = null_space(spared)
    strength = hidden @ hidden.T  # the largest S with tr(ASA') = 0, up to scale

    def left(drowned: np.ndarray, n: float) -> float:
        return float(np.trace(drowned @ np.linalg.solve(n * strength + np.eye(7) / n, drowned.T)))

    orthogonal = rng.standard_normal((3, 5)) @ hidden.T
    np.testing.assert_allclose(spared @ orthogonal.T, 0, atol=1e-12)
    assert left(orthogonal, 1e6) < 1e-4
    assert left(orthogonal + 0.1 * spared[0], 1e6) > 1.0
