"""Attributes of other modules, replaced and put back exactly."""

from __future__ import annotations

from dataclasses import field

from triton_linear.dialect.records import dataclass

_ABSENT = object()


@dataclass
class Patch:
    """`owner.name` set to `value`, and back.

    Ensures: after `undo`, `vars(owner)` holds the object it held before `apply`, or no entry if it had
    none. An entry that somebody else has replaced since is theirs and stays.
    """

    owner: object
    name: str
    value: object
    _before: object = field(default=_ABSENT, init=False)
    _applied: bool = field(default=False, init=False)

    def apply(self) -> None:
        """Remember what is there and set the new value; the second time, do nothing."""
        found = vars(self.owner).get(self.name, _ABSENT)
        if not self._applied and found is not self.value:
            self._before = found
            setattr(self.owner, self.name, self.value)
        self._applied = True

    def undo(self) -> None:
        """Put back what `apply` found."""
        if vars(self.owner).get(self.name) is not self.value:
            return
        if self._before is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self._before)
