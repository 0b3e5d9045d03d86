"""Replace attributes of other modules, and restore them exactly."""

from __future__ import annotations

from dataclasses import field

from triton_linear.dialect.records import dataclass

_ABSENT = object()


@dataclass
class Patch:
    """Sets `owner.name` to `value`, and restores it.

    Ensures: after `undo`, `vars(owner)` holds the object it held before `apply`, or no entry if it had none. If
    other code has replaced the entry since `apply`, `undo` leaves it.
    """

    owner: object
    name: str
    value: object
    _before: object = field(default=_ABSENT, init=False)
    _applied: bool = field(default=False, init=False)

    def apply(self) -> None:
        """Remember the old value and set the new one; if already applied, do nothing."""
        found = vars(self.owner).get(self.name, _ABSENT)
        if not self._applied and found is not self.value:
            self._before = found
            setattr(self.owner, self.name, self.value)
        self._applied = True

    def undo(self) -> None:
        """Restore the old value."""
        if vars(self.owner).get(self.name) is not self.value:
            return
        if self._before is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self._before)
