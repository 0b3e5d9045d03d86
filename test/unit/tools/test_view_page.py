"""The page of `triton-linear view` in a real browser: what is clicked is shown as the layout has it."""

from __future__ import annotations

import os
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
from triton_linear.tools.view.places import holders
from triton_linear.tools.view.subject import Subject, subjects

webdriver = pytest.importorskip("selenium.webdriver")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium with its driver")
HOPPER = target("cuda:90")
FIRST_OF_LANE_9 = {"register": 0, "lane": 9, "warp": 0, "block": 0}
WGMMA = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>"
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
    page.write_bytes(drawn(shown, "html", None, HOPPER))
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
    assert marked == held & {rect.get_attribute("data-key") for rect in find(browser, "rect.cell")}
    assert len(marked) > 4


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
    assert "conversion on cuda:90: cta-shared" in find(browser, ".sub")[0].text
    (moving,) = find(browser, 'g[data-key="9:0"]')
    start = moving.get_attribute("transform")
    find(browser, "#play")[0].click()
    deadline = time.monotonic() + 20
    while find(browser, "#play")[0].text != "Play" and time.monotonic() < deadline:
        time.sleep(0.2)
    assert find(browser, "#time")[0].get_attribute("value") == "1000"
    end = moving.get_attribute("transform")
    assert end != start
    # It was beside the name of the lane that had it, and came to its own lane.
    names = {text.text: float(text.get_attribute("y")) for text in find(browser, "svg text.head")}
    source, destination = conversion()
    (holder,) = holders(source.layout)[tuple(destination.layout.apply(FIRST_OF_LANE_9).values())]
    _, y = map(float, re.findall(r"[\d.]+", start))
    assert y == names[f"lane {holder[1]}"] - 12
    _, y = map(float, re.findall(r"[\d.]+", end))
    assert y == names["l9"] - 12


def test_the_matrix_says_what_a_bit_does(browser: Any, tmp_path: Path) -> None:
    show(browser, tmp_path, conversion()[0])
    turn_to(browser, "Matrix")
    find(browser, 'rect.cell[data-key="lane2"]')[0].click()
    assert facts(browser) == ["lane bit 2", "lane=4 -> [1, 0]"]


# What is on the screen

SIZES = [(1400, 900), (1024, 768), (390, 844)]
SWIZZLED = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"
LARGE = {
    "blocked to mma": (ROWS, MMA),
    "mma to dot operand": (WGMMA, f"#ttg.dot_op<{{opIdx = 0, parent = {WGMMA}, kWidth = 2}}>"),
    "registers to memory": (ROWS, SWIZZLED),
}
# Of each cell: whether it is inside the window, and is what a finger on its middle meets.
ARRIVE = "const s = document.getElementById('time'); s.value = 1000; s.dispatchEvent(new Event('input'));"
ON_SCREEN = """
const cells = [...document.querySelectorAll("rect.cell, rect.moves")], wrong = [];
for (const cell of cells) {
  const at = cell.getBoundingClientRect();
  if (at.left < 0 || at.right > innerWidth + .5) wrong.push(["beside the window", cell.dataset.key]);
  cell.scrollIntoView({ block: "nearest" });
  const now = cell.getBoundingClientRect();
  const met = document.elementFromPoint((now.left + now.right) / 2, (now.top + now.bottom) / 2);
  if (met !== cell) wrong.push(["hidden", cell.dataset.key, met && met.outerHTML.slice(0, 80)]);
}
scrollTo(0, 0);
return { count: cells.length, wrong: wrong.slice(0, 3), wide: document.documentElement.scrollWidth,
  high: Math.max(...cells.map(cell => cell.getBoundingClientRect().bottom)) };
"""
TEXTS = """
const texts = [...document.querySelectorAll("text")];
const boxes = texts.map(text => [text.getBoundingClientRect(), text.textContent]);
const size = document.documentElement.getBoundingClientRect(), met = [];
boxes.forEach(([a, one], i) => boxes.slice(i + 1).forEach(([b, other]) => {
  const beside = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  if (beside > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4) met.push([one, other]);
}));
return { met: met.slice(0, 5), wide: size.width, high: size.height, count: boxes.length,
  right: Math.max(...boxes.map(([a]) => a.right)) };
"""


@pytest.fixture
def sized(browser: Any) -> Iterator[Any]:
    """The browser with a window of any size; afterwards it has its own again."""

    def size(wide: int, high: int) -> None:
        metrics = {"width": wide, "height": high, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    yield size
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize(("name", "size"), list(zip(LARGE, SIZES, strict=True)))
def test_every_cell_is_to_be_seen_at_every_size(
    browser: Any, sized: Any, tmp_path: Path, name: str, size: tuple[int, int]
) -> None:
    sized(*size)
    shown = [subjects(encoding, "128x128", "f16")[0] for encoding in LARGE[name]]
    assert len(drawn(shown, "html", None, HOPPER)) < 2_000_000
    show(browser, tmp_path, *shown)
    for tab in [button.text for button in find(browser, "nav button")]:
        turn_to(browser, tab)
        seen = browser.execute_script(ON_SCREEN)
        assert seen["count"] >= 4, tab
        assert seen["wrong"] == [], tab
        assert seen["wide"] <= size[0], tab
        if tab == "Conversion":
            browser.execute_script(ARRIVE)
            assert browser.execute_script(ON_SCREEN)["wrong"] == []
        # A telephone is scrolled downwards; on a screen all cells are there at once.
        assert size[0] < 760 or seen["high"] <= size[1], tab
        if folder := os.environ.get("TRITON_LINEAR_SCREENS"):
            browser.save_screenshot(f"{folder}/{name.replace(' ', '-')}-{tab}-{size[0]}.png")
    assert browser.get_log("browser") == []


def test_a_map_leads_to_another_tile(browser: Any, sized: Any, tmp_path: Path) -> None:
    sized(1400, 900)
    (one,) = subjects(WGMMA, "128x128", "f16")
    show(browser, tmp_path, one)
    assert find(browser, "#words")[0].text.startswith("a tile of 8x8, repeats 16x16 times:")
    assert not find(browser, 'rect.cell[data-key="100,100"]')
    map_ = find(browser, "#map")[0]
    script = (
        "const at = arguments[0].getBoundingClientRect(); arguments[0].dispatchEvent(new MouseEvent('click', "
    )
    script += "{clientX: at.left + at.width * 100.5 / 128, clientY: at.top + at.height * 100.5 / 128}))"
    browser.execute_script(script, map_)
    (cell,) = find(browser, 'rect.cell[data-key="100,100"]')
    cell.click()
    (holder,) = holders(one.layout)[100, 100]
    assert facts(browser)[1] == f"warp {holder[2]} lane {holder[1]} register {holder[0]}"


@pytest.mark.parametrize("name", LARGE)
def test_a_picture_in_a_browser_hides_nothing_and_fits(
    browser: Any, sized: Any, tmp_path: Path, name: str
) -> None:
    sized(1400, 900)
    shown = [subjects(encoding, "128x128", "f16")[0] for encoding in LARGE[name]]
    file = tmp_path / "a.svg"
    file.write_bytes(drawn(shown, "svg", None, HOPPER))
    browser.get(file.as_uri())
    seen = browser.execute_script(TEXTS)
    assert seen["count"] > 50
    assert seen["met"] == []
    assert seen["right"] <= seen["wide"] <= 1400
    assert seen["high"] <= 900
