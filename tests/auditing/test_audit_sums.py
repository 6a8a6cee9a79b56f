"""Plans of sums under audit: members as they are pass, and every planted fault of a member is found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

import veilnet as vn
from helpers.sum_groups import make_terms
from helpers.summed_house import summed_plan
from veilnet.auditing.attack.lying_centre import LIES
from veilnet.auditing.attack.sum_rows import lie_rows, mask_rows
from veilnet.auditing.deployed.deployment import deployment, with_opened_sums
from veilnet.auditing.row import Row
from veilnet.sums.masks import Words, summed_streams
from veilnet.sums.rehearsal import seeded_bytes
from veilnet.sums.rounds import SumAgent
from veilnet.sums.terms import (
    Agreed,
    Confirmed,
    Hello,
    Masked,
    Revealed,
    SealedShares,
    Sharing,
    Survivors,
    Terms,
)

CHANCE = 1e-7


@pytest.fixture(scope="module")
def audited() -> dict[str, Row]:
    found = vn.audit(summed_plan(), only=["sums"])
    assert found.ok
    return {row.what: row for row in found.rows}


def test_masks_and_lies_hold_on_the_house(audited: dict[str, Row]) -> None:
    tested = [row for row in audited.values() if row.verdict == "ok"]
    assert len(tested) == len(LIES) + 2
    assert not [row for row in audited.values() if row.verdict not in ("ok", "info")]
    for row in tested[:2]:  # a bit of a message that shows in half of the rows would have been found
        assert row.figures["correlation that is found"] < 0.5
        assert row.figures["smallest p"] > row.figures["line"]


def test_what_a_centre_knows_that_leaves_members_out(audited: dict[str, Row]) -> None:
    """Never more than with the same members as colluders; with a helper no less than without."""
    plan = summed_plan()
    for name, promised in plan.privacy.items():
        alone, helped, twice = (
            row.found for what, row in audited.items() if what.startswith(f"{name}, the centre leaves out")
        )
        assert isinstance(alone, float)
        assert isinstance(helped, float)
        assert isinstance(twice, float)
        assert plan.collusion(1)[name].privacy <= alone <= promised
        assert plan.collusion(2)[name].privacy <= helped <= plan.collusion(1)[name].privacy * (1 + 1e-9)
        assert twice <= helped
        (by_turns,) = (row for what, row in audited.items() if what.startswith(f"{name}, 100 rows"))
        assert isinstance(by_turns.found, float)
        assert isinstance(by_turns.promised, float)
        assert by_turns.found < by_turns.promised


def test_attackers_get_what_the_rounds_open() -> None:
    """The sum of what members round by themselves, modulo 2^k: the group's own message up to S roundings."""
    plan = summed_plan()
    running = deployment(plan, None)
    readings = np.tile(np.repeat([[20.0]], plan.network.N, axis=1), (4000, 1))
    planned, opened = (
        each.release("everybody", readings) for each in (running, with_opened_sums(running, plan))
    )
    spread = np.std(planned, axis=0)
    assert np.allclose(np.std(opened, axis=0), spread, rtol=0.08)  # 7 standard errors
    assert np.all(np.abs(np.mean(opened - planned, axis=0)) < 7 * spread * np.sqrt(2 / 4000))
    assert np.all(opened % plan.members["hall"].grid == 0)


def words_in(terms: Terms, said: Masked, change: Callable[[Words], Words]) -> Masked:
    """The same with other numbers."""
    return replace(said, residues=terms.membership.residues(change(said.words)).tobytes())


class NoOwnMask(SumAgent):
    """Takes its own mask off again."""

    def mask(self, epoch: int, residues: Words) -> Masked:
        assert self._now is not None
        own = summed_streams([self._now.own_seed], [], self.terms.numbers)
        return words_in(self.terms, super().mask(epoch, residues), lambda masked: masked - own)


class OwnMaskAlone(SumAgent):
    """Masks with nobody."""

    def mask(self, epoch: int, residues: Words) -> Masked:
        own = summed_streams([self._at(epoch).own_seed], [], self.terms.numbers)
        return words_in(self.terms, super().mask(epoch, residues), lambda _: residues + own)


class OneEpochForAll(SumAgent):
    """Pairwise masks and its own are the same in every epoch."""

    def accept(self, sharing: Sharing) -> None:
        super().accept(sharing)
        assert self._now is not None
        self._now.own_seed = bytes(32)
        self._now.seeds = {other: self._pair(bytes(32), 1).root for other in self._now.seeds}


class FewBits(SumAgent):
    """Its masks are of 30 bits."""

    def mask(self, epoch: int, residues: Words) -> Masked:
        few = np.uint64(2**30 - 1)
        return words_in(
            self.terms, super().mask(epoch, residues), lambda masked: residues + (masked - residues & few)
        )


@pytest.mark.parametrize("kind", [NoOwnMask, OwnMaskAlone, OneEpochForAll, FewBits])
def test_masks_that_do_not_hide_are_found(kind: type[SumAgent]) -> None:
    terms = make_terms(4, bits=41, numbers=1)
    numbers = np.random.default_rng(0).integers(-(2**20), 2**20, (4, 200, 1))
    messages = dict(zip(terms.members, terms.membership.residues(numbers), strict=True))
    assert [row.verdict for row in mask_rows(terms, messages, CHANCE)] == ["ok", "ok"]
    assert "fail" in [row.verdict for row in mask_rows(terms, messages, CHANCE, kind)]


class AnswersAnyList(SumAgent):
    """Confirms a second list, and reveals by each."""

    def confirm(self, told: Survivors) -> Confirmed:
        if self._now is not None:
            self._now.survivors = None
        return super().confirm(told)

    def reveal(self, agreed: Agreed) -> Revealed:
        now = self._now
        try:
            return super().reveal(agreed)
        finally:
            self._now = now


class BelievesTheCentre(SumAgent):
    """Reveals whatever the others confirmed."""

    def _tag(self, *_: object) -> bytes:
        return bytes(16)


class ShortLists(SumAgent):
    """Counts neither members nor what they confirm."""

    def _members(self, some: bytes, did: str) -> frozenset[int]:  # noqa: ARG002
        return self.terms.as_set(some)

    def reveal(self, agreed: Agreed) -> Revealed:
        now = self._at(agreed.epoch)
        survivors = now.survivors or frozenset()
        shares = [own if k in survivors else lock for k, (own, lock) in sorted(now.held.items())]
        return Revealed(agreed.epoch, self.agent, shares)


class MasksTwice(SumAgent):
    """Takes another list of those present, and masks once more."""

    def accept(self, sharing: Sharing) -> None:
        now = self._at(sharing.epoch)
        now.present, now.masked = None, False
        super().accept(sharing)


class AnyKey(SumAgent):
    """Asks nobody's identity."""

    def _check(self, hello: Hello) -> None:
        pass


class Forgets(SumAgent):
    """Keeps no record of epochs, and draws the same in each."""

    def begin(self, epoch: int) -> SealedShares:
        self._begin, self._draw = lambda _: None, seeded_bytes(f"{self.agent} {epoch}")
        return super().begin(epoch)


@pytest.mark.parametrize(
    ("kind", "lie"),
    [
        (AnswersAnyList, "asks for both kinds"),
        (BelievesTheCentre, "shows different lists of survivors"),
        (BelievesTheCentre, "makes up what members confirm"),
        (ShortLists, "names fewer survivors"),
        (MasksTwice, "asks for two messages"),
        (AnyKey, "shows keys of its own"),
        (Forgets, "runs an epoch again"),
    ],
)
def test_members_that_a_lie_works_on_are_found(kind: type[SumAgent], lie: str) -> None:
    terms = make_terms(7, bits=41, numbers=2)
    broken = {row.what: row.sentence for row in lie_rows(terms, kind) if row.verdict == "fail"}
    assert any(lie in what for what in broken), broken
