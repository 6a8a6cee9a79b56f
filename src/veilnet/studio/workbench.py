"""What is on the table: a network, a plan for it, what was asked, and the jobs that still run.

One person works at it. Every change is made under a lock, and a job that ends after the network was exchanged finds
its result no longer wanted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from veilnet._core.errors import InvalidRequest
from veilnet.auditing.report import AuditReport
from veilnet.calibration.fitting import Calibration
from veilnet.designs.choice import design
from veilnet.designs.frontiers import Frontier
from veilnet.designs.questions import read_asked
from veilnet.designs.secrets import secrets_in_numbers
from veilnet.io.template import house
from veilnet.model.network import Network
from veilnet.plans.plan import Plan
from veilnet.studio import tasks
from veilnet.studio.asking import Ask, read_ask, read_names
from veilnet.studio.jobs import Job, Task
from veilnet.studio.nearby import Nearby
from veilnet.studio.uploads import UploadedTable, network_of, table_of
from veilnet.symbols.plan import SymbolPlan
from veilnet.verdict.exact_test import Verdict, check


@dataclass(eq=False)
class Loaded:
    """A network and everything known about it.

    name:      of the file it came from.
    network:   as it is looked at; ``stated`` as it was opened, before someone said how far it may be off.
    plan:      the answer to ``ask``; ``refined`` once it is what ``design`` answers.
    searched:  a question that only a search answers and that has no answer yet; the plan is still the one before.
    curve:     the frontier, once it was traced. audit: of ``plan``, once there is one.
    silent, betrayed: the agents of the what-if.
    fitted_to: the rows the model was made from, where it was made here. held_out: rows to audit with.
    """

    name: str
    network: Network
    verdict: Verdict
    plan: Plan
    nearby: Nearby | None
    stated: Network
    ask: Ask = field(default_factory=Ask)
    refined: bool = True
    searched: Ask | None = None
    curve: Frontier | None = None
    audit: AuditReport | None = None
    silent: tuple[str, ...] = ()
    betrayed: tuple[str, ...] = ()
    fitted_to: UploadedTable | None = None
    held_out: UploadedTable | None = None

    @property
    def quick(self) -> bool:
        """Whether questions are answered at once, beside plans that are known."""
        return self.nearby is not None and self.nearby.quick

    @property
    def model_error(self) -> float | None:
        """How far the model may be off, where that is not as it was opened."""
        now = self.network.model_error
        return None if now == self.stated.model_error else now


@dataclass(eq=False)
class Symbols:
    """Plans of symbols that were learned from a table, and which of them is looked at.

    name:  of the table. plans: from the best score to the least to guess; all their promises hold together.
    roles: of the columns.
    """

    name: str
    plans: list[SymbolPlan]
    roles: Mapping[str, Any]
    chosen: int = 0

    @property
    def plan(self) -> SymbolPlan:
        """The one that is looked at."""
        return self.plans[self.chosen]


class Workbench:
    """The studio without its page."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.loaded: Loaded | None = None
        self.symbols: Symbols | None = None
        self.table: UploadedTable | None = None
        self.jobs: dict[str, Job] = {}
        self.version = 0
        self.opened = {"table": 0, "network": 0, "symbols": 0}
        """How many of each were put on the table, so that a page can tell a new one from one that changed."""

    # --- what is opened

    def open_example(self, *, stream: bool) -> None:
        """The small house."""
        self.load("house.toml", house(stream=stream))

    def open_network(self, name: str, content: bytes) -> None:
        """A network file, or the text of one."""
        self.load(name if "." in name else "network.toml", network_of(name, content))

    def open_table(self, name: str, content: bytes) -> None:
        """A table whose columns are still to be given roles."""
        found = table_of(name, content)
        with self._lock:
            self.table = found
            self.opened["table"] += 1
            self.version += 1

    def fit(self, roles: Mapping[str, Any]) -> None:
        """Begin to make a network from the table."""
        table = self._table_for(roles)
        if roles.get("blocks"):
            raise InvalidRequest(
                "blocks: which rows belong together is for symbols; a model has the time instead"
            )
        self._start("fit", tasks.fitted, (table.file, dict(roles)), lambda made: self._fitted(table, made))

    def learn(self, roles: Mapping[str, Any]) -> None:
        """Begin to learn plans of symbols from the table."""
        table = self._table_for(roles)
        if len(roles.get("public", ())) != 1 or roles.get("time"):
            raise InvalidRequest("public: symbols say one column, and know no time; choose one, and no time")

        def learned(plans: list[SymbolPlan]) -> None:
            with self._lock:
                self.symbols = Symbols(table.name, plans, dict(roles))
                self.opened["symbols"] += 1
                self.version += 1

        self._start("symbols", tasks.symbols, (table.file, dict(roles)), learned)

    def choose(self, given: Mapping[str, Any]) -> None:
        """Look at another of the plans of symbols, ``{"plan": place}``."""
        with self._lock:
            if given.get("plan") not in range(len(self.learned.plans)):
                raise InvalidRequest("plan: expected the place of one of the plans of symbols")
            self.learned.chosen = int(given["plan"])
            self.version += 1

    @property
    def learned(self) -> Symbols:
        """The plans of symbols; an error where there are none."""
        if self.symbols is None:
            raise InvalidRequest("no symbols were learned yet; open a table first")
        return self.symbols

    def _table_for(self, roles: Mapping[str, Any]) -> UploadedTable:
        """The table, whose columns were given roles; an error says which is missing."""
        if self.table is None:
            raise InvalidRequest("fit: no table was opened; drop one first")
        unknown = set(roles) - {"agents", "public", "private", "time", "blocks"}
        if unknown:
            raise InvalidRequest(
                f"fit: expected agents, public, private, time and blocks, found {sorted(unknown)[0]!r}"
            )
        needed = {"agents": "a reading", "public": "public", "private": "private"}
        for role, words in needed.items():
            if not roles.get(role):
                raise InvalidRequest(f"columns: none is {words} yet; say of at least one column that it is")
        return self.table

    def _fitted(self, table: UploadedTable, made: Calibration) -> None:
        stem = table.name.partition(".")[0] or "network"
        fresh = _fresh(f"{stem}.toml", made.network, made.network)
        fresh.fitted_to = table
        self._put(fresh)

    def load(self, name: str, network: Network) -> None:
        """Put a network on the table, with the plan that is free, and begin to trace its frontier."""
        self._put(_fresh(name, network, network))

    def _put(self, fresh: Loaded) -> None:
        with self._lock:
            for job in ("trace", "refine", "audit"):
                self.cancel(job)
            self.loaded = fresh
            self.opened["network"] += 1
            self.version += 1
        self._trace(fresh.plan)

    def doubt_model(self, given: Mapping[str, Any]) -> None:
        """Say how far the model may be off, ``{"model_error": 0.05}``, and ask what was asked before again."""
        if set(given) != {"model_error"}:
            raise InvalidRequest("model: expected model_error, a fraction such as 0.05")
        before = self.now
        network = before.stated.replace(model_error=given["model_error"])
        fresh = _fresh(before.name, network, before.stated)  # takes a while, and the page asks on meanwhile
        with self._lock:
            if self.loaded is not before:
                raise InvalidRequest(
                    "model: another network was opened meanwhile; say it of that one once more"
                )
            fresh.silent, fresh.betrayed = before.silent, before.betrayed
            fresh.fitted_to, fresh.held_out = before.fitted_to, before.held_out
            self._put(fresh)
            if before.ask.pays:
                self._ask(before.ask)

    def _trace(self, free: Plan) -> None:
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
            self._ask(read_ask(given, self.now.verdict))

    def _ask(self, asked: Ask) -> None:
        now = self.now
        if now.nearby is not None:
            now.nearby = now.nearby.giving_up(frozenset(asked.give_up))
        several = any(len(now.network.private[name]) > 1 for name in asked.seen)
        plan: Plan | None = None
        if now.nearby is not None and now.nearby.quick and not asked.of_every_direction and not several:
            plan = _beside(now.nearby, asked)
        if plan is None:
            now.searched = asked
            self._search(asked)
            return
        self.cancel("refine")
        self._answered(asked, plan, refined=plan.method == "perfect")

    def refine(self) -> None:
        """Begin to search for the plan that ``design`` would answer with."""
        self._search(self.now.ask)

    def _search(self, asked: Ask) -> None:
        def found(plan: Plan) -> None:
            self._answered(asked, plan, refined=True)

        self._start("refine", tasks.refine, (self.now.network, asked), found)
        self.version += 1

    def _answered(self, asked: Ask, plan: Plan, *, refined: bool) -> None:
        with self._lock:
            now = self.now
            now.ask, now.plan, now.refined, now.audit, now.searched = asked, plan, refined, None, None
            self.cancel("audit")
            if now.nearby is not None:
                now.nearby.learn(plan.sanitizers)
            self.version += 1

    def what_if(self, given: Mapping[str, Any]) -> None:
        """Some agents silent, or handed to the attacker: ``{"silent": [...], "betrayed": [...]}``."""
        with self._lock:
            now = self.now
            now.silent = read_names("silent", given.get("silent", []), now.plan.sanitizers, "agent")
            now.betrayed = read_names("betrayed", given.get("betrayed", []), now.plan.sanitizers, "agent")
            self.version += 1

    def hold_out(self, name: str, content: bytes) -> None:
        """Keep a table of rows that the model was not made from, to audit with."""
        now, found = self.now, table_of(name, content)
        with self._lock:
            now.held_out = found
            self.version += 1

    def audit(self, given: Mapping[str, Any]) -> None:
        """Begin to attack the plan, ``{"rows": kind}``: "simulated" (or nothing), "held out" or "fitted to"."""
        now, kind = self.now, given.get("rows", "simulated")
        kinds = {"simulated": None, "held out": now.held_out, "fitted to": now.fitted_to}
        if not isinstance(kind, str) or kind not in kinds:
            raise InvalidRequest(f"rows: expected one of {', '.join(kinds)}, found {str(kind)[:40]!r}")
        table = kinds[kind]
        if table is None and kind != "simulated":
            raise InvalidRequest(f"rows: there are none that are {kind}; drop a table of them first")
        rows = None if table is None else table.file
        self._start("audit", tasks.attack, (now.plan, rows, kind == "fitted to"), self._audited)

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
                        if name in ("fit", "symbols") or self.loaded is about:
                            use(result)

                return used

            heard = None if part is None else wanted(part)
            self.jobs[name] = Job(name, task, given, part=heard, done=wanted(done))

    def cancel(self, name: str) -> None:
        """End a job; what it would have found is not wanted any more."""
        job = self.jobs.get(name)
        if job is not None and job.state == "running":
            job.cancel()
            if name == "refine" and self.loaded is not None:
                self.loaded.searched = None
                self.version += 1

    def close(self) -> None:
        """End every job."""
        for name in list(self.jobs):
            self.cancel(name)


def _beside(nearby: Nearby, asked: Ask) -> Plan | None:
    """A plan beside known ones; None where it does not hide changes as asked, as with the dither of another plan."""
    if asked.loss is not None:
        return nearby.within(asked.loss)
    network = nearby.verdict.network
    plan = nearby.plan(dict(secrets_in_numbers(network, read_asked(network, asked.targets)).targets))
    hidden = all(plan.detectability[name].longest.auc <= asked.privacy[name] for name in asked.seen)
    return plan if hidden else None


def _fresh(name: str, network: Network, stated: Network) -> Loaded:
    """A network with what is known of it at once: whether privacy is free, and the plan that is."""
    verdict = check(network)
    nearby = None if network.is_stream else Nearby(verdict)
    return Loaded(name, network, verdict, design(network), nearby, stated)
