"""What runs at an agent that sends symbols: a range, one hidden layer, a code, a coin. NumPy alone.

The agent's *share* is what its readings y say of the public quantity: of classes their probabilities, of a number its
term in a sum over agents. One hidden layer computes it,

    s = V' max(0, W'(y - mean)/scale + w) + v       (classes: softmax of that),

and the symbol is the place of the largest of Ms + m. Of classes M adds up the probabilities of the classes that share
a symbol; of a number the rows of M make an interval of s each one's own.

An agent in doubt sends nothing: a row with a reading that is missing, not a number or outside the range of the
calibration is refused, and the reason stays here. Certificates count that silence as a symbol.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidReading
from veilnet._core.frozen import Frozen
from veilnet._core.types import AnyArray, Array, Booleans, Integers
from veilnet._core.validation import as_name, as_names
from veilnet._core.words import join_names
from veilnet.agent.randomness import NoiseSource, noise_source
from veilnet.agent.release import NotPrivate, Released, readings_as_numbers
from veilnet.symbols.windows import feature_names, features_of, in_windows, windows_of

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Layer:
    """The share of an agent, from its readings.

    mean, scale:      (N,) of the readings.
    enter, bias:      W (N, H) and w (H,).
    leave, level:     V (H, K) and v (K,).
    probabilities:    whether a softmax makes probabilities of classes of it.
    """

    mean: Array
    scale: Array
    enter: Array
    bias: Array
    leave: Array
    level: Array
    probabilities: bool

    def __call__(self, readings: Array) -> Array:
        """(T, K) shares of readings (T, N)."""
        inner = ((readings - self.mean) / self.scale) @ self.enter
        inner += self.bias
        np.maximum(inner, 0.0, out=inner)
        share = inner @ self.leave
        share += self.level
        if self.probabilities:
            share -= share.max(axis=1, keepdims=True)
            np.exp(share, out=share)
            share /= share.sum(axis=1, keepdims=True)
        return share


class _Row(NamedTuple):
    """What is expected of a row of readings (:class:`veilnet.agent.release.Reads`)."""

    readings: int
    names: tuple[str, ...]
    speaker: str


class SymbolAgent(Frozen):
    """One agent's part of a plan of symbols.

    agent:    whose it is.
    names:    of its readings, in order.
    window:   how many rows of readings make one symbol; 1: each row its own.
    low, high: (F,) the range of each feature (:mod:`veilnet.symbols.windows`; of a row its readings) in the
              calibration, a little widened.
    layer:    what computes its share.
    code:     M (symbols, K) and ``start`` m (symbols,): the symbol is the place of the largest of Ms + m.
    keep:     the chance that a symbol is sent as it is; otherwise one of all symbols, drawn evenly.
    meanings: what each symbol says, in words.
    """

    def __init__(
        self,
        agent: str,
        names: Any,
        window: int,
        low: Array,
        high: Array,
        layer: Layer,
        code: Array,
        start: Array,
        keep: float,
        meanings: Any,
    ) -> None:
        self.agent = as_name(agent, "agent")
        self.names, self.window = as_names(names, "names"), int(window)
        self.features = feature_names(self.names, self.window)
        self.low, self.high, self.layer = low, high, layer
        self.code, self.start, self.keep = code, start, float(keep)
        self.meanings = tuple(meanings)
        many, hidden = len(self.low), len(layer.bias)
        shapes = {
            "low, high, mean, scale": [each.shape == (many,) for each in (high, layer.mean, layer.scale)],
            "names, window": [self.window >= 1, len(self.features) == many],
            "enter": [layer.enter.shape == (many, hidden)],
            "leave": [layer.leave.shape == (hidden, len(layer.level))],
            "code": [code.shape == (len(start), len(layer.level)), len(self.meanings) == len(start)],
            "keep": [0 < self.keep <= 1],
        }
        for name, right in shapes.items():
            if not all(right):
                raise InvalidNetwork(f"{name}: does not fit the other arrays of {self.agent}")
        arrays = {"low": low, "high": high, "code": code, "start": start} | vars(layer)
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise InvalidNetwork(f"{name}: expected finite numbers for {self.agent}")
        if np.any(low > high) or np.any(layer.scale <= 0):
            raise InvalidNetwork(f"low, high, scale: expected low <= high and scale > 0 for {self.agent}")
        self._freeze()

    @property
    def symbols(self) -> int:
        """How many different symbols it can send."""
        return len(self.start)

    @property
    def readings(self) -> int:
        """How many readings make a symbol: those of a window, row after row."""
        return len(self.names) * self.window

    # what a sanitizer has too, so that both run alike
    sent, order, memory, memory_key, step = 1, 0, None, "", None

    @property
    def speaker(self) -> str:
        """Who speaks, before an error."""
        return f"{self.agent}: "

    @property
    def epsilon(self) -> float:
        """ε of local differential privacy of a row in range, for any law: ln(1 + M k/(1 - k)); inf without a coin."""
        if self.symbols == 1:
            return 0.0
        return math.inf if self.keep >= 1 else math.log1p(self.symbols * self.keep / (1 - self.keep))

    def send(self, readings: Any, *, rng: np.random.Generator | int | None = None) -> AnyArray:
        """The symbol of one row (N_i,), or of each row of a block (T, N_i): whole numbers from 0.

        readings: numbers; of a frame or anything else with named columns, those that the agent knows by name. An
                  agent with windows sends a symbol for each whole window of a block.
        rng:      a generator or seed for simulation, in place of the operating system's entropy.

        Raises InvalidReading, naming the row and never the value, where a reading is missing, not a number or outside
        the range of the calibration: nothing of the block is sent then. :meth:`release` sends the other rows.
        """
        source = noise_source(rng)
        numbers = readings_as_numbers(readings, _Row(len(self.names), self.names, self.speaker))
        rows = numbers.reshape(-1, len(self.names))
        released = self.release(in_windows(list(rows.T), windows_of(len(rows), self.window)), source)
        if released.reasons:
            place, reason = next(iter(released.reasons.items()))
            where = f"row {place * self.window}: " if numbers.ndim == 2 else ""
            raise InvalidReading(f"{self.speaker}{where}{reason}; nothing was sent: drop the row")
        sent = released.values if numbers.ndim == 2 else released.values[0]
        return sent if source.private or self.keep >= 1 else sent.view(NotPrivate)

    def release(self, rows: Array, source: NoiseSource) -> Released:
        """Symbols of the rows (T, window N_i) that may be sent, and of each other one why not."""
        features = features_of(rows, self.window)
        inside = (features >= self.low) & (features <= self.high)  # what is not a number is not
        valid = np.asarray(inside.all(axis=1))
        kept = features if valid.all() else features[valid]
        values, known = np.empty(len(kept), np.intp), np.empty(len(kept), bool)
        for start in range(0, len(kept), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            with np.errstate(over="ignore", invalid="ignore"):  # what is then not a number is not sent
                scores = self.layer(kept[part]) @ self.code.T + self.start
            values[part], known[part] = np.argmax(scores, axis=1), np.isfinite(scores).all(axis=1)
        if not known.all():
            valid[valid], values = known, values[known]
        if self.keep < 1:
            values = randomised(values, self.symbols, self.keep, source)
        refused = np.flatnonzero(~valid)
        return Released(valid, values, {int(k): self._reason(features[k], inside[k]) for k in refused})

    def send_or_not(self, rows: Array, source: NoiseSource | None = None) -> Integers:
        """(T,) symbols of rows (T, window N_i), -1 where nothing is sent."""
        released = self.release(rows, source or noise_source())
        sent = np.full(len(rows), -1, np.intp)
        sent[released.valid] = released.values
        return sent

    def describe(self) -> str:
        """What the agent says, in words: what each symbol means."""
        if self.symbols == 1:
            return f"{self.agent} always sends the same symbol: it says nothing"
        rows = f" in {self.window} rows (mean, spread and slope)" if self.window > 1 else ""
        lines = [f"{self.agent} sends one of {self.symbols} symbols, from {join_names(self.names)}{rows}:"]
        lines += [f"  {k}: {meaning}" for k, meaning in enumerate(self.meanings)]
        if self.keep < 1:
            lines.append(
                f"  With chance {1 - self.keep:.3g} a symbol drawn evenly is sent instead "
                f"(ε = {self.epsilon:.3g} of a row in range)"
            )
        lines.append("  A reading that is missing or outside the range of the calibration: nothing is sent")
        return "\n".join(lines)

    def _reason(self, features: Array, inside: Booleans) -> str:
        """Why a row is refused: which reading, never its value."""
        if inside.all():
            return "what it says of the public quantity is not a number"
        place = int(np.argmin(inside))
        what = "outside the range of the calibration" if math.isfinite(features[place]) else "not a number"
        return f"{self.features[place]} is {what}"


def randomised(symbols: Integers, many: int, keep: float, source: NoiseSource) -> Integers:
    """Symbols, each replaced by one of ``many`` drawn evenly with chance 1 - keep."""
    replaced = source.uniform(symbols.shape) + 0.5 >= keep
    drawn = np.minimum((source.uniform(symbols.shape) + 0.5) * many, many - 1).astype(np.intp)
    return np.where(replaced, drawn, symbols)
