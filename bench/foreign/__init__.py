"""Kernels that others wrote, from packages of theirs, with the plugin and without."""
