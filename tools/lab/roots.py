# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Where the finished set-up is: roots, images and kernels that `setup.py` made."""

import dataclasses
import pathlib

import cache as cache_module
import debug_kernel


@dataclasses.dataclass(frozen=True)
class Lab:
    """The finished set-up."""

    root: pathlib.Path
    toolbox: pathlib.Path
    l1_image: pathlib.Path
    qemu: pathlib.Path
    full_image: pathlib.Path  # exists after ensure(full=True)
    guest_kernel: pathlib.Path  # as well
    nova_image: pathlib.Path  # exists after ensure(nova=True)
    debug_kernel: pathlib.Path  # exists after ensure(debug=True)
    cloud: pathlib.Path  # exists after ensure(cloud=True)
    package_boxes: dict  # {Debian's number: root}; exist after ensure(packages=[number, …])
    package_hosts: dict  # as well

    def kernels(self):
        """{"6.1": {"release", "version"}, …, "newest": …} as of when the tool box was made.

        "debug" is among them when it exists.
        """
        kernels = cache_module.read_json(self.toolbox / "opt/kernels/kernels.json")
        if self.debug_kernel.exists():
            kernels[debug_kernel.NAME] = cache_module.read_json(self.debug_kernel / "kernel.json")
        return kernels

    def kernel_dir(self, series):
        """The unpacked image package of a kernel; "newest" exists after ensure(full=True)."""
        if series == debug_kernel.NAME:
            return self.debug_kernel / "kernel"
        if series == "newest":
            return self.guest_kernel
        return self.toolbox / "opt/kernels" / series

    def headers(self, series):
        """Where a build in the tool box finds what modules for this kernel are built against."""
        if series == debug_kernel.NAME:
            return debug_kernel.HEADERS
        return f"/lib/modules/{self.kernels()[series]['release']}/build"

    def vmlinuz(self, series):
        """The bootable image of a kernel."""
        return self.kernel_dir(series) / "boot" / f"vmlinuz-{self.kernels()[series]['release']}"

    def modules_dir(self, series):
        """/lib/modules/RELEASE of a kernel."""
        return self.kernel_dir(series) / "usr/lib/modules" / self.kernels()[series]["release"]
