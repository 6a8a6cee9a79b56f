"""The studio's addresses: each hands one wish to the workbench and answers with what there is to see."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from veilnet._core.errors import InvalidRequest, VeilnetError
from veilnet.plans.plan import Plan
from veilnet.report.building import report_of
from veilnet.report.page import stylesheet
from veilnet.studio.views import job_states, view
from veilnet.studio.workbench import Loaded, Workbench
from veilnet.symbols.plan import SymbolPlan


def network_text(now: Loaded) -> bytes:
    """The network as TOML."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.toml"
        now.network.save(path)
        return path.read_bytes()


def plan_archive(made: Plan | SymbolPlan) -> bytes:
    """The plan's folder as a .zip: ``plan/`` with a file for each agent and one for the centre."""
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan"
        made.save(plan)
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(plan.rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(folder).as_posix())
    return packed.getvalue()


def report_page(now: Loaded) -> bytes:
    """The report of the plan, with the frontier and the audit as far as there are any."""
    return report_of(now.plan, audit=now.audit, curve=now.curve).html.encode()


_FILES = Path(__file__).with_name("page")
PAGE = frozenset({"/", "/index.html", "/door.js", "/studio.js", "/studio.css", "/report.css"})
"""The addresses of the page itself, which holds nothing."""


def application(bench: Workbench) -> Starlette:
    """The addresses of one workbench."""

    async def answer(wish: Callable[[], None]) -> JSONResponse:
        await run_in_threadpool(wish)
        return JSONResponse(_finite(await run_in_threadpool(view, bench)))

    async def everything(_request: Request) -> JSONResponse:
        return await answer(lambda: None)

    def jobs(_request: Request) -> JSONResponse:
        return JSONResponse({"version": bench.version, "jobs": job_states(bench)})

    async def wished(request: Request) -> JSONResponse:
        body, asked = await request.body(), request.path_params["wish"]
        query = request.query_params
        name, stream = query.get("name", "pasted"), query.get("stream") == "true"
        wishes: dict[str, Callable[[], None]] = {
            "example": lambda: bench.open_example(stream=stream),
            "network": lambda: bench.open_network(name, body),
            "table": lambda: bench.open_table(name, body),
            "held-out": lambda: bench.hold_out(name, body),
            "fit": lambda: bench.fit(_table(body)),
            "symbols": lambda: bench.learn(_table(body)),
            "choose": lambda: bench.choose(_table(body)),
            "ask": lambda: bench.ask(_table(body)),
            "refine": bench.refine,
            "what-if": lambda: bench.what_if(_table(body)),
            "audit": lambda: bench.audit(_table(body)),
            "model": lambda: bench.doubt_model(_table(body)),
            "cancel": lambda: bench.cancel(str(_table(body).get("job"))),
        }
        if asked not in wishes:
            raise InvalidRequest(f"{asked[:40]!r}: the studio has no such address")
        return await answer(wishes[asked])

    def download(request: Request) -> Response:
        page, packed = ("text/html; charset=utf-8", "report.html"), ("application/zip", "plan.zip")
        files: dict[str, Callable[[], tuple[bytes, str, str]]] = {
            "network.toml": lambda: (network_text(bench.now), "application/toml", bench.now.name),
            "plan.zip": lambda: (plan_archive(bench.now.plan), *packed),
            "report.html": lambda: (report_page(bench.now), *page),
            "symbols.zip": lambda: (plan_archive(bench.learned.plan), *packed),
            "symbols.html": lambda: (report_of(bench.learned.plan).html.encode(), *page),
        }
        if request.path_params["name"] not in files:
            return Response(status_code=404)
        return _file(*files[request.path_params["name"]]())

    def style(_request: Request) -> Response:
        return Response(stylesheet(), media_type="text/css")

    return Starlette(
        routes=[
            Route("/api/view", everything),
            Route("/api/jobs", jobs),
            Route("/api/{wish}", wished, methods=["POST"]),
            Route("/download/{name}", download),
            Route("/report.css", style),
            Mount("/", StaticFiles(directory=_FILES, html=True)),
        ],
        exception_handlers={VeilnetError: _refused},
    )


def _refused(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, status_code=400)


def _table(body: bytes) -> dict[str, Any]:
    """The JSON object in the body of a request; none is an empty one."""
    try:
        given = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise InvalidRequest("the request is not one of the studio's")
    return given


def _file(content: bytes, kind: str, name: str) -> Response:
    plain = "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "_" for each in name)
    return Response(
        content, media_type=kind, headers={"content-disposition": f'attachment; filename="{plain}"'}
    )


def _finite(value: Any) -> Any:
    """JSON has no infinity: None takes its place."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return None
    return value
