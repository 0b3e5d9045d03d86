"""What NVIDIA's tools show of machine code."""

from __future__ import annotations

import subprocess
import tempfile

from triton import knobs


def shown(cubin: bytes, *flags: str, tool: str = "nvdisasm") -> str:
    """What the tool prints of a cubin."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [getattr(knobs.nvidia, tool).path, *flags, file.name]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
