"""Stands in for `triton_linear.pth` where the package is not installed: put this folder on PYTHONPATH.

Python imports the first `sitecustomize` on its path when it starts. This one runs the next as well.
"""

import importlib.machinery
import importlib.util
import os
import sys


def _run_the_next() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    path = [folder for folder in sys.path if os.path.abspath(folder) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("TRITON_LINEAR", "0") not in ("", "0"):
    try:
        from triton_linear import environment
    except ImportError:
        pass  # a Python that does not have the package
    else:
        environment.arm()
_run_the_next()
