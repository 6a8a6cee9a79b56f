"""A plan as a few arrays, and the id that they stand for: the same however the plan is saved.

document      the promises as JSON (:data:`veilnet.io.plan_files.PROMISES`)
network.*     the network (:mod:`veilnet.io.network_schema`)
sent<k>.*     agents that read, send and keep as many numbers, the k-th such kind: places in sending order (count),
              compression (count, numbers, readings), grid (count, numbers), and the noise that is added, none at all,
              variances (count, numbers) or covariance (count, numbers, numbers); of agents who keep numbers from row
              to row transition (count, kept, kept) and gain (count, kept, readings) too, start (count, kept, kept)
              where they begin anew by a draw, and compression has columns for those before the ones of the readings
sanitizers    instead of all sent<k>, where an agent has no grid or another offset than the network says: agent ->
              what its own file would hold, as JSON

What the network says of an agent's readings (offset, names, limits, resolution) stands there alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from veilnet.agent.mechanisms import mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.io._archives import Arrays
from veilnet.io.network_schema import network_arrays
from veilnet.io.sanitizer_files import SANITIZER, values_of
from veilnet.model.network import Network

_ID_LENGTH = 32


def plan_arrays(promises: Mapping[str, Any], network: Network, sanitizers: Mapping[str, Sanitizer]) -> Arrays:
    """The arrays of a plan.

    promises: what plan.json holds beside the network and the sanitizers.
    """
    arrays: Arrays = {"document": np.array(_canonical(promises))}
    for name, array in network_arrays(network).items():
        arrays[f"network.{name}"] = array
    stacks = _stacks(network, sanitizers)
    if stacks is None:
        each = {agent: SANITIZER.write(values_of(one)) for agent, one in sanitizers.items()}
        return arrays | {"sanitizers": np.array(_canonical(each))}
    for number, stack in enumerate(stacks):
        for name, array in stack.items():
            arrays[f"sent{number}.{name}"] = array
    return arrays


def arrays_id(arrays: Mapping[str, Any]) -> str:
    """The id of a plan, a digest of all its arrays: their names, kinds, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {arrays[name].shape}\n".encode())
        digest.update(array.data if array.dtype.kind != "U" else array.tobytes())
    return digest.hexdigest()[:_ID_LENGTH]


def _canonical(table: Mapping[str, Any]) -> str:
    return json.dumps(table, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _stacks(network: Network, sanitizers: Mapping[str, Sanitizer]) -> list[Arrays] | None:
    """Each kind of agents as arrays: fewest readings first, then fewest numbers sent, then fewest kept."""
    sent = mechanisms(network, sanitizers)
    if any(stack.grid is None for stack in sent.stacks) or not all(
        _from_network(sanitizer, agent, network) for agent, sanitizer in (sent.given or {}).items()
    ):
        return None
    kinds = sorted(
        sent.stacks, key=lambda each: (each.readings, each.sent, each.order, each.start is not None)
    )
    return [_arrays(stack) for stack in kinds]


def _from_network(sanitizer: Sanitizer, agent: str, network: Network) -> bool:
    """Whether everything but what is sent follows from the network."""
    offset = network.offset_at_mean[network.blocks.rows(network.position[agent])]
    same_bits = np.array_equal(sanitizer.offset, offset) and np.array_equal(
        np.signbit(sanitizer.offset), np.signbit(offset)
    )
    return same_bits and sanitizer.same_readings_as(sanitizer.for_agent(agent, network))


def _arrays(stack: SanitizerStack) -> Arrays:
    assert stack.grid is not None
    arrays: Arrays = {
        "places": stack.places.astype(np.int64),
        "compression": np.ascontiguousarray(stack.compression),
        "grid": stack.grid,
    }
    if stack.covariance is not None:
        variances = np.diagonal(stack.covariance, axis1=1, axis2=2)
        if np.any(stack.covariance - variances[:, :, None] * np.eye(stack.sent)):
            arrays["covariance"] = stack.covariance
        elif np.any(variances):
            arrays["variances"] = np.ascontiguousarray(variances)
    elif stack.variances is not None and np.any(stack.variances):
        arrays["variances"] = np.ascontiguousarray(stack.variances)
    both = {"transition": stack.transition, "gain": stack.gain, "start": stack.start}
    return arrays | {name: np.ascontiguousarray(each) for name, each in both.items() if each is not None}
