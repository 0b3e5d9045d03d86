"""What users of Triton complained about in public, each as a small kernel, against stock Triton."""
