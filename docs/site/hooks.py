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
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "bench/README.md": "benches.md",
}
MEASURED = "bench/results/"
TITLES = {
    "paper": "The paper's tables",
    "releases": "Whole kernels by release",
    "reported": "Complaints",
    "kernels": "Whole kernels",
    "foreign": "Kernels of other packages",
    "foreign-control": "The same, stock Triton twice",
    "foreign-compile": "The same, compiled only",
    "registers": "Registers, estimated",
    "tiles": "Tile sizes",
    "configurations": "Configurations",
    "operands": "Operands",
    "conversions": "Single conversions",
    "static": "Conversions for AMD GPUs, counted",
    "gpu_random": "Random conversions",
    "gpu_check": "Checks on a GPU",
    "compile_time": "Compile time",
    "pass_time": "Milliseconds of the plugin itself",
    "contest_launch": "A launch of a contest on the host",
    "proof_time": "Time to prove plans",
    "passes": "What each pass gains",
    "ablation": "Thresholds, one at a time",
    "gluon_example": "A Gluon kernel",
    "stock_gpu": "Stock Triton's faults on a GPU",
    "fuzz": "Fuzzing",
    "legacy": "The legacy lowering, compared",
}
"""What the measured pages are called, in the order in which they are listed; others follow by headings."""
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
    found = {*PAGES, *(path.relative_to(ROOT).as_posix() for path in (ROOT / MEASURED).rglob("*.md"))}
    documents = [*(ROOT / "docs").rglob("*.md"), *(ROOT / page for page in sorted(found))]
    for document in documents:
        for link in links(document.read_text(encoding="utf-8")):
            target = (document.parent / link).resolve()
            if target.is_file() and not target.is_relative_to(ROOT / "docs"):
                found.add(target.relative_to(ROOT).as_posix())
    return sorted(found)


def title_of(page: Path) -> str:
    """What a measured page is called: as `TITLES` says, or as its first line says."""
    return TITLES.get(page.stem) or page.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


def measured() -> list[Any]:
    """The measured pages: what belongs to no release of Triton, then by release, the newest first."""
    folders: dict[Path, list[Any]] = {}
    pages = (ROOT / MEASURED).rglob("*.md")
    order = {name: place for place, name in enumerate(TITLES)}
    for path in sorted(pages, key=lambda page: (order.get(page.stem, len(order)), page.stem)):
        uri = uri_of(path.relative_to(ROOT).as_posix())
        folders.setdefault(path.parent, []).append({title_of(path): uri})
    loose = folders.pop(ROOT / MEASURED, [])
    named = {folder.relative_to(ROOT / MEASURED).parts: pages for folder, pages in folders.items()}
    newest = sorted(named, key=lambda parts: ([-int(n) for n in parts[0].split(".")], parts[1:]))
    titles = {parts: ", ".join((f"Triton {parts[0]}", *map(str.upper, parts[1:]))) for parts in newest}
    return [*({titles[parts]: named[parts]} for parts in newest), *loose]


def on_config(config: Any) -> Any:
    """Add the pages of results to the part of the navigation that says what was measured."""
    for part in config["nav"]:
        if "Measured" in part:
            part["Measured"] = [*part["Measured"], *measured()]
    return config


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
