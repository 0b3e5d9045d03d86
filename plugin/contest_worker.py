"""A process that compiles kernels of ours for contests (`contests.workers`).

It reads pickled jobs from one pipe and writes a pickled answer for each to another. When the process that
started it ends, it finishes the job at hand and ends as well.
"""

from __future__ import annotations

import os
import pickle
import signal
from typing import Final

_NICE: Final = 10
"""Steps of priority below the program's, which the compiles must not hold up."""


def main(jobs: int, answers: int, patience: float) -> None:
    """Answer jobs until their pipe ends. jobs, answers: the ends of the pipes. patience: seconds for a job,
    after which this process ends."""
    os.nice(_NICE)
    from triton_linear.contest_job import answer_to

    with os.fdopen(jobs, "rb") as given, os.fdopen(answers, "wb") as told:
        while True:
            try:
                job = pickle.load(given)
            except EOFError:
                return
            signal.alarm(int(patience) + 1)
            answer = answer_to(job)
            signal.alarm(0)
            try:
                pickle.dump(answer, told)
                told.flush()
            except BrokenPipeError:
                return
