"""Named layout conversions, timed on a GPU with and without the plugin.

`python -m bench.conversions` runs the suite; `python -m bench.conversions --help` lists its options.
"""
