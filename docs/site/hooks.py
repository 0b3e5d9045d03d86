"""Brings into the site what documents link to outside `docs/`, and turns the links so that they lead there.

The documents link to files of the repository, as they are read there. Some files of it are pages of the site
too (`PAGES`, the measured tables); any other that a document links to is put under `files/` as it is.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
MEASURED = "bench/results/"
_CODE = re.compile(r"(```.*?^ *```|`[^`\n]*`)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")


def uri_of(path: str) -> str:
    """Where a file of the repository is in the site."""
    if path in PAGES:
        return PAGES[path]
    for folder, place in (("docs/", ""), (MEASURED, "measured/")):
        if path.startswith(folder):
            return place + path.removeprefix(folder)
    return f"files/{path}"


def links(markdown: str) -> Iterator[str]:
    """The files that a document links to, as it writes them."""
    for part in _CODE.split(markdown)[::2]:
        for found in _LINK.finditer(part):
            yield found["path"]


def files_outside() -> list[str]:
    """The files outside `docs/` that belong to the site."""
    found = {*PAGES, *(path.relative_to(ROOT).as_posix() for path in (ROOT / MEASURED).glob("*.md"))}
    documents = [*(ROOT / "docs").rglob("*.md"), *(ROOT / page for page in sorted(found))]
    for document in documents:
        for link in links(document.read_text(encoding="utf-8")):
            target = (document.parent / link).resolve()
            if target.is_file() and not target.is_relative_to(ROOT / "docs"):
                found.add(target.relative_to(ROOT).as_posix())
    return sorted(found)


def on_files(files: Files, config: Any) -> Files:
    """Add what lies outside `docs/`."""
    for path in files_outside():
        files.append(File.generated(config, uri_of(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn the links of a page; one that leads nowhere stays, and the build says so."""
    here = Path(page.file.abs_src_path).parent
    at = posixpath.dirname(page.file.src_uri)

    def turned(found: re.Match[str]) -> str:
        target = (here / found["path"]).resolve()
        if not target.is_file() or not target.is_relative_to(ROOT):
            return found[0]
        uri = uri_of(target.relative_to(ROOT).as_posix())
        return f"]({posixpath.relpath(uri, at)}{found['anchor'] or ''})"

    parts = _CODE.split(markdown)
    parts[::2] = [_LINK.sub(turned, part) for part in parts[::2]]
    return "".join(parts)
