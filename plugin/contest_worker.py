"""A process that compiles kernels of ours for contests: `python -m triton_linear.contest_worker`.

It reads pickled jobs from standard input and writes a pickled answer for each to standard output; what a
compiler prints goes to standard error. When the process that started it ends, it finishes the job at hand and
ends as well."""

from __future__ import annotations

import os
import pickle
from typing import Final

_NICE: Final = 10
"""Steps of priority below the program's, which the compiles must not hold up."""


def main() -> None:
    """Answer jobs until standard input ends."""
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.nice(_NICE)
    from triton_linear.contest_job import answer_to

    while True:
        try:
            job = pickle.load(jobs)
        except EOFError:
            return
        try:
            pickle.dump(answer_to(job), answers)
            answers.flush()
        except BrokenPipeError:
            return


if __name__ == "__main__":
    main()
