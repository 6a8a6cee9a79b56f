"""Estimates in InfluxDB, by Telegraf: the lines that the centre publishes; examples/live/telegraf.conf reads them.

    veilnet,network=home,parameter=warmth value=21.3,deviation=0.2,missing=0i,revision=0i,epoch=9i 1763371800000000000

One line for each public parameter (:func:`lines`), on :attr:`~veilnet.live.topics.Topics.influx`. The time is that of
the epoch, so that a revision takes the place of the estimate before; where epochs are rows there is no time, and
Telegraf takes that of the arrival. Everything here makes text; nothing sends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from veilnet.live.topics import Topics

MEASUREMENT = "veilnet"


def lines(estimate: Mapping[str, Any], topics: Topics) -> str:
    """A published estimate (its table, :func:`veilnet.live.showing.as_table`) in InfluxDB's line protocol.

    A parameter that cannot be estimated has no line: the protocol has no word for unknown. Of a class the fields are
    ``class`` and ``chance``: a field has one type in all lines, and ``value`` is a number.
    """
    end = "" if estimate["time"] is None else f" {_nanoseconds(estimate['time'])}"
    missing, revision, epoch = len(estimate["missing"]), int(estimate["revision"]), int(estimate["epoch"])
    counts = f"missing={missing}i,revision={revision}i,epoch={epoch}i"
    found = []
    for label, each in estimate["estimates"].items():
        if "chance" in each:
            fields = [f"class={_text(str(each['value']))}", f"chance={float(each['chance'])!r}"]
        elif each["value"] is None or not math.isfinite(each["value"]):
            continue
        else:
            fields = [f"value={float(each['value'])!r}"]
        if each["deviation"] is not None and math.isfinite(each["deviation"]):
            fields.append(f"deviation={float(each['deviation'])!r}")
        unit = f",unit={_tag(each['unit'])}" if each["unit"] else ""
        tags = f"network={_tag(topics.root)},parameter={_tag(label)}{unit}"
        found.append(f"{MEASUREMENT},{tags} {','.join(fields)},{counts}{end}\n")
    return "".join(found)


def _text(words: str) -> str:
    """A field's text: quoted, with a backslash before quotes and backslashes."""
    return '"{}"'.format(" ".join(words.split()).replace("\\", "\\\\").replace('"', '\\"'))


def _tag(text: str) -> str:
    """A tag's value: commas, equals signs and spaces get a backslash; line ends and a last backslash cannot be."""
    plain = " ".join(text.split()).rstrip("\\") or "_"
    return plain.replace(",", "\\,").replace("=", "\\=").replace(" ", "\\ ")


def _nanoseconds(text: str) -> int:
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return round(moment.timestamp()) * 10**9
