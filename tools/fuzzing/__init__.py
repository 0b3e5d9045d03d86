"""`triton-linear fuzz`: random conversions and random programs, through Triton's backend and the interpreter.

encodings   random encodings, and layouts as they were drawn
program     a program as data, the TTGIR it stands for and what it must give
draw        random programs
pairs       modules of single conversions, judged one by one
examine     a program's run, judged as a whole
shrink      the smallest program that still fails the same way
run         the units of a seed in processes of their own, and the totals
report      the totals as files
"""
