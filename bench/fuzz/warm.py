"""Imports that every unit's process needs, done once in the process from which the others are forked."""

from triton.backends import backends

assert backends
