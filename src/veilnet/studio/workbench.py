"""What is on the table: a network, a plan for it, what was asked, and the jobs that still run.

One person works at it. Every change is made under a lock, and a job that ends after the network was exchanged finds
its result no longer wanted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidRequest
from veilnet.auditing.report import AuditReport
from veilnet.calibration.fitting import Calibration
from veilnet.designs.choice import design
from veilnet.designs.frontiers import Frontier
from veilnet.designs.nearby import Nearby
from veilnet.io.template import house
from veilnet.model.network import Network
from veilnet.plans.plan import Plan
from veilnet.studio import tasks
from veilnet.studio.asking import Ask, read_ask
from veilnet.studio.jobs import Job, Task
from veilnet.studio.uploads import Table, network_of, table_of
from veilnet.studio.what_if import read_agents
from veilnet.verdict.exact_test import check
from veilnet.verdict.verdict import Verdict

__all__ = ["Loaded", "Workbench"]


@dataclass(eq=False)
class Loaded:
    """A network and everything known about it.

    name:      of the file it came from.
    plan:      the answer to ``ask``; ``refined`` once it is what ``design`` answers.
    curve:     the frontier, once it was traced. audit: of ``plan``, once there is one.
    silent, betrayed: the agents of the what-if.
    """

    name: str
    network: Network
    verdict: Verdict
    plan: Plan
    nearby: Nearby | None
    ask: Ask = field(default_factory=Ask)
    refined: bool = True
    curve: Frontier | None = None
    audit: AuditReport | None = None
    silent: tuple[str, ...] = ()
    betrayed: tuple[str, ...] = ()


class Workbench:
    """The studio without its page.

    folder: a private one, for what is given.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self.loaded: Loaded | None = None
        self.table: Table | None = None
        self.jobs: dict[str, Job] = {}
        self.version = 0

    # --- what is opened

    def open_example(self, *, stream: bool) -> None:
        """The small house."""
        self.load("house.toml", house(stream=stream))

    def open_network(self, name: str, content: bytes) -> None:
        """A network file, or the text of one."""
        self.load(name if "." in name else "network.toml", network_of(name, content, self._folder))

    def open_table(self, name: str, content: bytes) -> None:
        """A table whose columns are still to be given roles."""
        found = table_of(name, content, self._folder)
        with self._lock:
            self.table = found
            self.version += 1

    def fit(self, roles: Mapping[str, Any]) -> None:
        """Begin to make a network from the table."""
        if self.table is None:
            raise InvalidRequest("fit: no table was opened; drop one first")
        unknown = set(roles) - {"agents", "public", "private", "time"}
        if unknown:
            raise InvalidRequest(
                f"fit: expected agents, public, private and time, found {sorted(unknown)[0]!r}"
            )
        stem = self.table.name.partition(".")[0] or "network"
        self._start(
            "fit", tasks.fitted, (self.table.path, dict(roles)), lambda made: self._fitted(stem, made)
        )

    def _fitted(self, stem: str, made: Calibration) -> None:
        self.load(f"{stem}.toml", made.network)

    def load(self, name: str, network: Network) -> None:
        """Put a network on the table, with the plan that is free, and begin to trace its frontier."""
        verdict = check(network)
        free = design(network)
        nearby = None if network.is_stream else Nearby(verdict)
        nearby = nearby if nearby is not None and nearby.quick else None
        with self._lock:
            for job in ("trace", "refine", "audit"):
                self.cancel(job)
            self.loaded = Loaded(name, network, verdict, free, nearby)
            self.version += 1
        self._start("trace", tasks.trace, (free,), self._traced, part=self._traced)

    def _traced(self, curve: Frontier | None) -> None:
        with self._lock:
            now = self.now
            now.curve = curve
            if now.nearby is not None and curve is not None and curve.rows[-1].plan is not None:
                now.nearby.learn(curve.rows[-1].plan.sanitizers)
            self.version += 1

    # --- what is asked

    @property
    def now(self) -> Loaded:
        """What is on the table; an error where nothing is."""
        if self.loaded is None:
            raise InvalidRequest("nothing is open yet; open a network or a table first")
        return self.loaded

    def ask(self, given: Mapping[str, Any]) -> None:
        """Answer at once with a plan beside known ones; where that cannot be, begin to search for one."""
        with self._lock:
            now = self.now
            asked = read_ask(given, now.verdict)
            self.cancel("refine")
            if now.nearby is None:
                now.ask = asked
                self.refine()
                return
            if asked.loss is not None:
                plan = now.nearby.within(asked.loss)
            else:
                plan = now.nearby.plan({name: asked.privacy.get(name, 0.0) for name in now.network.private})
            self._answered(asked, plan, refined=plan.method == "perfect")

    def refine(self) -> None:
        """Begin to search for the plan that ``design`` would answer with."""
        now = self.now
        given = (now.network, now.ask)
        self._start("refine", tasks.refine, given, lambda plan: self._answered(given[1], plan, refined=True))

    def _answered(self, asked: Ask, plan: Plan, *, refined: bool) -> None:
        with self._lock:
            now = self.now
            now.ask, now.plan, now.refined, now.audit = asked, plan, refined, None
            self.cancel("audit")
            if now.nearby is not None:
                now.nearby.learn(plan.sanitizers)
            self.version += 1

    def what_if(self, given: Mapping[str, Any]) -> None:
        """Some agents silent, or handed to the attacker: ``{"silent": [...], "betrayed": [...]}``."""
        with self._lock:
            now = self.now
            now.silent = read_agents("silent", given.get("silent", []), now.plan)
            now.betrayed = read_agents("betrayed", given.get("betrayed", []), now.plan)
            self.version += 1

    def audit(self) -> None:
        """Begin to attack the plan."""
        self._start("audit", tasks.attack, (self.now.plan,), self._audited)

    def _audited(self, found: AuditReport) -> None:
        with self._lock:
            self.now.audit = found
            self.version += 1

    # --- jobs

    def _start(
        self,
        name: str,
        task: Task,
        given: tuple[Any, ...],
        done: Callable[[Any], None],
        part: Callable[[Any], None] | None = None,
    ) -> None:
        with self._lock:
            self.cancel(name)
            about = self.loaded

            def wanted(use: Callable[[Any], None]) -> Callable[[Any], None]:
                def used(result: Any) -> None:
                    with self._lock:
                        # A network that was made from a table takes the place of the one before.
                        if name == "fit" or self.loaded is about:
                            use(result)

                return used

            heard = None if part is None else wanted(part)
            self.jobs[name] = Job(name, task, given, part=heard, done=wanted(done))

    def cancel(self, name: str) -> None:
        """End a job; what it would have found is not wanted any more."""
        job = self.jobs.get(name)
        if job is not None and job.state == "running":
            job.cancel()

    def close(self) -> None:
        """End every job."""
        for name in list(self.jobs):
            self.cancel(name)
