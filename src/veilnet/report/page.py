"""The page around the sections: one file that needs nothing else, and a fragment for notebooks."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path

from veilnet.report.html import Html, element, join


@dataclass(frozen=True)
class Report:
    """A report as a page of its own, and as a fragment for notebooks.

    title: what the plan does, in a sentence.
    body:  its sections.
    """

    title: str
    body: Html

    @property
    def html(self) -> str:
        """The whole page: no other file, no outside address, and a policy that would not let one be asked."""
        script = _resource("page.js")
        head = element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
            element("meta", name="referrer", content="no-referrer"),
            element("title", self.title),
            element("style", Html(_resource("page.css"))),
        )
        skip = element("a", "To the report", href="#report", class_="skip")
        main = element("main", self.body, id="report", tabindex="-1")
        body = element("body", skip, main, element("script", Html(script)), class_="vn")
        return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page to a file, whole or not at all.

        path: usually a name that ends in .html.
        """
        from veilnet.io._atomic import write_bytes

        write_bytes(Path(path), self.html.encode())

    def _repr_html_(self) -> str:
        return fragment(self.body)


def fragment(body: Html) -> Html:
    """The body with its style, for a cell of a notebook."""
    return join(
        [element("style", Html(_resource("page.css"))), element("div", element("article", body), class_="vn")]
    )


def stylesheet() -> str:
    """The style of the report, for pages made of its pieces."""
    return _resource("page.css")


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    nothing_else = "default-src 'none'; base-uri 'none'; form-action 'none'"
    return f"{nothing_else}; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


@cache
def _resource(name: str) -> str:
    return files("veilnet.report").joinpath(name).read_text(encoding="utf-8")
