"""Passes that change when operations come, and nothing else."""
