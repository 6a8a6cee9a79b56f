"""The studio's addresses: each hands one wish to the workbench and answers with what there is to see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import Body, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles

from veilnet._core.errors import InvalidRequest, VeilnetError
from veilnet.report.page import stylesheet
from veilnet.studio.downloads import network_text, plan_archive, report_page
from veilnet.studio.views import job_states, view
from veilnet.studio.workbench import Workbench

__all__ = ["PAGE", "application"]

_FILES = Path(__file__).with_name("page")
PAGE = frozenset({"/", "/index.html", "/door.js", "/studio.js", "/studio.css", "/report.css"})
"""The addresses of the page itself, which holds nothing."""


def application(bench: Workbench) -> FastAPI:
    """The addresses of one workbench."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.exception_handler(VeilnetError)
    def refused(_request: Request, error: VeilnetError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, status_code=400)

    @app.exception_handler(RequestValidationError)
    def unreadable(_request: Request, _error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": "the request is not one of the studio's"}, status_code=400)

    async def answer(wish: Callable[[], None]) -> JSONResponse:
        await run_in_threadpool(wish)
        return JSONResponse(_finite(await run_in_threadpool(view, bench)))

    @app.get("/api/view")
    async def everything() -> JSONResponse:
        return await answer(lambda: None)

    @app.get("/api/jobs")
    def jobs() -> JSONResponse:
        return JSONResponse({"version": bench.version, "jobs": job_states(bench)})

    @app.post("/api/example")
    async def example(stream: bool = False) -> JSONResponse:
        return await answer(lambda: bench.open_example(stream=stream))

    @app.post("/api/network")
    async def network(request: Request, name: str = "pasted") -> JSONResponse:
        content = await request.body()
        return await answer(lambda: bench.open_network(name, content))

    @app.post("/api/table")
    async def table(request: Request, name: str) -> JSONResponse:
        content = await request.body()
        return await answer(lambda: bench.open_table(name, content))

    @app.post("/api/held-out")
    async def held_out(request: Request, name: str) -> JSONResponse:
        content = await request.body()
        return await answer(lambda: bench.hold_out(name, content))

    @app.post("/api/{wish}")
    async def other(wish: str, given: dict[str, Any] = Body(default={})) -> JSONResponse:  # noqa: B008
        wishes: dict[str, Callable[[], None]] = {
            "fit": lambda: bench.fit(given),
            "ask": lambda: bench.ask(given),
            "refine": bench.refine,
            "what-if": lambda: bench.what_if(given),
            "audit": lambda: bench.audit(given),
            "model": lambda: bench.doubt_model(given),
            "cancel": lambda: bench.cancel(str(given.get("job"))),
        }
        if wish not in wishes:
            raise InvalidRequest(f"{wish[:40]!r}: the studio has no such address")
        return await answer(wishes[wish])

    @app.get("/download/network.toml")
    def download_network() -> Response:
        return _file(network_text(bench.now), "application/toml", bench.now.name)

    @app.get("/download/plan.zip")
    def download_plan() -> Response:
        return _file(plan_archive(bench.now), "application/zip", "plan.zip")

    @app.get("/download/report.html")
    def download_report() -> Response:
        return _file(report_page(bench.now), "text/html; charset=utf-8", "report.html")

    @app.get("/report.css")
    def style() -> Response:
        return Response(stylesheet(), media_type="text/css")

    app.mount("/", StaticFiles(directory=_FILES, html=True))
    return app


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
