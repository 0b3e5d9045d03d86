"""Downloads the servers' wheels, pinned by hash, and packs the files that are needed into one archive.

    python -m bench.serving.fetch [--output FILE]

See `bench/foreign/fetch.py`.
"""

import sys

from ..foreign.fetch import main
from .suite import SERVING

if __name__ == "__main__":
    sys.exit(main(SERVING))
