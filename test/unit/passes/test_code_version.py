"""`CODE_VERSION` is raised when emitted code changes, and only then.

`test/data/code.json` has the version, and the digest of what each module of `test/data` becomes:

    CODE_VERSION=write pytest test/unit/passes/test_code_version.py      # after the version was raised
"""

from __future__ import annotations

import hashlib
import json
import os
import re

import pytest
from assign_support import DATA, MODULES, upstream
from exact_support import target_of

from triton_linear.dialect import triton_versions
from triton_linear.dialect.sources import CODE_VERSION
from triton_linear.lowering.target.targets import target
from triton_linear.passes import attempts
from triton_linear.passes.options import PipelineOptions

RECORD = DATA.parent / "code.json"
RELEASE = "3.9.0"
"""Code differs between releases of Triton; the record is of this one."""
pytestmark = pytest.mark.skipif(triton_versions.found() != RELEASE, reason="the record is of another Triton")


def emitted() -> dict[str, str]:
    """The digest of what each module becomes, without source locations."""
    found = {}
    for path in MODULES:
        for exact in (False, True):
            root = upstream(path)
            made = attempts.prepare(root, PipelineOptions(exact=exact), target(target_of(root)))
            text = next(made.attempts()).text if made.differs else ""
            bare = re.sub(r"loc\([^\n]*\)$|^#loc.*$", "", text, flags=re.M)
            name = f"{path.relative_to(DATA).with_suffix('')}{' exact' if exact else ''}"
            found[name] = hashlib.sha256(bare.encode()).hexdigest()[:16]
    return found


def test_another_code_is_another_version() -> None:
    code, known = emitted(), json.loads(RECORD.read_text())
    changed = [name for name in code.keys() & known["code"].keys() if code[name] != known["code"][name]]
    raised = known["version"] != CODE_VERSION
    assert raised or not changed, f"raise CODE_VERSION: the code of {changed} is another one"
    assert changed or not raised, "the code is that of the record: the version stays"
    if os.environ.get("CODE_VERSION") == "write":
        RECORD.write_text(json.dumps({"version": CODE_VERSION, "code": code}, indent=1) + "\n")
    else:
        assert not raised, f"write the record anew: it is of version {known['version']}"
