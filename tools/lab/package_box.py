# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What `./lab package` builds packages in, and where the suite `package` installs them.

Per Debian release two roots, which `setup.py` makes: a box with what the packages are built with,
and a KVM host as its operator set it up before Turnstile came, with the release's own kernel.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Release:
    """A Debian release that there are packages for."""

    number: str  # as in /etc/os-release
    suite: str
    kernel: str  # series of its kernel
    qemu: bool  # whether the plugin is for its QEMU


RELEASES = {
    "13": Release("13", "trixie", "6.12", qemu=True),
    "12": Release("12", "bookworm", "6.1", qemu=False),
}

# The build dependencies of packaging/debian/control, and what checks the result.
BOX_PACKAGES = (
    "build-essential clang debhelper dh-dkms eatmydata fakeroot libcli11-dev libdrm-dev libfmt-dev "
    "libglib2.0-dev lintian lld mandoc meson nlohmann-json3-dev pkgconf prometheus "
    "prometheus-cpp-dev"
).split()

# What L1 needs to be the lab's (l1/init) and what a KVM host has; dkms is what the packages ask for,
# and is here since it and its compiler are most of an installation's time.
HOST_PACKAGES = (
    "busybox-static ca-certificates dkms eatmydata g++ iproute2 kmod mdevctl pciutils procps python3 "
    "linux-perf qemu-system-x86 systemd-sysv trace-cmd udev util-linux"
).split()

# Debian's cloud kernel has no mediated devices.
CLOUD_HEADERS = "linux-headers-cloud-amd64"
