"""Who may come in: one page of a browser on this machine, which was opened by the one-time address.

The server listens on the loopback only. Still any page the browser shows could send requests there, and a name that
someone else controls can be made to point at it; so the Host must be ours, and a request from another origin is
refused. The page itself holds nothing and is answered to anybody. All else needs a word in a header that the page has
for the one-time address (``page/door.js``): a cookie would go to every server on this machine, since cookies know no
ports. Answers forbid the page to load anything from elsewhere.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADER = "veilnet-page"
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """Wraps an application; ``port`` is where it will listen.

    page:       addresses of files that hold nothing but the page, and need no word.
    most_bytes: of the body of a request.
    """

    def __init__(self, app: ASGIApp, *, page: Collection[str], port: int, most_bytes: int) -> None:
        self._app = app
        self._page = frozenset(page)
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._origins = {f"http://{host}" for host in self._hosts}
        self._most_bytes = most_bytes
        self._token: str | None = secrets.token_urlsafe(32)
        self._secret = secrets.token_urlsafe(32)
        self.address = f"http://127.0.0.1:{port}/#start={self._token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refused(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, _with_headers(send))
            return
        word = headers.get(_HEADER, "")
        if scope["path"] == "/start":
            await self._welcome(word)(scope, receive, _with_headers(send))
            return
        if scope["path"] not in self._page and not _same(word, self._secret):
            answer = _refuse(403, "Open the address that veilnet printed; it works once, in one page.")
            await answer(scope, receive, _with_headers(send))
            return
        body = await _whole(receive, self._most_bytes)
        if body is None:
            await self._too_large()(scope, receive, _with_headers(send))
            return
        await self._app(scope, _again(body, receive), _with_headers(send))

    def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        if headers.get("host") not in self._hosts:
            return _refuse(421, "This server answers to its own address only.")
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins:
            return _refuse(403, "Requests from other pages are refused.")
        if scope["method"] not in ("GET", "HEAD") and origin is None:
            return _refuse(403, "Changes are accepted only from the studio's own page.")
        size = headers.get("content-length", "0")
        if not size.isdigit() or int(size) > self._most_bytes:
            return self._too_large()
        return None

    def _too_large(self) -> Response:
        return _refuse(413, f"A file may have at most {self._most_bytes / 1e6:g} MB here.")

    def _welcome(self, token: str) -> Response:
        if self._token is None or not _same(token, self._token):
            return _refuse(403, "This address was already used, or is incomplete. Restart veilnet.")
        self._token = None
        return PlainTextResponse(self._secret)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


async def _whole(receive: Receive, most: int) -> bytes | None:
    """The body of a request; None where it grows beyond what is accepted, whatever its length claimed."""
    taken = bytearray()
    while True:
        message = await receive()
        taken += message.get("body", b"")
        if len(taken) > most:
            return None
        if not message.get("more_body", False):
            return bytes(taken)


def _again(body: bytes, receive: Receive) -> Receive:
    """Hands out a body that was read already, then whatever comes."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _with_headers(send: Send) -> Send:
    async def headed(message: Message) -> None:
        if message["type"] == "http.response.start":
            ours = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            message = {**message, "headers": [*message["headers"], *ours]}
        await send(message)

    return headed


def _refuse(status: int, words: str) -> Response:
    return PlainTextResponse(words, status_code=status)
