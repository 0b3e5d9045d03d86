"""Epilogues of dots in tensor memory, done in parts."""
