"""Deciding all layouts of a module together: the problem, its costs, its solution, and the rewriting."""
