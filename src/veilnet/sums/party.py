"""A party of a sum: its key, and those of the others, from which it makes a secret with each of them.

What has to hold, and why it does:

- *Keys are their owners' own.* A key counts if the identity in the party's own folder signed it, for these very
  terms. It is kept for as long as the plan is, and no other replaces it.
- *What two agree on is theirs.* Their names enter it, so that one who shows another's public key as its own, which
  needs no secret, agrees on nothing that the other has: its boxes are not that one's, and no masks cancel.
- *One who lies about its key is left out,* and the others go on; ``refused`` says why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from veilnet._core.errors import InvalidPlan
from veilnet.sums.masks import Ed25519PrivateKey, Ed25519PublicKey, X25519PrivateKey, agreed_key, verified
from veilnet.sums.terms import Hello, Roster, SumRefused, Terms


def _signed(terms: Terms, name: str, public: bytes) -> bytes:
    return b"veilnet sum key\n" + terms.digest + public + name.encode()


def hello_of(terms: Terms, name: str, identity: Ed25519PrivateKey, secret: X25519PrivateKey) -> Hello:
    """What a party says of its key once per plan."""
    public = secret.public_key().public_bytes_raw()
    return Hello(name, public, identity.sign(_signed(terms, name, public)))


class Party:
    """One party of a sum.

    terms:      of the sum; ``agent`` is the party's name.
    secret:     its X25519 key for these terms.
    identities: name -> identity of those whom it agrees with, from its own folder.
    known:      keys that were met before under these terms, which no others can replace.
    refused:    name -> why a key that was shown for it was not taken.
    agreed:     name -> what both have.
    """

    def __init__(
        self,
        terms: Terms,
        agent: str,
        secret: X25519PrivateKey,
        identities: Mapping[str, Ed25519PublicKey],
        known: Mapping[str, bytes] | None = None,
    ) -> None:
        self.terms, self.agent = terms, agent
        self._secret, self._identities = secret, identities
        self.known: dict[str, bytes] = {}
        self.refused: dict[str, str] = {}
        self.agreed: dict[str, bytes] = {}
        for name, public in (known or {}).items():
            if name in identities:
                self._learn(name, public)

    @property
    def ready(self) -> bool:
        """Whether the keys of enough others are known to begin an epoch."""
        return self.complete

    @property
    def complete(self) -> bool:
        """Whether the keys of all others are known."""
        return self._identities.keys() <= {*self.agreed, self.agent}

    def meet(self, roster: Roster) -> dict[str, bytes]:
        """Take in keys of others; the new ones. One that is not its owner's is left out: ``refused`` says why."""
        new = {}
        for hello in roster.hellos:
            name, public = hello.agent, hello.public
            if name == self.agent and public != self._secret.public_key().public_bytes_raw():
                raise SumRefused(
                    f"the centre shows another key for {name!r} than its own: if its store was begun anew, sign "
                    "the plan anew, as another version"
                )
            if name == self.agent or self.known.get(name) == public:
                continue
            try:
                self._check(hello)
                self._learn(name, public)
                new[name] = public
                self.refused.pop(name, None)
            except (SumRefused, InvalidPlan) as refusal:
                self.refused[name] = str(refusal)
        return new

    def _check(self, hello: Hello) -> None:
        name = hello.agent
        if name in self.known:
            raise SumRefused(
                f"{name!r} has another key than before; under one plan a key is never replaced: sign the plan "
                "anew, as another version, if the agent has a new identity or a new store"
            )
        identity = self._identities.get(name)
        if identity is None or not verified(
            identity, hello.signature, _signed(self.terms, name, hello.public)
        ):
            raise SumRefused(
                f"the key that is shown for {name!r} is not signed by its identity for these terms"
            )

    def _learn(self, name: str, public: bytes) -> None:
        who = json.dumps(sorted((self.agent, name))).encode()
        try:
            self.agreed[name] = agreed_key(
                self._secret, public, b"veilnet sum pair\n" + self.terms.digest + who
            )
        except ValueError:
            raise SumRefused(f"the key of {name!r} is none that one can agree with") from None
        self.known[name] = public
