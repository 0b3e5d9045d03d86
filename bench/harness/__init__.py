"""What every bench is made of; a bench adds its cases and says what its tables show.

A bench answers "how does the plugin compare with stock Triton on these cases?" Each one goes the same way, and
each step is a module here:

    options.py     the command line: --output, --only, --turns, --budget, --join, ...
    cases.py       the cases that are wanted, measured one after another until the time is up
    child.py       a process that measures, which a broken case costs and the next case replaces;
                   many processes that compile
    turns.py       ways of one case timed in turn, so that all see the same clocks of the GPU
    statistics.py  medians with intervals, means of ratios, ranks
    results.py     one JSON file and one page of markdown, with date and versions; several joined
    report.py      tables, cells and sentences that pages share
    plot.py        pictures of ratios
    progress.py    how far a run is
    ttgir.py       encodings and modules as text

The smallest complete example is `bench/tiles.py`: cases, what is compared, a page.
"""
