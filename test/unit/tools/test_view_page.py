"""The page of `triton-linear view` in a real browser: what is clicked is shown as the layout has it."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from drawn_encodings import COLUMNS, MMA, ROWS

from triton_linear.lowering.target.targets import target
from triton_linear.tools.view.command import drawn
from triton_linear.tools.view.subject import Subject, subjects

webdriver = pytest.importorskip("selenium.webdriver")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium with its driver")
HOPPER = target("cuda:90")
OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1400,900"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium, without a network."""
    options = webdriver.ChromeOptions()
    for option in (*OPTIONS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    started.set_network_conditions(offline=True, latency=0, throughput=0)
    yield started
    started.quit()


def show(browser: Any, folder: Path, *shown: Subject) -> None:
    """Open the page of these layouts."""
    page = folder / "page.html"
    page.write_bytes(drawn(shown, "html", None, HOPPER, 64))
    browser.get(page.as_uri())
    assert browser.get_log("browser") == []


def find(browser: Any, selector: str) -> list[Any]:
    """Elements of the page."""
    found: list[Any] = browser.find_elements("css selector", selector)
    return found


def turn_to(browser: Any, tab: str) -> None:
    """Choose a tab."""
    (button,) = [button for button in find(browser, "nav button") if button.text == tab]
    button.click()
    assert button.get_attribute("aria-selected") == "true"


def facts(browser: Any) -> list[str]:
    """The panel's title and lines."""
    return [find(browser, "#what")[0].text, *find(browser, "#facts")[0].text.splitlines()]


def conversion() -> tuple[Subject, Subject]:
    """The registers of a matmul, and rows."""
    (source,), (destination,) = (subjects(encoding, "32x32", "f16") for encoding in (MMA, ROWS))
    return source, destination


def test_clicking_an_element_shows_who_holds_it_and_what_else(browser: Any, tmp_path: Path) -> None:
    source, destination = conversion()
    show(browser, tmp_path, source, destination)
    (cell,) = find(browser, 'rect.cell[data-key="9,5"]')
    cell.click()
    # Row 9 of an accumulator is held by lanes 4 to 7, columns 4 and 5 by the third of them.
    assert facts(browser) == ["element [9, 5] is held by", "warp 0 lane 6 register 3"]
    marked = {rect.get_attribute("data-key") for rect in find(browser, "rect.on")}
    held = {
        ",".join(map(str, source.layout.apply({"register": r, "lane": 6, "warp": 0, "block": 0}).values()))
        for r in range(source.layout.in_dim_size("register"))
    }
    assert marked == held


def test_clicking_a_lane_lists_its_elements(browser: Any, tmp_path: Path) -> None:
    source, destination = conversion()
    show(browser, tmp_path, source, destination)
    turn_to(browser, "Hardware")
    find(browser, 'rect.cell[data-key="13:0"]')[0].click()
    title, *lines = facts(browser)
    assert title == "warp 0, lane 13 holds"
    for register, line in enumerate(lines):
        point = source.layout.apply({"register": register, "lane": 13, "warp": 0, "block": 0})
        assert line == f"register {register}: [{', '.join(map(str, point.values()))}]"
    assert len(lines) == source.layout.in_dim_size("register")


def test_banks_show_the_conflicts_of_each_access(browser: Any, tmp_path: Path) -> None:
    (registers,) = subjects(COLUMNS, "32x32", "f16")
    (memory,) = subjects("SwizzledSharedLayout(1, 1, 1, [1, 0])", "32x32", "f16")
    show(browser, tmp_path, registers, memory)
    turn_to(browser, "Banks")
    assert facts(browser)[:3] == ["lanes 0 to 31", "16 bits a lane", "4 wavefronts: conflicts"]
    assert len(find(browser, "rect.on")) == 32
    find(browser, 'rect.cell[data-key="130"]')[0].click()
    assert facts(browser) == ["byte 130", "element [2, 1]", "offset 65", "bank 0"]


def test_a_conversion_plays(browser: Any, tmp_path: Path) -> None:
    show(browser, tmp_path, *conversion())
    turn_to(browser, "Conversion")
    assert facts(browser)[1].startswith("conversion on cuda:90: cta-shared")
    (moving,) = find(browser, 'g[data-key="9:0"]')
    start = moving.get_attribute("transform")
    find(browser, "#play")[0].click()
    deadline = time.monotonic() + 20
    while find(browser, "#play")[0].text != "Play" and time.monotonic() < deadline:
        time.sleep(0.2)
    assert find(browser, "#time")[0].get_attribute("value") == "1000"
    end = moving.get_attribute("transform")
    assert end != start
    # Lane 9's first register: the source has element [2, 8] with lane 8, in register 4.
    _, y = map(float, re.findall(r"[\d.]+", start))
    assert y == 20 + 8 * 22
    _, y = map(float, re.findall(r"[\d.]+", end))
    assert y == 20 + 9 * 22


def test_the_matrix_says_what_a_bit_does(browser: Any, tmp_path: Path) -> None:
    show(browser, tmp_path, conversion()[0])
    turn_to(browser, "Matrix")
    find(browser, 'rect.cell[data-key="lane2"]')[0].click()
    assert facts(browser) == ["lane bit 2", "lane=4 -> [1, 0]"]
