"""Accesses as wide as layouts and addresses admit."""
