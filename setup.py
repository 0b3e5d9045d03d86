"""Installs the start-up file, which reads TRITON_LINEAR; everything else is in pyproject.toml."""

import os
import shutil
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py

START_UP = "src/triton_linear/startup/triton_linear.pth"  # a source distribution has no other place of it


class BuildWithStartUp(build_py):
    """Python reads `.pth` files at the root of site-packages, where no list of setuptools puts one."""

    def run(self) -> None:
        if not self.editable_mode:  # or a module that is gone since an earlier build would be installed
            shutil.rmtree(os.path.join(self.build_lib, "triton_linear"), ignore_errors=True)
        super().run()
        install: Any = self.distribution.get_command_obj("install")
        self.copy_file(START_UP, install.install_lib if self.editable_mode else self.build_lib)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [
            *super().get_outputs(include_bytecode),
            os.path.join(self.build_lib, os.path.basename(START_UP)),
        ]


setup(cmdclass={"build_py": BuildWithStartUp})
