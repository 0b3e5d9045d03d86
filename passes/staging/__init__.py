"""Accesses to shared memory by way of another layout of registers; see `local.py`."""
