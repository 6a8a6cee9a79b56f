"""Networks that outgrow a machine: agents in a folder of parts, worked on by the workers of a Dask cluster.

``save_parts`` writes such a folder, ``open_parts`` opens it; ``check``, ``design`` and ``verify`` take it with
``client=`` a ``dask.distributed`` client, or without one, to do the same here, with the same bits as a result.
"""

from veilnet.cluster.calls import PartsPlan, PartsVerdict, check, design, verify
from veilnet.cluster.connecting import connect, local_cluster
from veilnet.cluster.extracting import agent_file
from veilnet.cluster.parts import Parts, open_parts, save_parts

__all__ = [
    "Parts",
    "PartsPlan",
    "PartsVerdict",
    "agent_file",
    "check",
    "connect",
    "design",
    "local_cluster",
    "open_parts",
    "save_parts",
    "verify",
]
