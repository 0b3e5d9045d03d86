"""The order of what dots contract: which axes of a module are one, and putting them in another order."""
