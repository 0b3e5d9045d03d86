import sys

from ..foreign.run import main
from .suite import SERVING

if __name__ == "__main__":
    sys.exit(main(SERVING))
