# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The initramfs images of L1, of L2 guests and of the KVM probe."""

import os
import pathlib

from cpio import Cpio
from kmod import ModuleTree

_HERE = pathlib.Path(__file__).parent

_L1_MODULES = ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"]

# What a DRM driver in a guest can ask for, and a balloon; what a module needs besides is found in
# modules.dep.
_L2_MODULES = ["drm", "drm_exec", "drm_gpuvm", "gpu_sched", "drm_shmem_helper", "drm_buddy"]
_L2_MODULES += ["virtio_pci", "virtio_balloon"]


def _base(lab):
    archive = Cpio()
    archive.copy("bin/busybox", lab.root / "usr/bin/busybox")
    archive.symlink("bin/sh", "busybox")
    # The kernel opens this before devtmpfs is mounted.
    archive.device("dev/console", 0o600, 5, 1)
    return archive


def _add_modules(archive, tree, names):
    order = tree.closure(names)
    for name in order:
        archive.file(f"modules/{name}.ko", tree.read(name))
    archive.file("modules/order", "".join(f"{name}\n" for name in order).encode())


def for_l1(lab, series):
    """Mounts L1's disk and starts /lab/init there."""
    archive = _base(lab)
    archive.file("init", (_HERE / "l1/initramfs-init").read_bytes(), 0o755)
    _add_modules(archive, ModuleTree(lab.modules_dir(series)), _L1_MODULES)
    return archive.finish()


def for_l2(lab, series, extra_modules=(), files=None, tree=None):
    """A guest that loads the DRM helpers and runs /guest/command, which the launcher appends.

    `files` (path: source) are copied as they are, `tree` becomes /opt/turnstile. There are no
    shared libraries: programs must be static.
    """
    archive = _base(lab)
    archive.file("init", (_HERE / "l1/guest-init").read_bytes(), 0o755)
    _add_modules(archive, ModuleTree(lab.modules_dir(series)), [*_L2_MODULES, *extra_modules])
    for path, source in (files or {}).items():
        archive.copy(path, source)
    for source in sorted(tree.rglob("*")) if tree else []:
        path = f"opt/turnstile/{source.relative_to(tree)}"
        if source.is_symlink():
            archive.symlink(path, os.readlink(source))
        elif source.is_file():
            archive.copy(path, source)
    return archive.finish()


def for_probe(lab, series):
    """Tells on the console whether KVM works inside a KVM guest of this machine."""
    archive = _base(lab)
    archive.file("init", (_HERE / "l1/probe-init").read_bytes(), 0o755)
    tree = ModuleTree(lab.modules_dir(series))
    _add_modules(archive, tree, ["kvm_amd", "kvm_intel"])
    return archive.finish()
