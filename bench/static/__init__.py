"""The suite of conversions for AMD GPUs, without one: compiled, interpreted and counted, not timed."""
