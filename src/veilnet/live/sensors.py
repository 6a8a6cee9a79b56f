"""Sensors that speak MQTT already, on a broker of the home's own: their values as one row of readings per epoch.

    mqtt://broker/zigbee2mqtt/kitchen#temperature        a field of JSON, as Zigbee2MQTT writes it
    mqtt://broker/tele/attic/SENSOR#AM2301.Temperature   a field within another, as Tasmota writes it
    mqtt://broker/attic/temperature                      a plain number

:class:`SensorRows` is the open file of a :class:`~veilnet.io.sources.RowSource`: lines of JSON, one when an epoch is
over, which agents read, check and sanitize as any others. Raw values are in memory alone. They are also on that
broker, which is why nobody else should be let in there.
"""

from __future__ import annotations

import io
import json
import math
import queue
import re
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any, cast
from urllib.parse import unquote

from veilnet._core.durations import RowStep, duration_in_words
from veilnet._core.errors import InvalidRequest
from veilnet.io import _json
from veilnet.io.agent_store import CLOCKS_SET
from veilnet.io.cells import column_of, is_missing, is_number
from veilnet.io.row_keys import RowKey
from veilnet.io.sources import RowSource
from veilnet.live.connecting import HOST, make_client, nonsense

_FORM = "mqtt://broker/topic#field, or READING=mqtt://broker/topic#field"
_SENSOR = re.compile(
    rf"(?:(?P<column>.+?)=)?(?P<scheme>mqtts?)://(?:(?P<user>[^@/#]+)@)?{HOST}/(?P<topic>[^#]+)(?:#(?P<field>.+))?"
)
_LARGEST = 65536  # bytes of a sensor's message
_LOOK = 1.0  # seconds: clocks may be set while nothing comes
_TIMES = RowKey("time", "zoned")

Value = float | str | None


@dataclass(frozen=True)
class Sensor:
    """One value of one topic.

    broker: (scheme, user, host, port); ``topic`` and the path of the ``field`` in its JSON, empty for a plain value.
    column: what it is called among the readings; ``is_text`` whether texts stand there, not numbers.
    """

    broker: tuple[str, str, str, int]
    topic: str
    field: tuple[str, ...] = ()
    column: str = ""
    is_text: bool = False

    def __str__(self) -> str:
        return self.topic + (f"#{'.'.join(self.field)}" if self.field else "")


def read_sensors(given: Sequence[str], names: Sequence[str], readings: int) -> list[Sensor]:
    """The sensors of ``--source``, one for every column of the readings.

    names: of the readings; where they have none, sensors are taken in their order.
    """
    found = [_read_sensor(text) for text in given]
    if not names:
        if len(found) != readings:
            raise InvalidRequest(
                f"--source: expected one for each of {readings} readings, found {len(found)}"
            )
        return [replace(each, column=str(place)) for place, each in enumerate(found, start=1)]
    known = {*names, *(name.rpartition(":")[0] for name in names)} - {""}
    placed: dict[str, Sensor] = {}
    for sensor in found:
        column = _column(sensor, known, names)
        if column in placed:
            raise InvalidRequest(f"--source: {column!r} is given twice; leave one of them out")
        placed[column] = replace(sensor, column=column)
    columns = [column_of(name, placed) for name in names]
    missing = [name for name, (column, _) in zip(names, columns, strict=True) if column not in placed]
    unused = set(placed) - {column for column, _ in columns}
    if missing or unused:
        wrong = f"nothing is the source of {missing[0]!r}" if missing else f"{min(unused)!r} is not read"
        raise InvalidRequest(f"--source: expected one for each of {', '.join(names)}; {wrong}: {_FORM}")
    texts = {column for column, text in columns if text}
    return [replace(each, is_text=column in texts) for column, each in placed.items()]


def _read_sensor(text: str) -> Sensor:
    found = _SENSOR.fullmatch(text.strip())
    if found is None or not 0 < int(found["port"] or 1) < 65536:
        raise InvalidRequest(f"--source: expected {_FORM}, found {text!r}")
    user, topic = unquote(found["user"] or ""), unquote(found["topic"])
    if ":" in user:
        raise InvalidRequest(
            "--source: a password on the command line is visible to all users of this machine; put it into a file, "
            "--source-password FILE, and mqtt://user@broker/topic#field"
        )
    if "+" in topic or "\0" in topic:
        raise InvalidRequest(f"--source: expected one topic, found a pattern of several: {topic!r}")
    port = int(found["port"] or (8883 if found["scheme"] == "mqtts" else 1883))
    broker = (found["scheme"], user, found["host"].strip("[]"), port)
    return Sensor(
        broker,
        topic,
        tuple((found["field"] or "").split(".")) if found["field"] else (),
        found["column"] or "",
    )


def _column(sensor: Sensor, known: set[str], names: Sequence[str]) -> str:
    """The column of a sensor: as given, or as its field or the last level of its topic is called."""
    last = sensor.field[-1:] or (sensor.topic.rpartition("/")[2],)
    column = sensor.column or last[0]
    if column in known:
        return column
    if not sensor.column and len(names) == 1:
        return names[0]
    raise InvalidRequest(
        f"--source: {sensor}: {column!r} is none of this agent's readings ({', '.join(names)}); say which it is: "
        f"{_FORM}"
    )


def value_in(payload: bytes, sensor: Sensor) -> Value:
    """What a message says: a number, or a text where these are expected; None where it says that there is no value.

    LookupError where the message has no such field; ValueError where that is neither.
    """
    if len(payload) > _LARGEST:
        raise ValueError(f"more than {_LARGEST} bytes")
    value: Any = _json.parse(payload) if sensor.field else payload.decode().strip()
    for name in sensor.field:
        if not isinstance(value, dict) or name not in value:
            raise LookupError(name)
        value = value[name]
    if value is None or (isinstance(value, str) and is_missing(value, among_texts=sensor.is_text)):
        return None
    if sensor.is_text:
        return value if isinstance(value, str) else json.dumps(value)
    if isinstance(value, str) and is_number(value):
        value = float(value)
    if not isinstance(value, bool | int | float) or not math.isfinite(value):
        raise ValueError("it is no number")
    return float(value)


@dataclass
class Joined:
    """The values that came of several sensors, as one row at a time.

    mean:  whether a row has the mean of the numbers that came since the row before, where any came, and not the last.
    stale: seconds after which a value counts no more.
    """

    columns: Sequence[str]
    mean: bool
    stale: float
    _last: dict[str, tuple[float, Value]] = field(default_factory=dict)
    _since: dict[str, list[float]] = field(default_factory=dict)

    def take(self, column: str, when: float, value: Value) -> None:
        """A value came; None: there is none from now on."""
        self._last[column] = when, value
        if value is None:
            self._since.pop(column, None)
        elif isinstance(value, float):
            self._since.setdefault(column, []).append(value)

    def row(self, end: float) -> list[Value]:
        """The row that ends then; None where a sensor's last value is stale, or it has none."""
        row: list[Value] = []
        for column in self.columns:
            when, value = self._last.get(column, (-math.inf, None))
            came = self._since.get(column)
            if end - when > self.stale:
                value = None
            elif self.mean and came:
                value = math.fsum(came) / len(came)
            row.append(value)
        self._since.clear()
        return row


class SensorRows(io.RawIOBase):
    """Rows of sensors' values, a line of JSON for each step, as soon as it is over; it never ends.

    sensors: whose values; ``names`` those of the readings, none where their order identifies them.
    step:    how long an epoch is. A row ends when the step says that rows are read, else where the next one begins.
    stale:   seconds after which a value counts no more: the length of a step if None.
    say:     called with what the agent's owner should know.
    """

    def __init__(
        self,
        sensors: Sequence[Sensor],
        names: Sequence[str],
        step: RowStep,
        *,
        mean: bool = False,
        stale: float | None = None,
        password: str | None = None,
        say: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sensors, self._by_name, self._step, self._password = sensors, bool(names), step, password
        self._joined = Joined([each.column for each in sensors], mean, step if stale is None else stale)
        self._say, self._clock = say, clock
        self._said: set[str] = set()
        self._came: queue.SimpleQueue[tuple[float, str, Value] | InvalidRequest] = queue.SimpleQueue()
        self._next: tuple[float, str, Value] | None = None  # came already, after the row that is next
        self._row = 0
        self._clients: list[Any] = []

    @property
    def source(self) -> RowSource:
        """The same as a source of rows."""
        return RowSource("--source", cast(IO[bytes], self), "jsonl")

    def listen(self) -> None:
        """Connect to the brokers of the sensors, or go on trying."""
        for broker in dict.fromkeys(each.broker for each in self._sensors):
            scheme, user, host, port = broker
            client = make_client("", None, stumbled=lambda error: self.notify(nonsense(error)))
            if scheme == "mqtts":
                client.tls_set_context(ssl.create_default_context())
            if user:
                client.username_pw_set(user, self._password)
            listener = _Listener(
                self, [each for each in self._sensors if each.broker == broker], f"{host}:{port}"
            )
            client.on_connect = listener.on_connect
            client.on_connect_fail = listener.on_connect_fail
            client.on_disconnect = listener.on_disconnect
            client.on_subscribe = listener.on_subscribe
            client.on_message = listener.on_message
            client.begin((host, port))
            self._clients.append(client)

    def close(self) -> None:
        """Hear no more."""
        for client in self._clients:
            client.finish()
        self._clients.clear()
        super().close()

    def came(self, sensor: Sensor, value: Value) -> None:
        """A value, in the thread that heard it."""
        self._came.put((self._clock(), sensor.column, value))

    def fail(self, why: str) -> None:
        """A thread that waits for a row gets an error."""
        self._came.put(InvalidRequest(f"--source: {why}"))

    def notify(self, words: str, *, anew: bool = False) -> None:
        """Say something once; ``anew``: what was said before may be said again."""
        if anew:
            self._said.clear()
        if words not in self._said:
            self._said.add(words)
            self._say(words)

    def readline(self, size: int | None = -1, /) -> bytes:
        """The line of the next row; waits until it is over."""
        del size
        if not self._clients:
            self.listen()
        while True:
            now = self._clock()
            if now < CLOCKS_SET:
                self.notify(
                    "the clock of this machine was never set, so readings have no epoch; waiting for it"
                )
                time.sleep(_LOOK)
                continue
            if not self._row or self._end(self._row) - now > 2 * self._step:
                self._row = self._first_after(now)
            end = self._end(self._row)
            if self._next is None:
                self._next = self._wait(end - now)
                now = self._clock()
            if self._next is not None and (self._next[0] < end or now < end):
                when, column, value = self._next
                self._joined.take(column, when, value)
                self._next = None
            elif now >= end:
                row, self._row = self._row, self._first_after(now)
                return self._line(row, end)

    def _wait(self, seconds: float) -> tuple[float, str, Value] | None:
        try:
            found = self._came.get(timeout=min(max(seconds, 0.0), _LOOK))
        except queue.Empty:
            return None
        if isinstance(found, InvalidRequest):
            raise found
        return found

    def _end(self, row: int) -> float:
        return self._step.time_of(row + (self._step.origin is None)) / 1e6

    def _first_after(self, now: float) -> int:
        row = int(self._step.row_at(int(now * 1e6)))
        return row if self._end(row) > now else row + 1

    def _line(self, row: int, end: float) -> bytes:
        values = self._joined.row(end)
        line: dict[str, Any] = {"time": _TIMES.text(self._step.time_of(row) + 1)}
        line |= (
            dict(zip(self._joined.columns, values, strict=True)) if self._by_name else {"readings": values}
        )
        return json.dumps(line).encode() + b"\n"

    def in_words(self) -> str:
        """Where raw values are, and what becomes of them."""
        brokers = ", ".join(dict.fromkeys(f"{each.broker[2]}:{each.broker[3]}" for each in self._sensors))
        what = "mean" if self._joined.mean else "last value"
        epoch, stale = map(duration_in_words, (float(self._step), self._joined.stale))
        return (
            f"raw values are on the broker at {brokers}, for all who may read there: let it be the home's own, and "
            f"bridge only veilnet's topics to the outside. Every {epoch} a row has the {what} of each of "
            f"{len(self._sensors)} sensors, and none older than {stale}"
        )


@dataclass(frozen=True)
class _Listener:
    """What a broker of sensors says: in its client's thread."""

    rows: SensorRows
    sensors: Sequence[Sensor]
    where: str

    def on_connect(self, client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self.rows.fail(
                f"the broker at {self.where} refuses the connection: {reason}; is it the right user and password?"
            )
        else:
            client.subscribe([(topic, 1) for topic in dict.fromkeys(each.topic for each in self.sensors)])

    def on_connect_fail(self, *_: Any) -> None:
        self.rows.notify(
            f"no connection to the sensors' broker at {self.where}; it is tried again, and rows are missed until then"
        )

    def on_disconnect(self, *given: Any) -> None:
        self.rows.notify(
            f"the connection to the sensors' broker at {self.where} ended ({given[3]}); it is tried again"
        )

    def on_subscribe(self, _client: Any, _data: Any, _mid: Any, reasons: Any, _properties: Any) -> None:
        refused = [str(reason) for reason in reasons if reason.is_failure]
        if refused:
            self.rows.fail(f"the broker at {self.where} refuses the subscription: {refused[0]}")
        else:
            self.rows.notify(f"connected to the sensors' broker at {self.where}", anew=True)

    def on_message(self, _client: Any, _data: Any, arrived: Any) -> None:
        if arrived.retain:  # nobody knows when it was read
            return
        for sensor in self.sensors:
            if sensor.topic != arrived.topic:
                continue
            try:
                self.rows.came(sensor, value_in(arrived.payload, sensor))
            except LookupError as error:
                self.rows.notify(f"{sensor}: a message has no field {error.args[0]!r}, and changes nothing")
            except ValueError:
                self.rows.notify(
                    f"{sensor}: a message is neither a number nor JSON with one, and counts as no value"
                )
                self.rows.came(sensor, None)
