"""The driver's events: what is called, in which mode, and what becomes of its errors."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from triton_linear.contests.events import NANOSECONDS, Clock, clock_of

DRIVER = """
static int mode = 0, made = 0, gone = 0, asked_strictly = 0, now = 0, ready = 1, fails = 0, capturing = 0;
struct event { int time; };
static struct event events[256];
int FN(EventCreate)(void **event, unsigned flags) {
    asked_strictly += mode != 2;
    if (fails) return 2;
    *event = &events[made++];
    return 0;
}
int FN(EventRecord)(struct event *event, void *stream) { event->time = now += 3; return fails; }
int FN(EventElapsedTime)(float *ms, struct event *begin, struct event *end) {
    asked_strictly += mode != 2;
    if (!ready) return 600;
    *ms = end->time - begin->time;
    return 0;
}
int FN(EventDestroy)(void *event) { gone++; return 0; }
int FN(CtxGetCurrent)(int *context) { *context = 1; return 0; }
int FN(StreamIsCapturing)(void *stream, int *found) { *found = capturing; return 0; }
int FN(ThreadExchangeStreamCaptureMode)(int *other) {
    int before = mode; mode = *other; *other = before; return 0;
}
PAUSES
void set(int ready_, int fails_, int capturing_) { ready = ready_; fails = fails_; capturing = capturing_; }
int figure(int which) { return which == 0 ? made : which == 1 ? gone : which == 2 ? asked_strictly : mode; }
"""
PAUSES = """
static int idle = 1, pauses = 0, clocks = 0, loads = 0;
int FN(ModuleLoadData)(void **module, const void *image) {
    asked_strictly += mode != 2; loads++; *module = (void *)2; return UNKNOWN;
}
int FN(ModuleGetFunction)(void **function, void *module, const char *name) { *function = (void *)3; return 0; }
int FN(StreamQuery)(void *stream) { asked_strictly += mode != 2; return idle ? 0 : 600; }
int FN(LaunchKernel)(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                     unsigned shared, void *stream, void **parameters, void **extra) {
    pauses++; now += 100; clocks = *(int *)parameters[0];
    return f != (void *)3 || gx * gy * gz * bx * by * bz != 1;
}
void set_idle(int idle_) { idle = idle_; }
int paused(int which) { return which == 0 ? pauses : which == 1 ? clocks : loads; }
"""
NAMES = {
    "cuda": {"EventDestroy": "cuEventDestroy_v2"},
    "hip": {"EventCreate": "hipEventCreateWithFlags", "CtxGetCurrent": "hipGetDevice"},
}


@pytest.fixture(params=["cuda", "hip"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Clock, ctypes.CDLL]:
    return made(request.param, tmp_path, "")


def made(backend: str, folder: Path, pauses: str) -> tuple[Clock, ctypes.CDLL]:
    """The clock of a driver. pauses: the functions that pauses need; "" for none."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    prefix, names = {"cuda": "cu", "hip": "hip"}[backend], NAMES[backend]
    text = re.sub(
        r"FN\((\w+)\)",
        lambda found: names.get(found[1], f"{prefix}{found[1]}"),
        DRIVER.replace("PAUSES", pauses),
    )
    source, library = folder / "driver.c", folder / "driver.so"
    source.write_text(text)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    clock = clock_of(backend, lambda: str(library))
    assert clock is not None
    return clock, ctypes.CDLL(str(library))


def test_an_idle_gpu_waits_for_what_is_launched(tmp_path: Path) -> None:
    clock, library = made("cuda", tmp_path, PAUSES.replace("UNKNOWN", "0"))
    intervals = [clock.interval() for _ in range(2)]
    for interval in intervals:
        interval.begin(0)
        interval.end(0)
        with clock.relaxed():
            assert interval.milliseconds() == 3.0, "the pause is not in it"
    assert [library.paused(which) for which in range(3)] == [2, NANOSECONDS, 1]
    library.set_idle(0)
    intervals[0].begin(0)
    assert library.paused(0) == 2, "a stream that has work is left alone"
    assert library.figure(2) == 0 and library.figure(3) == 0, "asked in the relaxed mode, which is left again"


def test_where_a_driver_takes_no_pause_there_is_none(tmp_path: Path) -> None:
    clock, library = made("cuda", tmp_path, PAUSES.replace("UNKNOWN", "222"))
    for _ in range(2):
        interval = clock.interval()
        interval.begin(0)
        interval.end(0)
    assert (library.paused(0), library.paused(2)) == (0, 1)


def test_an_interval_is_the_time_between_its_events(driver: tuple[Clock, ctypes.CDLL]) -> None:
    clock, library = driver
    interval = clock.interval()
    interval.begin(0)
    library.set(0, 0, 0)
    interval.end(0)
    with clock.relaxed():
        assert interval.milliseconds() is None, "the GPU is not done"
    library.set(1, 0, 0)
    with clock.relaxed():
        assert interval.milliseconds() == 3.0
    assert library.figure(2) == 0, "asked in the relaxed mode"
    assert library.figure(3) == 0, "and the thread's own mode is back"


def test_intervals_are_made_before_launches_need_them(driver: tuple[Clock, ctypes.CDLL]) -> None:
    clock, library = driver
    made = len(clock.free())
    assert library.figure(0) == 2 * made > 0
    interval = clock.free().pop()
    interval.begin(0)
    interval.end(0)
    clock.free().append(interval)
    assert (len(clock.free()), library.figure(0)) == (made, 2 * made), "one list for all contests"
    clock.interval()
    assert (library.figure(0), library.figure(1)) == (2 * made + 2, 0)


def test_errors_are_raised(driver: tuple[Clock, ctypes.CDLL]) -> None:
    clock, library = driver
    interval = clock.interval()
    library.set(1, 2, 0)
    with pytest.raises(OSError, match="answers 2"):
        interval.begin(0)
    with pytest.raises(OSError, match="answers 2"):
        clock.interval()


def test_a_capture_is_seen(driver: tuple[Clock, ctypes.CDLL]) -> None:
    clock, library = driver
    interval = clock.interval()
    library.set(1, 2, 1)
    assert not interval.begin(0), "and nothing is recorded, which fails here"
    library.set(1, 0, 0)
    assert interval.begin(0)


def test_without_a_driver_there_is_no_clock(tmp_path: Path) -> None:
    assert clock_of("cuda", lambda: str(tmp_path / "none.so")) is None
    assert clock_of("cpu", lambda: "libc.so.6") is None
    assert clock_of("cuda", lambda: "libc.so.6") is None, "it lacks the functions"
