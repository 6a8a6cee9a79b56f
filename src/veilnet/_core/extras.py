"""Optional parts: what each is for, which packages it needs, and the line that installs it."""

from __future__ import annotations

from dataclasses import dataclass

from veilnet._core.errors import MissingExtra


@dataclass(frozen=True)
class Extra:
    """An optional part of veilnet.

    purpose: what it is for, in a few words.
    modules: the modules it imports, as Python names them.
    """

    purpose: str
    modules: tuple[str, ...]


EXTRAS = {
    "plot": Extra("pictures", ("matplotlib",)),
    "tables": Extra("data frames, Parquet, Feather and Excel files", ("pandas", "pyarrow", "openpyxl")),
    "sklearn": Extra("attackers that learn, scikit-learn estimators", ("sklearn",)),
    "paper": Extra(
        "the paper's experiments and solvers, benchmarks",
        ("cvxpy", "clarabel", "scs", "joblib", "threadpoolctl", "matplotlib"),
    ),
    "sign": Extra("signatures of plans", ("securesystemslib", "cryptography")),
    "cluster": Extra("networks on a Dask cluster", ("dask", "distributed", "threadpoolctl")),
    "live": Extra("agents and a centre over a broker", ("paho", "cryptography", "securesystemslib")),
    "studio": Extra("the page in the browser", ("starlette", "uvicorn", "threadpoolctl")),
    "stonesoup": Extra("sanitized measurements in Stone Soup", ("stonesoup",)),
}


def install_line(extra: str) -> str:
    """How to install an extra: by its published name, and from the folder of its source where it has none yet.

    extra: its name, or several with commas between.
    """
    return f'pip install "veilnet[{extra}]" (in the folder of its source: pip install ".[{extra}]")'


def missing_extra(needs: str, extra: str) -> MissingExtra:
    """The error for a missing package.

    needs: who needs what, such as "plots need matplotlib".
    extra: the one that brings it.
    """
    return MissingExtra(f"{needs}: {install_line(extra)}")
