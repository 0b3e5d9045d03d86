"""The paper's tables and figures, measured: ours, stock Triton, Triton before linear layouts, and the paper."""
