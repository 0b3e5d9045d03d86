"""A program that launches every kernel of the servers once, for `triton-linear tune`.

    triton-linear tune -m bench.serving.program [--archive FILE] [--only REGEX] [--config middle]

See `bench/foreign/program.py`.
"""

import sys

from ..foreign.program import main
from .suite import SERVING

if __name__ == "__main__":
    sys.exit(main(SERVING))
