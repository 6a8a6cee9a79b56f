"""Short names for networks and plans, from everything their promises depend on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.common import SharedNoise
from veilnet.model.network import Network


def network_fingerprint(network: Network) -> str:
    """SHA-256 over names, model and prior; how readings are dithered is for a plan to say."""
    digest = hashlib.sha256(b"veilnet-network")
    for name in (*network.agents, "/", *network.parameters, "/", *network.private):
        digest.update(name.encode() + b"\0")
    arrays = [network.H, network.measured, *network.private.values(), network.prior_root]
    noise = network.undithered_noise
    if isinstance(noise, SharedNoise):
        arrays.append(noise.spread)
        noise = noise.own
    arrays += [noise.block(place) for place in range(network.S)]
    if not noise.independent:
        arrays.append(noise.matrix())
    if np.any(network.steps):
        arrays.append(network.steps)
    if network.dynamics is not None:
        digest.update(b"stream\0")
        arrays += [network.dynamics.transition, network.dynamics.noise, network.dynamics.mean]
    if network.colour is not None:
        arrays += [network.colour.memory, network.colour.innovation, network.colour.floor]
    return _digest(digest, arrays)


def plan_fingerprint(network: Network, sanitizers: Mapping[str, Sanitizer]) -> str:
    """SHA-256 over the network and what every agent sends."""
    digest = hashlib.sha256(network_fingerprint(network).encode())
    arrays: list[Array] = []
    for agent, sanitizer in sanitizers.items():
        digest.update(agent.encode() + b"\0")
        arrays += [sanitizer.compression, sanitizer.noise, sanitizer.offset]
        if sanitizer.dithers:
            arrays.append(sanitizer.dither_width)
        if sanitizer.memory is not None:
            arrays += [sanitizer.memory.transition, sanitizer.memory.gain]
    return _digest(digest, arrays)


def _digest(digest: hashlib._Hash, arrays: list[Array]) -> str:
    for array in arrays:
        digest.update(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array + 0.0).astype("<f8").tobytes())
    return digest.hexdigest()
