"""What a centre tells programs beside it, Home Assistant and Telegraf, where it was asked to. It makes text alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from veilnet.live import home_assistant, telegraf
from veilnet.live.fusions import AnyFusion, SymbolFusion
from veilnet.live.topics import Topics


@dataclass(frozen=True)
class Publication:
    """Something to publish."""

    topic: str
    payload: str | bytes
    retain: bool = False
    qos: int = 1


@dataclass
class Neighbours:
    """What to subscribe to and to publish, beside estimates and status.

    topics:         of the network. version: of veilnet.
    home_assistant: the root of its topics, None without it.
    influx:         whether lines for InfluxDB are published.
    name:           of the network, for people.
    """

    topics: Topics
    version: str
    home_assistant: str | None = None
    influx: bool = False
    name: str = ""
    _expires: float | None = None
    _digits: dict[str, int] = field(default_factory=dict)
    _labels: tuple[str, ...] = ()
    _units: tuple[str, ...] = ()
    _classes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    _gone: set[str] = field(default_factory=set)

    def meet(self, fusion: AnyFusion, expires: float | None = None) -> list[Publication]:
        """Describe the public parameters of the plan that counts from now on; earlier ones are taken away.

        expires: seconds after which an estimate says nothing of now; None for never.
        """
        self._gone |= set(self._labels)
        self._digits, self._expires = {}, expires
        self._labels, self._units = tuple(fusion.model.labels), tuple(fusion.model.units)
        self._classes = fusion.classes if isinstance(fusion, SymbolFusion) else {}
        return self.greeting()

    @property
    def subscriptions(self) -> list[str]:
        """What to listen to."""
        return [] if self.home_assistant is None else [home_assistant.birth_topic(self.home_assistant)]

    def greeting(self) -> list[Publication]:
        """What to say after every connection."""
        if self.home_assistant is None or not self._labels:
            return []
        payload = home_assistant.discovery_payload(
            self.topics,
            self._labels,
            self._units,
            self.version,
            name=self.name,
            digits=self._digits,
            expires=self._expires,
            classes=self._classes,
            gone=sorted(self._gone),
        )
        return [Publication(home_assistant.discovery_topic(self.topics, self.home_assistant), payload, True)]

    def answer(self, topic: str, payload: bytes) -> list[Publication]:
        """What to say to a message for the neighbours."""
        if self.home_assistant is not None and home_assistant.is_birth(topic, payload, self.home_assistant):
            return self.greeting()
        return []

    def tell(self, estimate: Mapping[str, Any]) -> list[Publication]:
        """What to say of an estimate, given as the table that is published."""
        lines = telegraf.lines(estimate, self.topics) if self.influx else ""
        known = {
            label: home_assistant.digits_of(each["deviation"])
            for label, each in estimate["estimates"].items()
            if label in self._labels and label not in self._digits
        }
        new = {label: digits for label, digits in known.items() if digits is not None}
        self._digits |= new
        return [
            *([Publication(self.topics.influx, lines)] if lines else []),
            *(self.greeting() if new else []),
        ]
