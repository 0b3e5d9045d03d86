"""The page of `triton-linear diff`, as text and in a real browser."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from diff_kernels import copy

from triton_linear.tools import cli

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a copy that is wide and one that is not."""
    folder = tmp_path_factory.mktemp("page")
    for name, wide in (("a", True), ("b", False)):
        (folder / f"{name}.ttgir").write_text(copy("cuda:90", wide))
    made = folder / "page.html"
    assert cli.main(["diff", str(folder / "a.ttgir"), str(folder / "b.ttgir"), "--page", str(made)]) == 0
    return made


def content(page: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    (kernel,) = json.loads(found[1])["kernels"]
    return dict(kernel)


def test_the_page_has_the_stages_of_both_sides_and_loads_nothing(page: Path) -> None:
    assert "http" not in page.read_text()
    kernel = content(page)
    assert [[stage["name"] for stage in side] for side in kernel["sides"]] == [["TTGIR", "PTX"]] * 2
    for side in kernel["sides"]:
        assert "loc(" not in "".join(text for text, _ in side[0]["lines"])


def test_lines_of_all_stages_lead_to_the_same_source(page: Path) -> None:
    kernel = content(page)
    (load,) = [number for number, source in enumerate(kernel["sources"]) if "tt.load" in source[2]]
    for side in kernel["sides"]:
        ttgir, ptx = ([text for text, source in stage["lines"] if source == load] for stage in side)
        assert [text.split("=")[1].split()[0] for text in ttgir] == ["tt.load"]
        assert sum("ld.global" in text for text in ptx) > 1


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium with its driver")
def test_a_line_that_is_clicked_is_marked_in_every_pane(page: Path, tmp_path: Path) -> None:
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(option)
    options.add_argument(f"--user-data-dir={tmp_path / 'profile'}")
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        browser.set_network_conditions(offline=True, latency=0, throughput=0)
        browser.get(page.as_uri())
        panes = browser.find_elements("css selector", ".text")
        assert len(panes) == 4
        (line,) = [
            one for one in browser.find_elements("css selector", "#sources div") if "tt.load" in one.text
        ]
        line.click()
        assert all(pane.find_elements("css selector", ".on") for pane in panes)
        assert browser.get_log("browser") == []
    finally:
        browser.quit()
