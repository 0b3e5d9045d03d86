"""Triton operators of inference servers, with the plugin and without: one by one, and whole steps of models.

suite.py       the bench: these packages and cases, run as `bench/foreign` runs others
packages.py    what is fetched of the servers' wheels
standins.py    imports that without the rest of a server
answers.py     what modules that are not there have to know
cases*.py      operators at sizes that servers have
"""
