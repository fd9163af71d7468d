# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""docs/libvirt.md and docs/mdevctl.md, followed literally. Runs inside the full L1."""

import pathlib
import sys

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import guide
import virt
from tap import figure, main, run, test

_TURNSTILE = pathlib.Path("/opt/turnstile")
_UNITS = "/usr/lib/systemd/system/turnstile-autostart"


def _follow(name, boot=1):
    figure(f"{guide.follow(_TURNSTILE / 'docs' / name, _TURNSTILE, boot)} steps")


@test("host")
def guide_libvirt_is_right_and_leaves_nothing():
    with virt.nothing_left():
        _follow("libvirt.md")


@test("host")
def guide_files_of_the_host_are_valid():
    run(f"systemd-analyze verify --man=no {_UNITS}.service")
    run(f"systemd-analyze verify --man=no {_UNITS}@.service")
    run("udevadm verify /usr/lib/udev/rules.d/61-turnstile.rules")
    run("modprobe --showconfig | grep -x 'softdep turnstile pre: vfio vfio_iommu_type1 mdev kvm'")


@test("host")
def guide_mdevctl_is_right_up_to_the_reboot():
    _follow("mdevctl.md")


@test("host", boot=2)
def guide_mdevctl_is_right_after_the_reboot():
    _follow("mdevctl.md", boot=2)


if __name__ == "__main__":
    main()
