"""What mkdocs is told about this repository: the README is the home page, pages at the root are pages too.

Pages are written to be read in the repository: their links are paths of it. Here they become links of the site, and
links to source files plain words. A line ``::: veilnet.design`` stands for the reference of that name, ``::: command
line`` for that of all verbs; nothing generated is kept in the repository.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).resolve().parent))

from reference import command_line, reference

ROOT = Path(__file__).resolve().parents[1]
# page of the repository -> page of the site
AT_ROOT = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCED = re.compile(r"(^```.*?^```[ \t]*$)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that stand at the root of the repository."""
    for source, page in AT_ROOT.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links of the repository become links of the site; references are filled in."""
    target = page.file.src_uri
    source = next((name for name, made in AT_ROOT.items() if made == target), f"docs/{target}")
    pieces = _FENCED.split(markdown)
    pieces[::2] = [_LINK.sub(lambda found: _link(found, source, target), piece) for piece in pieces[::2]]
    text = "".join(pieces)
    text = re.sub(r"^::: (veilnet[\w.]*)$", lambda found: reference(found.group(1)), text, flags=re.MULTILINE)
    return re.sub(r"^::: command line$", lambda _: command_line(), text, flags=re.MULTILINE)


def _link(found: re.Match[str], source: str, target: str) -> str:
    """One link of the page ``source`` of the repository, on the page ``target`` of the site."""
    picture, words, address = found.groups()
    path, mark, anchor = address.partition("#")
    if not path or "://" in path or path.startswith("mailto:"):
        return found.group(0)
    in_repository = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if in_repository in AT_ROOT:
        in_site = AT_ROOT[in_repository]
    elif in_repository.startswith("docs/") and (ROOT / in_repository).is_file():
        in_site = in_repository.removeprefix("docs/")
    elif (ROOT / in_repository).exists():
        return words
    else:
        return found.group(0)  # a dead link: mkdocs says so
    relative = os.path.relpath(in_site, posixpath.dirname(target) or ".")
    return f"{picture}[{words}]({relative}{mark}{anchor})"
