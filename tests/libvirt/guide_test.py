# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""docs/libvirt.md, followed literally, and files of the host. Runs inside the full L1."""

import sys

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import guide
import virt
from tap import figure, main, run, test

_UNITS = "/usr/lib/systemd/system/turnstile-autostart"


@test("host")
def guide_libvirt_is_right_and_leaves_nothing():
    with virt.nothing_left():
        figure(f"{guide.follow('libvirt.md')} steps")


@test("host")
def guide_files_of_the_host_are_valid():
    run(f"systemd-analyze verify --man=no {_UNITS}.service")
    run(f"systemd-analyze verify --man=no {_UNITS}@.service")
    run("udevadm verify /usr/lib/udev/rules.d/61-turnstile.rules")
    run("modprobe --showconfig | grep -x 'softdep turnstile pre: vfio vfio_iommu_type1 mdev kvm'")


if __name__ == "__main__":
    main()
