"""Random conversions and random programs, through Triton's backend and the interpreter: `python -m bench.fuzz`.

random_layouts  random pairs of encodings
encodings       the layouts of encodings, and operations on their texts
program         the data structure for a program
write           the TTGIR of a program
evaluate        the expected result of a program
draw            random programs
pairs           modules of independent conversions, each checked separately
partitions      modules with conversions in warp-specialised regions
regions         modules with a program in each warp-specialised region
warps           the interpreter for warps with programs of their own
examine         compile and run a program, and check its result
shrink          reduce a failing program to a smaller one with the same failure
run             the units of a seed, each in its own process, and their totals
totals          counts of results and failures
results         totals of many runs, added up in files
command         the command
"""
