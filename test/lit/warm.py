"""The tools that lit tests run, forked from a process that has imported them: most start longer than they run.

`start` starts that process and returns a folder of commands to put first on PATH. A command passes its words,
folder, variables and standard streams on, and ends as the tool does. The process ends when lit does.

    python test/lit/warm.py ADDRESS        (what `start` runs)
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from contextlib import suppress

TOOLS = {
    "triton-linear": "triton_linear.tools.cli",
    "triton-linear-opt": "triton_linear.tools.opt.command",
    "filecheck": "filecheck.main",
}
"""The module whose `main` each command runs."""

COMMAND = """\
#!{python} -IS
import json, os, socket, sys
call = json.dumps([{tool!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [len(call).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(call)
    status = server.recv(1)
sys.exit(status[0] if status else "{tool} crashed")
"""


def start(python: str, path: str) -> str:
    """A folder with the commands, whose tools are those of `python`."""
    folder = tempfile.mkdtemp(prefix="triton-linear-lit-")
    address = os.path.join(folder, "address")
    for tool in TOOLS:
        command = os.path.join(folder, tool)
        with open(command, "w", encoding="utf-8") as file:
            file.write(COMMAND.format(python=python, tool=tool, address=address))
        os.chmod(command, 0o755)
    server = subprocess.Popen(
        [python, __file__, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PATH": path},
    )
    assert server.stdout is not None
    if server.stdout.readline() != b"ready\n":
        raise RuntimeError("the process that runs the tools does not start")
    return folder


def serve(address: str) -> None:
    mains = {tool: importlib.import_module(module).main for tool, module in TOOLS.items()}
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen(64)
        print("ready", flush=True)
        os.dup2(2, 1)
        threading.Thread(target=end_with_parent, args=(address,), daemon=True).start()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            caller, _ = server.accept()
            if os.fork() == 0:
                server.close()
                answer(caller, mains)
            caller.close()


def end_with_parent(address: str) -> None:
    """Standard input closes when lit ends."""
    os.read(0, 1)
    shutil.rmtree(os.path.dirname(address), ignore_errors=True)
    os._exit(0)


def answer(caller: socket.socket, mains: dict) -> None:
    """Be the tool, and tell the status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, streams, _, _ = socket.recv_fds(caller, 8, 3)
    with caller.makefile("rb") as file:
        tool, words, folder, variables = json.loads(file.read(int.from_bytes(size, "big")))
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    # Python's streams remember of the files that were there before whether they can be sought in.
    sys.stdin = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, encoding="utf-8", buffering=1)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = [tool, *words]
    sys.modules["__main__"] = types.ModuleType("__main__")
    status: object = 1
    tool_itself = os.getpid()
    try:
        status = mains[tool]()
    except SystemExit as end:
        status = end.code
        if isinstance(status, str):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    with suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    if os.getpid() == tool_itself:  # and not a process that it forked
        caller.sendall(bytes([int(status or 0) & 255]))
    os._exit(int(status or 0) & 255)


if __name__ == "__main__":
    serve(sys.argv[1])
