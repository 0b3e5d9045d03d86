"""Linear layouts for Triton."""
