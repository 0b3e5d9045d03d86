"""What a bench of other packages' kernels runs: the packages, how they are imported, the cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..harness.cases import called
from . import packages
from .case import Case, Inputs
from .cases import cases


@dataclass(frozen=True)
class Suite:
    """Goes to processes pickled: its functions are those of modules.

    `name`: of the bench's module in `bench`. `enter` makes what is in a folder importable, and `inputs` are
    what cases get.
    """

    name: str
    title: str
    packages: Sequence[packages.Package]
    enter: Callable[[Path], None]
    cases: Callable[[], list[Case]]
    inputs: type[Inputs] = Inputs

    @property
    def room(self) -> str:
        """The folder of the bench."""
        return self.name.partition(".")[0]

    @property
    def stem(self) -> str:
        """How names of its results begin."""
        return self.name.replace(".", "-")

    @property
    def archive(self) -> Path:
        """What `fetch` writes, and a GPU machine gets."""
        return packages.ROOT / ".gpu" / f"{self.room}.tar.xz"

    def case(self, name: str) -> Case:
        """The case of that name. Raises StopIteration where there is none."""
        return called(name, self.cases())

    def unpack(self, archive: Path, folder: Path) -> None:
        """The archive's files in a folder. Raises SystemExit where there is none."""
        if not archive.exists():
            raise SystemExit(
                f"{self.name}: there is no {archive}; make it with: python -m bench.{self.room}.fetch"
            )
        packages.unpack(archive, folder)


FOREIGN = Suite("foreign", "Kernels of other packages", packages.PACKAGES, packages.enter, cases)
