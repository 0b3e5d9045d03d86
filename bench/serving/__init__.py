"""Triton operators of inference servers, with the plugin and without: one by one, and whole steps of models.

suite.py       the bench: these packages and cases, run as `bench/foreign` runs others
packages.py    what is fetched of the servers' wheels
standins.py    imports that without the rest of a server
answers.py     what modules that are not there have to know
inputs.py      what cases are given; experts.py and mxfp4.py what layers of experts are, alike.py what both
               servers' operators are
cases*.py      operators at sizes that servers have
steps*.py      layers of models as servers run them, timed as one; step.py has what they are made of
"""
