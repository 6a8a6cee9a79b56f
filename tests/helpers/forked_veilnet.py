"""The command ``veilnet`` without a new interpreter each time: a process that has imported everything forks for it.

What runs is `veilnet.cli.main` with the arguments, folder, environment and the three streams of whoever calls the
command, in a process of its own that ends with its exit code; only what Python does before that is shared. Searches
are small (:mod:`helpers.small_search`) where those of the test are. For tests of what commands do and print. Those of
how commands start, are interrupted or killed start them as users do.

Run as a script this file is either end of a Unix socket: ``serve SOCKET small`` (or ``whole``), or
``call SOCKET ARGUMENTS...``, which imports as little as it can.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

_LONGEST = 1 << 20


@contextmanager
def forked_veilnet(folder: Path) -> Iterator[str]:
    """A line of shell that does what ``veilnet`` does, before its arguments; ``folder`` is for a socket."""
    from helpers.small_search import searches_are_small

    address = folder / "veilnet.socket"
    tests = Path(__file__).parents[1]
    server = subprocess.Popen(
        [sys.executable, __file__, "serve", str(address), "small" if searches_are_small() else "whole"],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent / "src")])},
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        # Neither the packages nor the settings of Python are any of the caller's business: it starts in no time.
        yield f'"{sys.executable}" -S -E "{__file__}" call "{address}"'
    finally:
        server.terminate()
        server.communicate()


def _serve(address: str, searches: str) -> None:
    import veilnet
    from helpers.small_search import small_search
    from veilnet.cli import VERBS, main

    for name in veilnet.__all__:
        getattr(veilnet, name)
    for verb in VERBS:
        __import__(f"veilnet.cli.{verb}")
    __import__("veilnet.cli._command_line")
    with socket.socket(socket.AF_UNIX) as listening, small_search() if searches == "small" else nullcontext():
        listening.bind(address)
        listening.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            caller, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                code = _answer(caller, main)
                sys.stdout.flush()
                sys.stderr.flush()
                caller.sendall(b"%d" % code)
                os._exit(code)
            caller.close()
            _bury()


def _bury() -> None:
    """Take note of the children that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _answer(caller: socket.socket, main: Callable[[], None]) -> int:
    """Become the command that is asked for, and come to its end."""
    said, streams, _, _ = socket.recv_fds(caller, _LONGEST, 3)
    asked = json.loads(said)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["veilnet", *asked["arguments"]]
    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _call(address: str, arguments: list[str]) -> int:
    asked = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [json.dumps(asked).encode()], [0, 1, 2])
        return int(server.recv(16) or b"1")  # nothing is said by one that was killed


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _serve(*sys.argv[2:])
    else:
        sys.exit(_call(sys.argv[2], sys.argv[3:]))
