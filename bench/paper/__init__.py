"""The paper's tables and figures, measured: ours beside stock Triton, Triton before linear layouts, and the paper."""
