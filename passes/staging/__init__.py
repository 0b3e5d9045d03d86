"""Accesses to shared memory by way of another layout of registers; `passes/local.py` has what they are for."""
