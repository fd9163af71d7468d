# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The L1 of OpenStack: the full L1 (full_image.py) with Nova's compute service, as a cloud has it.

`setup.py` makes the image from these lists. Nothing of Nova starts by itself: what is configured
how is up to whoever boots it, who then says `systemctl start nova-compute`.
"""

import ast
import os
import pathlib

# nova-compute-qemu would do as well, but wants the emulators of all machines there are.
PACKAGES = "nova-compute nova-compute-kvm python3-nova python3-placement".split()

# What came with Nova and would start at boot.
_DISABLED = "iscsid.socket nova-compute.service open-iscsi.service".split()

# The compute service is no root: libvirtd asks polkit whether it may manage it.
_UNMASKED = ("polkit.service",)


def key_parts():
    """What the image depends on besides full_image and the function that makes it."""
    source = pathlib.Path(__file__).read_text(encoding="utf-8")
    return [ast.unparse(ast.parse(source))]


def configure(stage):
    """Decides which services of the root `stage` start; after full_image.configure()."""
    system = stage / "etc/systemd/system"
    # The links lead to nowhere outside the root; glob() of the whole path would not see them.
    for wants in system.glob("*.wants"):
        for unit in _DISABLED:
            if os.path.lexists(wants / unit):
                (wants / unit).unlink()
    for unit in _UNMASKED:
        (system / unit).unlink()
