# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The full L1: what a vGPU host of an operator has (systemd, libvirtd, mdevctl), and no more.

`setup.py` makes the image from these lists. Units and udev rules that no test of vGPUs can need
are masked: they are most of a boot under TCG.
"""

import ast
import os
import pathlib

import cache as cache_module

PACKAGES = (
    "dbus libvirt-clients libvirt-daemon-driver-nodedev libvirt-daemon-driver-qemu "
    "libvirt-daemon-system libxml2-utils mdevctl python3-libvirt systemd-sysv udev"
).split()

# Debian's backports have a newer libvirt; the lab's is the release's own.
KERNELS = ("6.12",)

_MASKED = (
    "apt-daily-upgrade.timer apt-daily.timer console-getty.service dev-hugepages.mount "
    "dev-mqueue.mount dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer "
    "getty-static.service getty@tty1.service keyboard-setup.service kmod-static-nodes.service "
    "ldconfig.service libvirt-guests.service logrotate.timer modprobe@configfs.service "
    "modprobe@drm.service modprobe@efi_pstore.service modprobe@fuse.service networking.service "
    "polkit.service proc-sys-fs-binfmt_misc.automount rc-local.service "
    "serial-getty@ttyS0.service sys-fs-fuse-connections.mount sys-kernel-config.mount "
    "systemd-ask-password-console.path systemd-ask-password-wall.path systemd-binfmt.service "
    "systemd-boot-random-seed.service systemd-creds.socket systemd-firstboot.service "
    "systemd-hostnamed.socket systemd-hwdb-update.service systemd-importd.socket "
    "systemd-initctl.socket systemd-journal-catalog-update.service systemd-journal-flush.service "
    "systemd-machine-id-commit.service systemd-network-generator.service systemd-networkd.service "
    "systemd-pcrphase.service systemd-pstore.service systemd-random-seed.service "
    "systemd-remount-fs.service systemd-resolved.service systemd-rfkill.service "
    "systemd-sysext.socket systemd-sysusers.service systemd-timesyncd.service "
    "systemd-tmpfiles-clean.timer systemd-tmpfiles-setup-dev-early.service "
    "systemd-udev-load-credentials.service systemd-update-done.service "
    "systemd-update-utmp-runlevel.service systemd-update-utmp.service "
    "systemd-user-sessions.service virtlockd-admin.socket virtlockd.socket"
).split()

# Rules for disks, input, sound and the like: programs that run for each device of the coldplug.
_MASKED_RULES = (
    "50-firmware.rules 55-dm.rules 60-autosuspend.rules 60-block.rules 60-cdrom_id.rules "
    "60-dm.rules 60-drm.rules 60-evdev.rules 60-fido-id.rules 60-infiniband.rules 60-input-id.rules "
    "60-persistent-alsa.rules 60-persistent-hidraw.rules 60-persistent-input.rules "
    "60-persistent-storage-dm.rules 60-persistent-storage-mtd.rules "
    "60-persistent-storage-tape.rules 60-persistent-storage.rules 60-persistent-v4l.rules "
    "60-sensor.rules 60-serial.rules 64-btrfs-dm.rules 64-btrfs.rules 70-camera.rules 70-joystick.rules "
    "70-memory.rules 70-mouse.rules 70-power-switch.rules 70-touchpad.rules 75-net-description.rules "
    "75-probe_mtd.rules 78-sound-card.rules 80-net-setup-link.rules 81-net-bridge.rules "
    "81-net-dhcp.rules 90-iocost.rules 95-dm-notify.rules 96-e2scrub.rules"
).split()

# The lab's command starts once everything else has; the system counts as up while it runs.
_SERVICE = """\
[Unit]
Description=The lab's command
After=multi-user.target

[Service]
Type=simple
ExecStart=/lab/init
StandardInput=null
StandardOutput=journal+console
KillMode=mixed
TimeoutStopSec=5
LimitMEMLOCK=infinity
"""

_TARGET = """\
[Unit]
Description=A booted KVM host with the lab's command in it
Requires=multi-user.target
Wants=lab.service
After=multi-user.target
AllowIsolate=yes
"""

_FILES = {
    "etc/systemd/system/lab.service": _SERVICE,
    "etc/systemd/system/lab.target": _TARGET,
    # The journal is for the test that reads it; the kernel's log is on the console already.
    "etc/systemd/journald.conf.d/lab.conf": "[Journal]\nStorage=volatile\nForwardToConsole=no\n",
    "etc/systemd/system.conf.d/lab.conf": "[Manager]\nShowStatus=no\nDefaultTimeoutStopSec=20s\n",
    "etc/modules-load.d/lab.conf": "virtio_console\n",
    "etc/hostname": "turnstile-l1\n",
    "etc/hosts": "127.0.0.1 localhost turnstile-l1\n",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
}


def key_parts():
    """What the image depends on besides the function that makes it."""
    source = pathlib.Path(__file__).read_text(encoding="utf-8")
    return [ast.unparse(ast.parse(source))]


def configure(stage):
    """Writes the lab's files into the root `stage` and masks what it does not need."""
    for name, text in _FILES.items():
        path = stage / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text, encoding="utf-8")
    system = stage / "etc/systemd/system"
    masked = [system / unit for unit in _MASKED]
    masked += [stage / "etc/udev/rules.d" / name for name in _MASKED_RULES]
    for path in masked:
        if os.path.lexists(path):
            path.unlink()
        path.symlink_to("/dev/null")
    default = system / "default.target"
    if os.path.lexists(default):
        default.unlink()
    default.symlink_to("/etc/systemd/system/lab.target")
    (stage / "etc/fstab").unlink(missing_ok=True)
    # Unlike the other roots, this one is booted: its services may start.
    (stage / "usr/sbin/policy-rc.d").unlink()
    for name in ("var/lib/apt/lists", "var/cache/apt"):
        cache_module.remove_tree(stage / name)
        (stage / name).mkdir(parents=True)
