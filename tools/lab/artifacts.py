# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What goes into L1 under /opt/turnstile, and the TS104 device it is started with."""

import pathlib

import debug_kernel
import initramfs
import kmod

_HERE = pathlib.Path(__file__).parent
_REPO = _HERE.parents[1]

# Python that runs inside L1.
_L1_PYTHON = (
    "l1/l2.py", "l1/vgpu.py", "l1/demo.py", "l1/bench.py", "l1/bench_share.py",
    "l1/bench_tracing.py", "cpio.py", "dmesg.py",
)  # fmt: skip

# The address is the one in libvirt_xml's files.
_DEVICE_DEFAULTS = {"vram": "1G", "addr": "0x10"}


def files(lab, product, kernel, installed=False):
    """{path in L1: source} for a run on L1 kernel `kernel`; what was not built is left out.

    `installed`: a host with systemd that loads the driver by itself.
    """
    put = {f"/opt/turnstile/lab/{pathlib.Path(name).name}": _HERE / name for name in _L1_PYTHON}
    put["/opt/turnstile/l2/vmlinuz"] = lab.vmlinuz("6.12")
    if kernel == debug_kernel.NAME:  # the image has the modules of the others
        modules = lab.modules_dir(kernel)
        put[f"/usr/lib/modules/{modules.name}"] = modules
    if product is None:
        return put
    for name in ("turnstile", "ts104"):
        module = product.module(name, kernel)
        if module.exists():
            put[f"/opt/turnstile/modules/{name}.ko"] = module
    if product.tree.is_dir():
        for entry in product.tree.iterdir():
            put[f"/opt/turnstile/{entry.name}"] = entry
    host = product.host(kernel)
    if installed and host.is_dir():
        put |= {f"/{entry.name}": entry for entry in host.iterdir()}
    if product.guest_initramfs.exists():
        put["/opt/turnstile/l2/initramfs"] = product.guest_initramfs
    return put


def newest_guest(lab, product):
    """{path in L1: source} of a guest with Debian's newest kernel and ts104.ko for that."""
    module = product.module("ts104", "newest")
    files = {"modules/ts104.ko": module}
    image = initramfs.for_l2(lab, "newest", kmod.depends_of(module), files, product.tree)
    return {
        "/opt/turnstile/l2/vmlinuz-newest": lab.vmlinuz("newest"),
        "/opt/turnstile/l2/initramfs-newest": image,
    }


def device(**properties):
    """QEMU arguments of one TS104; underscores in property names stand for dashes."""
    values = {**_DEVICE_DEFAULTS, **{k.replace("_", "-"): v for k, v in properties.items()}}
    return ["-device", ",".join(["ts104", *(f"{name}={value}" for name, value in values.items())])]
