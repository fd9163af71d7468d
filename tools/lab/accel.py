# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Finds out whether this machine can run L1, a KVM host, under KVM itself."""

import os
import pathlib
import subprocess
import time

import cache as cache_module
import initramfs
import process
from errors import LabError

_PROBE_SECONDS = 30


def choose(lab, cache):
    """Returns "kvm" or "tcg" and a sentence with the reason.

    A /dev/kvm proves nothing: it may be there without the processor's extension, or without
    nesting. So a small guest is started once per boot of this machine and looks for a KVM of its
    own.
    TURNSTILE_ACCEL=kvm or tcg decides without a probe.
    """
    forced = os.environ.get("TURNSTILE_ACCEL")
    if forced:
        if forced not in ("kvm", "tcg"):
            raise LabError(f"TURNSTILE_ACCEL={forced}: must be kvm or tcg")
        return forced, "TURNSTILE_ACCEL says so"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg", "this machine has no usable /dev/kvm"
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    store = cache.top / "kvm-probe.json"
    try:
        known = cache_module.read_json(store)
        if known["boot"] == boot:
            return known["accel"], known["reason"]
    except (OSError, ValueError, KeyError):
        pass
    accel, reason = _probe(lab, cache)
    cache_module.write_json(store, {"boot": boot, "accel": accel, "reason": reason})
    return accel, reason


def _probe(lab, cache):
    series = "6.12"
    with cache.run_directory() as run:
        (run / "initrd").write_bytes(initramfs.for_probe(lab, series))
        argv = [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
            "-no-reboot", "-machine", "q35", "-accel", "kvm", "-cpu", "host", "-m", "256",
            "-kernel", f"/var/lab/boot/{lab.vmlinuz(series).name}",
            "-initrd", "/var/lab/run/initrd", "-append", "console=ttyS0 quiet panic=-1", "-serial", "file:/var/lab/run/console",
        ]  # fmt: skip
        binds = [(run, "/var/lab/run"), (lab.vmlinuz(series).parent, "/var/lab/boot")]
        child = process.start(
            process.in_root(lab.root, argv, binds),
            env=process.root_env(),
            stdin=subprocess.DEVNULL,
            stdout=open(run / "qemu.log", "wb"),
            stderr=subprocess.STDOUT,
        )
        try:
            output = _wait_for_probe(child, run / "qemu.log")
        finally:
            process.stop(child)
        console = run / "console"
        text = console.read_text(errors="replace") if console.exists() else ""
    if "lab-probe: nested" in text:
        return "kvm", "KVM works and can be nested"
    if "lab-probe: plain" in text:
        return "tcg", "KVM works, but not nested in a guest"
    first = (output.strip().splitlines() or [f"no answer within {_PROBE_SECONDS} s"])[0]
    return "tcg", f"/dev/kvm is there, but no guest runs: {first}"


def _wait_for_probe(child, log):
    """Waits until the guest ends or QEMU complains; a guest KVM cannot run only stands still."""
    deadline = time.monotonic() + _PROBE_SECONDS
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
        text = log.read_text(errors="replace")
        if "KVM internal error" in text or "emulation failure" in text:
            return text
    return log.read_text(errors="replace")
