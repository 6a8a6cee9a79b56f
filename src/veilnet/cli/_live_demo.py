"""``veilnet live demo``: a broker, a centre and five agents on this machine, and two of them killed on the way."""

from __future__ import annotations

import json as json_module
import queue
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from veilnet._core.errors import VeilnetError
from veilnet.cli._command_line import option
from veilnet.cli._shared import print_json, show

if TYPE_CHECKING:
    from veilnet.cli._mosquitto import Broker
    from veilnet.live.keys import KeyFolder
    from veilnet.plans.plan import Plan

_PATIENCE = 120.0  # seconds for anything to answer


def command(
    epochs: int = option("--epochs", "How many quarters of an hour to play.", at_least=3, default=24),
    pace: float = option("--pace", "Seconds from one to the next.", at_least=0.0, default=0.3),
    kills: bool = option("--kills", "Kill an agent and the broker on the way.", yes_or_no=True, default=True),
    json: bool = option("--json", "Answer in JSON, at the end."),
) -> None:
    """Play the bundled house over a real broker: estimates arrive beside the truth, whatever is killed.

    Makes a certificate authority that is thrown away afterwards, starts Mosquitto on the loopback, a centre and an
    agent for each room, and stops all of them at the end. Neither a process nor a file of theirs stays.
    """
    with tempfile.TemporaryDirectory(prefix="veilnet-live-") as folder, ExitStack() as stack:
        played = Show(Path(folder), stack, epochs, say=(lambda _: None) if json else show)
        played.play(pace, kills=kills)
        if json:
            print_json(played.summary())
        else:
            played.conclude()


class Show:
    """One performance; everything it starts ends with the stack.

    folder: where keys, stores and the plan are; say: prints a line for the audience.
    """

    def __init__(self, folder: Path, stack: ExitStack, epochs: int, say: Any) -> None:
        import numpy as np

        from veilnet.cli._mosquitto import Broker
        from veilnet.cli.story import drawn_house
        from veilnet.designs import design
        from veilnet.io.template import house
        from veilnet.live.broker import BrokerPlan
        from veilnet.live.keys import make_keys
        from veilnet.live.seals import make_seals

        self._folder, self._stack, self._epochs, self._say = folder, stack, epochs, say
        self._plan: Plan = design(house())
        self._plan.save(folder / "plan")
        agents = list(self._plan.network.agents)
        x, readings, _ = drawn_house(self._plan.network, epochs, seed=1)
        rng = np.random.default_rng(1)  # no two are equal: they can be looked for
        self._truth = x @ self._plan.network.U.T
        self._readings = {agent: own + rng.uniform(-1e-4, 1e-4, own.shape) for agent, own in readings.items()}
        keys = make_keys(folder / "keys", agents)
        make_seals(keys.keys, agents)
        self._keys: KeyFolder = keys.keys
        self._broker: Broker = stack.enter_context(Broker(self._keys.broker, BrokerPlan(agents)))
        say(
            f"A broker on the loopback, with certificates of its own ({self._broker.address}), a centre, and agents "
            f"in {', '.join(agents)}.\nEach room sends its share of what is public, sealed, and nothing else."
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._centre = self._start_centre()
        self._agents = {agent: self._start_agent(agent, "--begin") for agent in agents}
        self.estimates: dict[int, dict[str, Any]] = {}

    def play(self, pace: float, *, kills: bool) -> None:
        """Feed every agent epoch after epoch; show what the centre makes of it."""
        for epoch in range(1, self._epochs + 1):
            for agent in self._agents:
                self._feed(agent, epoch)
            if epoch == 1:  # everybody is there
                self._show_until(1)
            if kills and epoch == max(2, self._epochs // 3):
                self._kill_an_agent(epoch)
            if kills and epoch == max(2, 2 * self._epochs // 3):
                self._say("kill -9 of the broker; it is started again, and has forgotten everything")
                self._broker.kill()
                self._broker.start()
            self._show_for(pace)
        for running in self._agents.values():
            _stdin(running).close()
        self._show_until(self._epochs)
        for running in self._agents.values():
            running.wait(_PATIENCE)
        self._show_for(0.1)
        self._centre.send_signal(signal.SIGTERM)
        self._centre.wait(_PATIENCE)

    def _feed(self, agent: str, epoch: int) -> None:
        into, row = _stdin(self._agents[agent]), self._readings[agent][epoch - 1]
        into.write((",".join([str(epoch), *map(repr, row.tolist())]) + "\n").encode())
        into.flush()

    def _kill_an_agent(self, last: int) -> None:
        agent = next(iter(self._agents))
        self._say(f"kill -9 of the agent in the {agent}; it is started again, and goes on where it was")
        self._agents[agent].kill()
        self._agents[agent].wait()
        self._agents[agent] = self._start_agent(agent)
        for epoch in range(1, last + 1):  # a sensor's log, read again from its beginning
            self._feed(agent, epoch)

    def _show_until(self, epochs: int) -> None:
        """Until so many epochs are estimated; an error where that takes too long, or somebody ended."""
        deadline = time.monotonic() + _PATIENCE
        while len(self.estimates) < epochs:
            self._show_for(0.1)
            running = {"centre": self._centre, **self._agents}
            failed = [name for name, process in running.items() if (process.poll() or 0) > 1]
            if failed or time.monotonic() > deadline:
                words = (self._folder / "log.txt").read_text(encoding="utf-8", errors="replace")
                raise VeilnetError(
                    f"live demo: {' and '.join(failed) or 'an estimate'} did not come; the last words were: "
                    f"{'; '.join(words.splitlines()[-3:])}"
                )

    def _show_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            try:
                line = self._lines.get(timeout=max(0.001, left)) if left > 0 else self._lines.get_nowait()
            except queue.Empty:
                return
            found = json_module.loads(line)
            self.estimates[found["epoch"]] = found
            self._say(self._beside_the_truth(found))

    def _beside_the_truth(self, found: dict[str, Any]) -> str:
        truth = self._truth[found["epoch"] - 1]
        parts = [
            f"{name} {each['value']:.2f} ± {each['deviation']:.2f} {each['unit']} (truth {true:.2f})"
            for (name, each), true in zip(found["estimates"].items(), truth, strict=True)
        ]
        missing = f"  without {', '.join(found['missing'])}" if found["missing"] else ""
        revised = f"  revision {found['revision']}" if found["revision"] else ""
        return f"epoch {found['epoch']:>3}  {'  '.join(parts)}{missing}{revised}"

    def summary(self) -> dict[str, Any]:
        """What happened, for programs."""
        from veilnet.live.status import read_status

        counts = {"epochs": self._epochs, "estimated": len(self.estimates)}
        found = {"errors_in_deviations": self._errors(), "raw_readings_on_disk": self._raw_on_disk()}
        return counts | found | {"status": read_status(self._folder / "estimates.sqlite").as_json()}

    def conclude(self) -> None:
        """What there is to say at the end."""
        from veilnet.cli._views import show_centre
        from veilnet.live.status import read_status

        self._say("")
        show_centre(read_status(self._folder / "estimates.sqlite"))
        raw = self._raw_on_disk()
        self._say(
            f"{len(self.estimates)} of {self._epochs} epochs were estimated, on average {self._errors():.2f} "
            "deviations from the truth (1 is what is promised)."
        )
        self._say(
            f"Of {sum(each.size for each in self._readings.values())} raw readings, {raw} are in any file that "
            "agents, broker and centre wrote."
        )
        self._say("Everything that was started is stopped, keys and stores are removed.")
        self._say("Your own network: veilnet live keys plan/ --out keys/, veilnet agent, veilnet center.")

    def _errors(self) -> float:
        """Root mean square error of the estimates, in units of their deviations."""
        total, count = 0.0, 0
        for epoch, found in self.estimates.items():
            for each, true in zip(found["estimates"].values(), self._truth[epoch - 1], strict=True):
                if each["value"] is not None:
                    total += ((each["value"] - float(true)) / each["deviation"]) ** 2
                    count += 1
        return float((total / max(count, 1)) ** 0.5)

    def _raw_on_disk(self) -> int:
        """How many raw readings stand in any file, as float64 or as text."""
        files = [path for path in self._folder.rglob("*") if path.is_file() and "plan" not in path.parts]
        content = b"\0".join(path.read_bytes() for path in files)
        values = [value for rows in self._readings.values() for value in rows.reshape(-1).tolist()]
        return sum(struct.pack("<d", x) in content or f"{x:.12g}"[:12].encode() in content for x in values)

    def _start_centre(self) -> subprocess.Popen[bytes]:
        folder = self._folder
        started = self._start(
            "center", folder / "plan" / "center.json", "--broker", self._broker.address, "--cert",
            self._keys.centre.folder, "--out", folder / "estimates.sqlite", "--wait", "10s", "--json",
        )  # fmt: skip
        assert started.stdout is not None
        threading.Thread(target=_read, args=(started.stdout, self._lines), daemon=True).start()
        return started

    def _start_agent(self, agent: str, *begin: str) -> subprocess.Popen[bytes]:
        from veilnet.io.plan_files import file_names

        folder, keys = self._folder, self._keys.agent(agent).folder
        started = self._start(
            "agent", folder / "plan" / file_names(self._plan.network.agents)[agent], "--broker",
            self._broker.address, "--cert", keys, "--store", folder / f"{keys.name}.sqlite", *begin,
        )  # fmt: skip
        _stdin(started).write((",".join(["row", *self._plan.network.reading_names[agent]]) + "\n").encode())
        return started

    def _start(self, *arguments: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "veilnet", *map(str, arguments)]
        with (self._folder / "log.txt").open("ab") as log:
            started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self._stack.callback(_end, started)
        return started


def _stdin(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


def _read(lines: IO[bytes], into: queue.Queue[str]) -> None:
    for line in lines:
        into.put(line.decode())


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
