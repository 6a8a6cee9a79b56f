"""The lower-bound theorem in arithmetic of 40 digits, from a network's numbers and a proof's multipliers alone.

Written from the statement of the theorem, not from its check: matrices are built entry by entry as mpmath
matrices, the standard form included, so that nothing of the package's floating point is believed but the
numbers of the network, its choice of coordinates (any invertible matrix is one) and the multipliers.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np

import veilnet as vn
from veilnet.plans.lower_bound.lifted_form import lifted_form
from veilnet.plans.lower_bound.proof import Proof
from veilnet.plans.lower_bound.rapidity import Rapidities

DIGITS = 40


def _exact(array: Any) -> Any:
    return mp.matrix(np.atleast_2d(np.asarray(array, dtype=float)).tolist())


def _kron(left: Any, right: Any) -> Any:
    product = mp.matrix(left.rows * right.rows, left.cols * right.cols)
    for i in range(left.rows):
        for j in range(left.cols):
            for k in range(right.rows):
                for m in range(right.cols):
                    product[i * right.rows + k, j * right.cols + m] = left[i, j] * right[k, m]
    return product


def _trace_first(matrix: Any, first: int, second: int) -> Any:
    total = mp.matrix(second, second)
    for p in range(first):
        total += matrix[p * second : (p + 1) * second, p * second : (p + 1) * second]
    return total


def _positive_part(matrix: Any) -> Any:
    values, vectors = mp.eigsy((matrix + matrix.T) / 2)
    kept = mp.diag([value if value > 0 else mp.mpf(0) for value in values])
    return vectors * kept * vectors.T


def _lowest(matrix: Any) -> Any:
    return min(mp.eigsy((matrix + matrix.T) / 2, eigvals_only=True))


def _highest(matrix: Any) -> Any:
    return max(mp.eigsy((matrix + matrix.T) / 2, eigvals_only=True))


def _turn(coefficients: Any, first: int, second: int) -> Any:
    """K with K^PT = -K from its coefficients, straight from the definition: Σ c (e_p e_q' - e_q e_p') ⊗ (same)."""
    total = mp.matrix(first * second, first * second)
    pairs_1 = [(p, q) for p in range(first) for q in range(p + 1, first)]
    pairs_2 = [(a, b) for a in range(second) for b in range(a + 1, second)]
    for k, (p, q) in enumerate(pairs_1):
        for m, (a, b) in enumerate(pairs_2):
            c = mp.mpf(float(coefficients[k, m]))
            for sign, row, column in ((1, (p, a), (q, b)), (-1, (p, b), (q, a))):
                i, j = row[0] * second + row[1], column[0] * second + column[1]
                total[i, j] += sign * c
                total[j, i] += sign * c
    return total


class ExactForm:
    """The lifted form in 40 digits."""

    def __init__(self, network: vn.Network, proof: Proof) -> None:
        back = mp.inverse(_exact(network.raw_triangle))
        prior = mp.matrix(network.L, network.L)
        if network.prior is not None:
            given = network.prior
            prior = (
                _exact(given.information)
                if given.given == "information"
                else mp.inverse(_exact(given.covariance))
            )
        noise = _exact(network.R.matrix())
        raw = prior + _exact(network.H).T * mp.inverse(noise) * _exact(network.H)
        error = mp.inverse(raw)
        self.slack = mp.mpf(0)
        self.information = back.T * prior * back
        roots = [mp.cholesky(_exact(network.R.block(i))) for i in range(network.S)]
        self.observe = [
            mp.inverse(root) * _exact(network.observe[agent]) * back
            for root, agent in zip(roots, network.agents, strict=True)
        ]
        nuisance = 0
        if proof.common is not None:
            nuisance = proof.common.shape[1]
            self._split(network, proof, noise, roots)
        self.size = network.L + nuisance
        self.public = self._scaled(network.U, back, error, nuisance)
        self.private = {
            name: self._scaled(
                proof.mixed[name] @ rows if name in proof.mixed else rows, back, error, nuisance
            )
            for name, rows in network.private.items()
        }

    def _scaled(self, rows: Any, back: Any, error: Any, nuisance: int) -> Any:
        given = _exact(rows)
        product = given * error * given.T
        size = mp.sqrt(sum(product[k, k] for k in range(product.rows)))
        scaled = given * back / size
        wide = mp.matrix(scaled.rows, scaled.cols + nuisance)
        wide[:, : scaled.cols] = scaled
        return wide

    def _split(self, network: vn.Network, proof: Proof, noise: Any, roots: list[Any]) -> None:
        """Own and common noise; the factor 1 + η that the package claims is confirmed here."""
        common = _exact(proof.common)
        starts = [int(start) for start in network.blocks.starts]
        whole = mp.matrix(network.N, network.N)
        inverse_roots = [mp.inverse(root) for root in roots]
        ends = [start + root.rows for start, root in zip(starts, roots, strict=True)]
        for i, (s, e) in enumerate(zip(starts, ends, strict=True)):
            for j, (t, f) in enumerate(zip(starts, ends, strict=True)):
                whole[s:e, t:f] = inverse_roots[i] * noise[s:e, t:f] * inverse_roots[j].T
        shared = common * common.T
        model = shared.copy()
        observe = []
        for i, (s, e) in enumerate(zip(starts, ends, strict=True)):
            own = whole[s:e, s:e] - shared[s:e, s:e]
            model[s:e, s:e] += own
            root = mp.inverse(mp.cholesky(own))
            wide = mp.matrix(e - s, network.L + common.cols)
            wide[:, : network.L] = root * self.observe[i]
            wide[:, network.L :] = root * common[s:e, :]
            observe.append(wide)
        self.observe = observe
        self.slack = mp.mpf(lifted_form(network, proof.common).slack)
        grown = 1 + self.slack
        assert _lowest(grown * model - whole) > 0
        assert _lowest(grown * whole - model) > 0
        extended = mp.eye(network.L + common.cols)
        extended[: network.L, : network.L] = self.information
        self.information = extended


def exact_surplus(network: vn.Network, proof: Proof) -> Any:
    """Σ_j λ_min(A_j) in 40 digits; raises AssertionError where a hypothesis of the theorem fails."""
    with mp.workdps(DIGITS):
        form = ExactForm(network, proof)
        if isinstance(proof.multipliers, Rapidities):
            return _surplus_of_rapidities(form, proof, proof.multipliers)
        agents, names = len(form.observe), list(proof.privacy)
        over = [
            sum((_exact(given.links[i]) for given in proof.multipliers), mp.matrix(len_i, len_i)) / len(names)
            for i, len_i in enumerate(observe.rows for observe in form.observe)
        ]
        total = mp.mpf(0)
        for name, given in zip(names, proof.multipliers, strict=True):
            rows = form.private[name]
            m, r = form.public.rows, rows.rows
            n = form.size * r
            assert given.weight >= 0
            factor = _exact(given.root.reshape((m + form.size) * n, -1))
            whole = factor * factor.T
            upper, lower = whole[: m * n, : m * n], whole[m * n :, m * n :]
            cross = whole[: m * n, m * n :]
            identity = mp.eye(n)
            weight, kept = mp.mpf(given.weight), (1 + mp.mpf(proof.privacy[name])) / (1 + form.slack)
            grown = (1 + mp.mpf(proof.loss)) * (1 + form.slack)
            public = (_exact(given.public) + _exact(given.public).T) / 2
            excess = _highest(upper - _kron(mp.eye(m), public) - _turn(given.turn, m, n))
            public = public + max(mp.mpf(0), excess) * identity
            private = mp.matrix([rows[k, a] for a in range(form.size) for k in range(r)])
            matrix = (
                weight * (_kron(form.information, mp.eye(r)) - private * private.T / kept) - grown * public
            )
            both = mp.matrix(n, n)
            for k in range(m):
                for a in range(form.size):
                    both += form.public[k, a] * cross[k * n : (k + 1) * n, a * n : (a + 1) * n]
            matrix -= both + both.T
            matrix -= _trace_first(_kron(form.information, identity) * lower, form.size, n)
            for i in range(agents):
                observe = form.observe[i]
                size = observe.rows
                wide = _kron(observe, identity)
                seen = mp.matrix(size * n, r)
                for p in range(size):
                    for a in range(form.size):
                        for k in range(r):
                            seen[p * n + a * r + k, k] = observe[p, a]
                link = _exact(given.links[i]) - over[i]
                needed = wide * lower * wide.T - weight * seen * seen.T - _turn(given.turns[i], size, n)
                needed -= _kron((link + link.T) / 2, identity)
                guess = _positive_part(_exact(given.heard[i]))
                matrix -= _trace_first(guess + _positive_part(needed - guess), size, n)
            total += _lowest(matrix)
        return total


def _surplus_of_rapidities(form: ExactForm, proof: Proof, given: Rapidities) -> Any:
    """The least over the pieces; that they are all of v is followed down the tree of cuts."""
    paths: dict[int, dict[int, int]] = {}

    def follow(at: int, path: dict[int, int]) -> None:
        if at < 0:
            assert -1 - at not in paths
            paths[-1 - at] = path
            return
        assert at not in path
        for side, child in zip((-1, 1), given.children[at], strict=True):
            follow(int(child), {**path, at: side})

    follow(0 if len(given.cuts) else -1, {})
    assert sorted(paths) == list(range(len(given.half)))
    return min(_surplus_of_piece(form, proof, given, piece, path) for piece, path in sorted(paths.items()))


def _surplus_of_piece(
    form: ExactForm, proof: Proof, given: Rapidities, piece: int, path: dict[int, int]
) -> Any:
    """λ_min(A - Σ λ l m') on the v in proportion, A added up agent by agent from the theorem's statement.

    F and E may be any matrices: they are taken from doubles, as numbers, and all that follows has 40 digits.
    """
    rows = [form.private[name] for name in proof.privacy]
    m, length, r = form.public.rows, form.size, sum(each.rows for each in rows)
    queues = given.half.shape[2]
    policies = queues // m
    grown = (1 + mp.mpf(proof.loss)) * (1 + form.slack)
    kept = [(1 + mp.mpf(each)) / (1 + form.slack) for each in proof.privacy.values()]
    private, start = [], 0
    for each in rows:
        vector = mp.matrix(length * r, 1)
        for k in range(each.rows):
            for a in range(length):
                vector[a * r + start + k] = each[k, a]
        private.append(vector)
        start += each.rows
    turns = [_rotation(_exact(each)) for each in given.half[piece]]
    answer, moved, basis = _best_maps(form, turns, private, given.proportions, float(grown), policies)
    basis = _exactly_in_proportion(_exact(basis), private, given.proportions)
    s, w = _exact(answer), _exact(moved)  # (k, n'), (L m k, n'), W's rows x-coordinate slowest
    wide = _kron(form.information, mp.eye(r)) * basis
    matrix = basis.T * wide - grown * s.T * s
    for vector, c in zip(private, kept, strict=True):
        seen = basis.T * vector
        matrix -= seen * seen.T / c
    heard = mp.matrix(policies, s.cols)
    for b in range(policies):
        for a in range(m):
            for coordinate in range(length):
                place = coordinate * queues + a * policies + b
                for column in range(s.cols):
                    heard[b, column] += form.public[a, coordinate] * w[place, column]
    matrix += s.T * heard + heard.T * s
    matrix -= w.T * (_kron(form.information, mp.eye(queues)) * w)
    for observe, (a, t) in zip(form.observe, turns, strict=True):
        for queue in range(queues):
            column = mp.matrix(length, s.cols)  # column ``queue`` of P = W a - V t', as a map of z
            for coordinate in range(length):
                for other in range(queues):
                    for place in range(s.cols):
                        column[coordinate, place] += a[other, queue] * w[coordinate * queues + other, place]
                for other in range(r):
                    for place in range(s.cols):
                        column[coordinate, place] -= t[queue, other] * basis[coordinate * r + other, place]
            shown = observe * column
            matrix -= shown.T * shown
    height = private[0] / mp.mpf(float(given.proportions[0]))
    for owner, first, second, weight in given.weights:
        if owner == piece:
            assert weight >= 0
            lines = [
                basis.T * (height if row == 0 else _exact(path[int(row) - 1] * given.cuts[int(row) - 1]).T)
                for row in (first, second)
            ]
            product = mp.mpf(float(weight)) * lines[0] * lines[1].T
            matrix -= (product + product.T) / 2
    gram = basis.T * basis  # the float basis is orthonormal to rounding only: compare with it
    return _lowest(matrix) / max(mp.mpf(1), _highest(gram))


def _rotation(half: Any) -> tuple[Any, Any]:
    """(a, t) of tanh of half the rapidity; a² = I + tt' is confirmed."""
    unit = mp.eye(half.rows)
    left = mp.inverse(unit - half * half.T)
    a, t = (unit + half * half.T) * left, 2 * left * half
    assert mp.mnorm(a * a - unit - t * t.T, mp.inf) < mp.mpf(10) ** (5 - DIGITS) * mp.mnorm(a * a, mp.inf)
    return a, t


def _best_maps(
    form: ExactForm, turns: list[Any], private: list[Any], proportions: Any, grown: float, policies: int
) -> tuple[Any, Any, Any]:
    """E, F and a basis in doubles: how good they are is all that depends on them."""

    def double(matrix: Any) -> Any:
        return np.array(matrix.tolist(), dtype=float).reshape(matrix.rows, matrix.cols)

    length, m = form.size, form.public.rows
    queues, r = turns[0][1].rows, turns[0][1].cols
    n_i = [double(each).T @ double(each) for each in form.observe]
    pairs = [(double(a), double(t)) for a, t in turns]
    main = np.kron(double(form.information), np.eye(queues))
    main += sum(np.kron(n, a @ a) for n, (a, _) in zip(n_i, pairs, strict=True))
    cross = sum(np.kron(n, a @ t) for n, (a, t) in zip(n_i, pairs, strict=True))
    columns = np.zeros((length, m, policies, policies))
    for b in range(policies):
        columns[:, :, b, b] = double(form.public).T
    columns = columns.reshape(-1, policies)
    g = np.stack([double(each)[:, 0] / theta for each, theta in zip(private, proportions, strict=True)])
    unequal = np.vstack([g[1:] - g[0], np.zeros((1, length * r))])
    basis = np.linalg.svd(unequal)[2][len(g) - 1 :].T
    solved = np.linalg.solve(main, np.hstack([cross @ basis, columns]))
    n = basis.shape[1]
    answer = np.linalg.solve(grown * np.eye(policies) - columns.T @ solved[:, n:], columns.T @ solved[:, :n])
    return answer, solved[:, :n] + solved[:, n:] @ answer, basis


def _exactly_in_proportion(basis: Any, private: list[Any], proportions: Any) -> Any:
    """The basis with what rounding left of g_j'v/θ_j - g_1'v/θ_1 taken off."""
    if len(private) == 1:
        return basis
    first = private[0] / mp.mpf(float(proportions[0]))
    apart = mp.matrix(len(private) - 1, basis.rows)
    for j, (vector, theta) in enumerate(zip(private[1:], proportions[1:], strict=True)):
        for place in range(basis.rows):
            apart[j, place] = vector[place] / mp.mpf(float(theta)) - first[place]
    return basis - apart.T * (mp.inverse(apart * apart.T) * (apart * basis))
