"""Imports modules of the servers that were fetched, without the rest of the servers.

A server's kernels are called by functions that import much of it: its configuration, its platforms, operators
of CUDA. Of that nothing is there. A module of a server whose file was fetched is that file; every other one is
a stand-in that has whatever is asked of it, and what it must know beyond that (`answers`).
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .answers import answers
from .packages import SERVERS


class Anything:
    """Stands for a function, a class, a decorator or a value: a false one, and neither more nor less than any
    other. Called as a decorator it changes nothing."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        decorates = len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], Anything)
        return args[0] if decorates else self

    def __getattr__(self, name: str) -> Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __mro_entries__(self, bases: tuple[type, ...]) -> tuple[type, ...]:
        return ()

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __or__(self, other: object) -> Anything:
        return self

    __ror__ = __getitem__ = __or__

    def __bool__(self) -> bool:
        return False

    def __lt__(self, other: object) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __contains__ = __lt__

    def __enter__(self) -> Anything:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class StandIn(types.ModuleType):
    """A module that has whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        for folder in self.__path__:
            # What was fetched of a package is there, though nobody has imported it.
            if Path(folder, f"{name}.py").exists() or Path(folder, name).is_dir():
                return importlib.import_module(full)
        made = Anything(full)
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module of the servers: in the folder, or as a stand-in that gets its answers."""

    def __init__(self, folder: Path, known: Mapping[str, Mapping[str, Any]]) -> None:
        self._folder, self._known = folder, known

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        server, *rest = fullname.split(".")
        if server not in SERVERS:
            return None
        where = self._folder.joinpath(server, *rest)
        own = where / "__init__.py"
        if own.exists():
            return importlib.util.spec_from_file_location(
                fullname, own, submodule_search_locations=[str(where)]
            )
        if (file := where.with_suffix(".py")).exists():
            return importlib.util.spec_from_file_location(fullname, file)
        spec = importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        spec.submodule_search_locations = [str(where)]
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module).update(self._known.get(module.__name__, {}))


def enter(folder: Path) -> None:
    """Make what is in the folder importable in this process, and packages that a server brings."""
    sys.meta_path.insert(0, Finder(folder, answers()))
    sys.path[:0] = [str(folder), str(folder / "vllm" / "third_party")]
