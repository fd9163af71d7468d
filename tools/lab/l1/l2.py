#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Starts L2 guests in L1 under KVM and collects what they say. Runs inside L1.

As a program: l2.py [--mdev UUID | --device ARGS] [--memory MIB] [--timeout S] -- COMMAND
prints the guest's output and exits with the command's status. l2.py --pack FILE -- COMMAND starts
nothing, but writes the initramfs of such a guest, for a domain of libvirt.
"""

import argparse
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, "/opt/turnstile/lab")

import dmesg
from cpio import Cpio

_FILES = pathlib.Path("/opt/turnstile/l2")
# Every guest's kernel has these words: an L0 that is busy must not look like a guest that hangs,
# and a guest's root may reach past its driver, as one with a kernel of its own could.
CMDLINE = (
    "console=ttyS0 loglevel=5 panic=-1 random.trust_cpu=on tsc=reliable watchdog_thresh=60 "
    "rcupdate.rcu_cpu_stall_timeout=120 sysrq_always_enabled iomem=relaxed"
)
_END = re.compile(rb"lab-guest: exit (\d+)\r?\n")


class GuestError(Exception):
    """The guest ended, or went on too long, without saying its command's status."""


class Guest:
    """One L2 guest: `command` (shell text) runs in it with `files` (path in /guest: local path).

    `devices` are QEMU arguments. Use mdev(uuid) to make those of a mediated device. A guest that
    `reboots` starts anew on its reboot, command and all; others end then.
    """

    def __init__(
        self, name, command, devices=(), files=None, memory_mib=512, cpus=1, qemu=(), reboots=False
    ):
        self.name = name
        self._judged = None
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix=f"l2-{name}-"))
        # What say() writes. Open for reading too: QEMU's end is never alone.
        os.mkfifo(self.directory / "input")
        self._input = os.open(self.directory / "input", os.O_RDWR | os.O_CLOEXEC)
        initrd = self.directory / "initrd"
        initrd.write_bytes(pack(command, files))
        argv = [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
            *([] if reboots else ["-no-reboot"]), "-name", name, "-machine", "q35",
            "-accel", "kvm", "-cpu", "host", "-smp", str(cpus),
            "-m", str(memory_mib), "-kernel", str(_FILES / "vmlinuz"), "-initrd", str(initrd),
            "-append", CMDLINE,
            "-chardev", f"socket,id=console,path={self.directory}/console.sock,server=on,wait=off,"
            f"logfile={self.directory}/console", "-serial", "chardev:console",
            "-chardev", f"file,id=io,path={self.directory}/output,input-path={self.directory}/input",
            "-serial", "chardev:io",
            "-monitor", f"unix:{self.directory}/monitor.sock,server=on,wait=off", *devices, *qemu,
        ]  # fmt: skip
        self.log = self.directory / "qemu.log"
        self.begin = time.monotonic()
        with open(self.log, "wb") as stream:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT
            )

    def say(self, line):
        """Sends a line to the command, which reads it from /dev/ttyS1."""
        os.write(self._input, line.encode() + b"\n")

    def kill(self):
        """Ends QEMU as the host's OOM killer would."""
        self.process.kill()
        self.process.wait()

    def wait(self, timeout):
        """Waits for the guest to power off; returns (status, output). Raises GuestError."""
        try:
            self.process.wait(max(timeout - (time.monotonic() - self.begin), 0.1))
        except subprocess.TimeoutExpired:
            hint = self._hint()
            # Its answers look like faults in the log, which is judged without them.
            self._judged = self.console()
            state = self.state()
            self.kill()
            raise GuestError(f"{self.name}: no end after {timeout} s{hint}{state}") from None
        output = self.output()
        match = list(_END.finditer(output))
        if not match:
            raise GuestError(f"{self.name}: ended without a status{self._hint()}")
        return int(match[-1][1]), output[: match[-1].start()].replace(b"\r\n", b"\n")

    def output(self):
        """What the command has printed so far."""
        path = self.directory / "output"
        return path.read_bytes() if path.exists() else b""

    def console(self):
        """The guest's kernel log so far (warnings and worse)."""
        path = self.directory / "console"
        return path.read_text(errors="replace") if path.exists() else ""

    def kernel_faults(self):
        """Lines of the guest's kernel log that show a fault."""
        return dmesg.bad_lines(self.console() if self._judged is None else self._judged)

    def state(self):
        """Where a guest is that does not end: its CPU, its interrupts, its kernel's blocked tasks."""
        try:
            text = self._ask("monitor", b"info registers\n") + self._ask("monitor", b"info lapic\n")
            facts = re.findall(r"(?:RIP|RFL|CPL|HLT)=\S+|\b(?:ISR|IRR)\b.*", text)
            before = len(self.console())
            for key in (b"9", b"l", b"w"):
                self._ask("monitor", b"chardev-send-break console\n")
                self._ask("console", key)
            lines = self.console()[before:].replace("\r", "").splitlines()[-60:]
            return "\nCPU: " + " ".join(facts) + "\nkernel:\n  " + "\n  ".join(lines)
        except OSError as error:
            return f"\nQEMU does not answer: {error}"

    def _ask(self, name, text):
        """Sends `text` to one of QEMU's sockets; returns what comes back within two seconds."""
        answer = b""
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(2)
            stream.connect(str(self.directory / f"{name}.sock"))
            stream.sendall(text)
            try:
                while data := stream.recv(65536):
                    answer += data
            except TimeoutError:
                pass
        return answer.decode(errors="replace")

    def _hint(self):
        parts = [
            ("QEMU", self.log.read_text(errors="replace")),
            ("kernel", self.console()),
            ("output", self.output().decode(errors="replace")),
        ]
        text = ""
        for title, body in parts:
            lines = body.strip().splitlines()[-15:]
            if lines:
                text += f"\n{title}:\n  " + "\n  ".join(lines)
        return text


def pack(command, files=None, base="initramfs"):
    """The initramfs of a guest that runs `command`, with `files` as of Guest.

    `base` is the one of the guest's kernel, in /opt/turnstile/l2.
    """
    extra = Cpio()
    extra.file("guest/command", command.encode() + b"\n")
    for target, source in (files or {}).items():
        extra.copy(f"guest/{target}", source)
    return (_FILES / base).read_bytes() + extra.finish()


def mdev(uuid):
    """QEMU arguments that give the guest the mediated device `uuid`."""
    return ["-device", f"vfio-pci,sysfsdev=/sys/bus/mdev/devices/{uuid}"]


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mdev", metavar="UUID")
    parser.add_argument("--device", action="append", default=[], help="an argument of -device")
    parser.add_argument("--memory", type=int, default=512, metavar="MIB")
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=180, metavar="S")
    parser.add_argument("--pack", type=pathlib.Path, metavar="FILE")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    devices = mdev(arguments.mdev) if arguments.mdev else []
    for device in arguments.device:
        devices += ["-device", device]
    words = arguments.command
    command = words[0] if len(words) == 1 else shlex.join(words)
    if arguments.pack:
        arguments.pack.write_bytes(pack(command))
        return 0
    guest = Guest("guest", command, devices, memory_mib=arguments.memory, cpus=arguments.cpus)
    try:
        status, output = guest.wait(arguments.timeout)
    except GuestError as error:
        print(f"l2: {error}", file=sys.stderr)
        return 99
    sys.stdout.buffer.write(output)
    faults = guest.kernel_faults()
    for line in faults:
        print(f"l2: guest kernel: {line}", file=sys.stderr)
    return status or (99 if faults else 0)


if __name__ == "__main__":
    sys.exit(main())
