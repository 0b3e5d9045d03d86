"""What holds for all tests."""

import os

# Triton 3.9 warns in every process that does not say what it wants; tests compare what processes print.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
