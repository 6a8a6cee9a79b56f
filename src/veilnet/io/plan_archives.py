"""A plan as one file, plan.npz: a few arrays however many agents there are (:mod:`veilnet.io.plan_arrays`).

Beside those arrays it holds its ``format``, the ``plan``'s id, a digest of them all, so that a file that was cut
off or changed is noticed, and perhaps the ``proof`` of its gap. Any agent's own file is extracted from it, the same
to the last byte as in the folder of the plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidPlan, InvalidRequest, NotObservable
from veilnet.agent.grid import checked_steps
from veilnet.agent.mechanisms import Mechanisms, check_sanitizers, mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.io import _archives, sanitizer_files
from veilnet.io._archives import Arrays, open_arrays
from veilnet.io._atomic import replacing
from veilnet.io._formats import PLAN_ARCHIVE as FORMAT
from veilnet.io._formats import check_format
from veilnet.io._kinds import ByName, file_errors
from veilnet.io._sealed import seal
from veilnet.io.network_schema import network_from_arrays
from veilnet.io.plan_arrays import arrays_id, plan_arrays
from veilnet.io.proof_files import proof_of
from veilnet.model.network import Network
from veilnet.model.stream_size import by_stacks
from veilnet.plans.lower_bound.proof import Proof
from veilnet.sums.handing_out import handed_out, members_of

_CONTENT = ("document", "sanitizers", "network.", "sent")
_AGAIN = "copy it again, or save the plan again"
_STACK_ARRAYS = {field.name for field in fields(SanitizerStack)}


def is_archive(path: str | PathLike[str]) -> bool:
    """Whether a plan by this name is one file and not a folder."""
    target = Path(path)
    if target.suffix.lower() == ".mat" and not target.is_dir():
        raise InvalidPlan(
            f"{target}: a plan is a folder or an .npz file; docs/how-to/matlab.md shows how MATLAB gets its matrices"
        )
    return target.suffix.lower() == ".npz" and not target.is_dir()


def write_archive(
    path: Path,
    promises: Mapping[str, Any],
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    proof: Mapping[str, Any] | None,
) -> None:
    """Write a plan as one file, whole or not at all.

    proof: the content of its proof, which the id covers by the digest among the promises.
    """
    arrays = plan_arrays(promises, network, sanitizers)
    with replacing(path) as file:
        marks = {"format": np.array(FORMAT), "plan": np.array(arrays_id(arrays))}
        if proof is not None:
            marks["proof"] = np.array(json.dumps(proof))
        np.savez(file, **marks, **arrays)  # type: ignore[arg-type]  # the stubs take the names for options


class Archive:
    """The arrays of a plan file, intact but none of them believed yet.

    plan: the id it bears.
    """

    def __init__(self, path: Path, plan: str, arrays: Arrays, proof: Arrays) -> None:
        self.path, self.plan, self._arrays, self._proof = path, plan, arrays, proof

    @classmethod
    def read(cls, path: Path) -> Archive:
        """All arrays of a file; InvalidPlan where it is none of a plan, cut off or changed."""
        try:
            content = open_arrays(path)
            check_format(_archives.text(content, "format"), FORMAT)
        except (InvalidNetwork, InvalidPlan) as error:
            raise InvalidPlan(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error
        plan = _archives.text(content, "plan")
        if plan is None:
            raise InvalidPlan(f"{path}: holds no plan's id, so it is no plan, or was changed; {_AGAIN}")
        del content["format"], content["plan"]
        proof = {name: content.pop(name) for name in ("proof",) if name in content}
        if arrays_id(content) != plan:
            raise InvalidPlan(f"{path}: the plan's id does not match its content; {_AGAIN}")
        strangers = [name for name in content if not name.startswith(_CONTENT)]
        if strangers:
            raise InvalidPlan(f"{path}: {strangers[0]!r}: no such array belongs to a plan; {_AGAIN}")
        return cls(path, plan, content, proof)

    def promises(self) -> dict[str, Any]:
        """What is promised, as in plan.json."""
        with file_errors(self.path):
            return _archives.table(self._arrays, "document")

    def proof(self, statement: Mapping[str, Any]) -> Proof:
        """The proof that the promises name; InvalidPlan where it is missing or another."""
        with file_errors(self.path):
            content = _archives.table(self._proof, "proof")
        return proof_of(content, self.path, statement)

    def network(self) -> Network:
        """The network, checked as one from a file of its own."""
        mine = "network."
        try:
            return network_from_arrays(
                {
                    name.removeprefix(mine): each
                    for name, each in self._arrays.items()
                    if name.startswith(mine)
                }
            )
        except (InvalidNetwork, NotObservable) as error:
            raise InvalidPlan(f"{self.path}: network: {error}") from error

    def sanitizers(self, network: Network) -> Mapping[str, Sanitizer]:
        """What every agent sends, as stacks where they are in normal form."""
        if "sanitizers" in self._arrays:
            return self._each(network)
        stacks = self._stacks(network.S)
        for stack in stacks:
            sizes = network.blocks.sizes[stack["places"]]
            if np.any(sizes != stack["compression"].shape[2] - _order(stack)):
                raise self._changed("compression: made for another number of readings than the network says")
            if "transition" in stack and not network.is_stream:
                raise self._changed("transition: agents keep a memory, and the network is no stream")
        given: Any = [{name: each.get(name) for name in _STACK_ARRAYS} for each in stacks]
        found = Mechanisms(network, [SanitizerStack(**each) for each in given])
        normal = all(
            "covariance" not in stack and np.all(np.isin(stack.get("variances", 0.0), (0.0, 1.0)))
            for stack in stacks
        )
        if normal and network.R.independent and (not network.is_stream or by_stacks(network)):
            return found
        try:
            return mechanisms(network, dict(found))
        except InvalidNetwork as error:
            raise self._changed(str(error)) from error

    def _each(self, network: Network) -> dict[str, Sanitizer]:
        """What every agent sends, where it was written agent by agent."""
        if any(name.startswith("sent") for name in self._arrays):
            raise self._changed("expected either sanitizers or what kinds of agents send")
        with file_errors(self.path):
            written = _archives.table(self._arrays, "sanitizers")
            found = ByName(sanitizer_files.SANITIZER).read(written, "sanitizers")
        made = {agent: sanitizer_files.from_values(each, self.path) for agent, each in found.items()}
        try:
            check_sanitizers(network, made)
        except InvalidRequest as error:
            raise self._changed(str(error)) from error
        return made

    def agent_file(self, agent: str) -> bytes:
        """The content of one agent's own file, as the folder of the plan would have it."""
        network = self.network()
        agents = members_of(network) if network.members else network.agents
        if agent not in agents:
            some = ", ".join(agents[:8]) + (f", ... ({len(agents)} in all)" if len(agents) > 8 else "")
            raise InvalidPlan(f"{self.path}: no agent {agent!r} in the plan; there are {some}")
        found = self.sanitizers(network)
        own = handed_out(network, found)[agent] if network.members else found[agent]
        return seal(sanitizer_files.to_document(own, self.plan))

    def _stacks(self, count: int) -> list[Arrays]:
        """The arrays of every kind of agents: each of the right shape, and every agent in exactly one."""
        stacks: dict[str, Arrays] = {}
        for name, array in self._arrays.items():
            if name.startswith("sent"):
                head, _, tail = name.partition(".")
                stacks.setdefault(head, {})[tail] = array
        for name, stack in stacks.items():
            self._check_stack(name, stack)
        places = np.concatenate([np.zeros(0, np.int64), *(stack["places"] for stack in stacks.values())])
        if places.size != count or not np.array_equal(np.sort(places), np.arange(count)):
            raise self._changed(f"expected what each of {count} agents sends, once, found {places.size}")
        return list(stacks.values())

    def _check_stack(self, name: str, stack: Arrays) -> None:
        memory = {"transition", "gain", "start"} & set(stack)
        whole = not memory or {"transition", "gain"} <= memory
        if not {"places", "compression", "grid"} <= set(stack) <= _STACK_ARRAYS or not whole:
            raise self._changed(f"{name}: expected places, compression and grid, found {sorted(stack)}")
        places, compression = stack["places"], stack["compression"]
        if places.dtype.kind != "i" or places.ndim != 1 or np.any(places[1:] <= places[:-1]):
            raise self._changed(f"{name}.places: expected whole numbers that grow")
        if compression.ndim != 3 or len(compression) != len(places):
            raise self._changed(f"{name}.compression: expected ({len(places)}, numbers, readings)")
        (count, sent, columns), order = compression.shape, _order(stack)
        kept = (count, order, order)
        shapes = {"places": (count,), "compression": compression.shape, "grid": (count, sent)}
        shapes |= {"variances": (count, sent), "covariance": (count, sent, sent)}
        shapes |= {"transition": kept, "gain": (count, order, columns - order), "start": kept}
        for key, array in stack.items():
            kind = np.int64 if key == "places" else np.float64
            if array.dtype != kind or array.shape != shapes[key] or not np.all(np.isfinite(array)):
                raise self._changed(f"{name}.{key}: expected finite numbers of shape {shapes[key]}")
        if np.any(stack.get("variances", np.zeros(1)) < 0):
            raise self._changed(f"{name}.variances: expected none below zero")
        if memory and (not order or np.max(np.abs(np.linalg.eigvals(stack["transition"])), initial=0.0) >= 1):
            raise self._changed(f"{name}.transition: expected memories that forget")
        try:
            checked_steps(stack["grid"])
        except InvalidNetwork as error:
            raise self._changed(f"{name}.grid: not powers of two within range") from error

    def _changed(self, what: str) -> InvalidPlan:
        return InvalidPlan(f"{self.path}: {what}; the file was changed: {_AGAIN}")


def _order(stack: Arrays) -> int:
    """How many numbers agents of a stack keep from row to row; 0 without a memory."""
    return int(stack["transition"].shape[-1]) if "transition" in stack and stack["transition"].ndim else 0
