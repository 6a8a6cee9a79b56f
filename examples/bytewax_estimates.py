"""Estimates by a stream processor: Bytewax adds up what agents sent of an epoch, on as many workers as it is given.

    pip install "bytewax[kafka]==0.21.1"
    python -m bytewax.run -w 2 "examples.bytewax_estimates:flow('FOLDER/center.json', 'sent.jsonl')"
    python -m bytewax.run -w 2 "examples.bytewax_estimates:flow('FOLDER/center.json', 'kafka://broker:9092/sent')"

Each line, or record of Kafka, is a message: {"epoch": 7, "agent": "kitchen", "sent": [0.5, 0.25]}. Each has to come
once, and from that agent: seals and duplicates are the live centre's business. An epoch is estimated when all agents
are there; what is not complete at the end is estimated then.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bytewax.operators as op
import numpy as np
from bytewax.connectors.files import FileSource
from bytewax.connectors.stdio import StdOutSink
from bytewax.dataflow import Dataflow

import veilnet as vn
from veilnet.adapters.partial_sums import PartialSum, estimate_from, partial_sum


class Adding(op.StatefulLogic[tuple[str, list[float]], str, PartialSum]):
    """The sum of one epoch."""

    def __init__(self, fusion: vn.Fusion, state: PartialSum | None) -> None:
        self._fusion, self._state = fusion, state or partial_sum(fusion, {})
        self._all = sum(size > 0 for size in fusion.sent.values())

    def on_item(self, value: tuple[str, list[float]]) -> tuple[list[str], bool]:
        agent, sent = value
        self._state += partial_sum(self._fusion, {agent: np.array(sent)})
        return self._estimate() if self._state.agents == self._all else ([], op.StatefulLogic.RETAIN)

    def on_eof(self) -> tuple[list[str], bool]:
        return self._estimate()

    def _estimate(self) -> tuple[list[str], bool]:
        try:
            public, covariance = estimate_from(self._fusion, self._state)
        except vn.InvalidRequest as error:  # too few to determine x
            return [str(error)], op.StatefulLogic.DISCARD
        named = dict(zip(self._fusion.model.labels, public.tolist(), strict=True))
        deviation = np.sqrt(np.diagonal(covariance)).tolist()
        return [json.dumps({"estimates": named, "deviation": deviation})], op.StatefulLogic.DISCARD

    def snapshot(self) -> PartialSum:
        return self._state


def flow(center: str, source: str, sink: Any = None) -> Dataflow:
    """From messages to estimates.

    source: a file of JSON lines, or kafka://broker:port/topic. sink: of lines; standard output if left out.
    """
    fusion = vn.Fusion.load(center)
    made = Dataflow("veilnet")
    if source.startswith("kafka://"):
        from bytewax.connectors.kafka import KafkaSource  # with bytewax[kafka]

        broker, _, topic = source.removeprefix("kafka://").partition("/")
        records = op.input("sent", made, KafkaSource([broker], [topic]))
        lines = op.map("lines", records, lambda record: record.value)
    else:
        lines = op.input("sent", made, FileSource(Path(source)))

    def keyed(line: str | bytes) -> tuple[str, tuple[str, list[float]]]:
        message = json.loads(line)
        return str(message["epoch"]), (message["agent"], message["sent"])

    sums = op.stateful("sums", op.map("keyed", lines, keyed), lambda state: Adding(fusion, state))
    shown = op.map("shown", sums, lambda each: f"epoch {each[0]}: {each[1]}")
    op.output("estimates", shown, sink or StdOutSink())
    return made
