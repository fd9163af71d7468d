# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Boots L1, the KVM host with the TS104, runs one command in it, brings back what it said."""

import dataclasses
import io
import os
import pathlib
import re
import select
import shlex
import shutil
import socket
import subprocess
import sys
import tarfile
import termios
import threading
import time
import tty

import accel
import debug_kernel
import dmesg
import initramfs
import process
from errors import LabError

# Exit status when the command was fine but L1's kernel was not, or no answer came in time.
EXIT_KERNEL_FAULT = 99
EXIT_TIMEOUT = 124

_HERE = pathlib.Path(__file__).parent
_RESULT_DISK_BYTES = 1 << 30
_BEAT_SECONDS = 0.1
_STALL = "rcu: INFO: rcu_preempt detected stalls"
# QEMU itself: translated code, and the pages of VRAM that are used.
_QEMU_MIB = 1024
_DEBUG_MIB = 2048


@dataclasses.dataclass
class Request:
    """One run of L1.

    `command` is shell text. `put` maps absolute paths in L1 to files or directories here, or to
    bytes; `get` maps absolute paths in L1 to destinations here. `devices` are QEMU arguments,
    `plugin` a shared object that QEMU preloads. `timeout` is in seconds, all included. `full` boots
    the image with systemd and libvirt, `nova` as well the one that also has OpenStack's compute
    service. After `command` L1 reboots once for each of `after_reboot`, on
    the same disk, and runs it, as long as the one before exited with 0. `guests`: the command starts
    L2 guests. `cpus`: 0 is what the lab deems right.
    """

    command: str
    kernel: str = "6.12"
    put: dict = dataclasses.field(default_factory=dict)
    get: dict = dataclasses.field(default_factory=dict)
    bare: bool = False
    full: bool = False
    nova: bool = False
    after_reboot: list = dataclasses.field(default_factory=list)
    shell: bool = False
    timeout: float = 600
    memory_mib: int = 4096
    guests: bool = True
    cpus: int = 0
    devices: list = dataclasses.field(default_factory=list)
    plugin: pathlib.Path | None = None


@dataclasses.dataclass
class Outcome:
    """What came of a run: the command's status and output, what L1's kernel complained of."""

    status: int
    out: bytes
    err: bytes
    console: str
    kernel_faults: list
    boot_s: float
    wall_s: float


def run(lab, cache, request, stream=("out", "err")):
    """Runs `request`; the outputs in `stream` also appear here while they come.

    `stream` may also be {"out" or "err": a binary file to write to}.

    Raises LabError when L1 does not come up, its driver does not load, results are missing or the
    time is over. A failing command is no error: it is the outcome's status.
    """
    try:
        return _run_once(lab, cache, request, stream)
    except _BootHangs as hang:
        print(f"lab: {hang}\nlab: L1 is started again", file=sys.stderr, flush=True)
    return _run_once(lab, cache, request, stream)


def _run_once(lab, cache, request, stream):
    with cache.run_directory() as directory:
        return _Run(lab, cache, request, directory, stream).execute()


def qemu_refusal(lab, plugin, device):
    """What L0's QEMU says when it refuses `device`. Raises LabError when it accepts it."""
    argv = ["env", f"LD_PRELOAD=/var/lab/plugin/{plugin.name}", "qemu-system-x86_64", "-nodefaults"]
    argv += ["-display", "none", "-machine", "q35", "-accel", "tcg", "-S", "-device", device]
    child = process.start(
        process.in_root(lab.root, argv, [(plugin.parent, "/var/lab/plugin")]),
        env=process.root_env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = child.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        raise LabError(f"QEMU accepts -device {device}") from None
    finally:
        process.stop(child)
    if child.returncode == 0:
        raise LabError(f"QEMU ended well with -device {device}")
    return output


class _BootHangs(LabError):
    """L1's kernel says of itself that it stands still, and nothing of the lab runs in it yet.

    QEMU 10.0 with two vCPUs, on a busy machine: a CPU's local APIC has its timer's interrupt in
    service for ever, so that CPU never gets another one (docs/testing.md).
    """


class _Run:
    """The life of one L1."""

    def __init__(self, lab, cache, request, directory, stream):
        self._lab = lab
        self._request = request
        self._dir = directory
        if not isinstance(stream, dict):
            here = {"out": sys.stdout.buffer, "err": sys.stderr.buffer}
            stream = {name: here[name] for name in stream}
        self._stream = stream
        self._accel, self._accel_reason = accel.choose(lab, cache)
        self._out = bytearray()
        self._err = bytearray()
        self._events = []
        self._changed = threading.Condition()
        self._ports = {}

    def execute(self):
        begin = time.monotonic()
        self._prepare()
        child = process.start(
            process.in_root(self._lab.root, self._argv(), self._binds()),
            env=process.root_env(),
            stdin=subprocess.DEVNULL,
            stdout=open(self._dir / "qemu.log", "wb"),
            stderr=subprocess.STDOUT,
        )
        try:
            threads = self._start_readers(child)
            if self._accel == "tcg":
                threading.Thread(target=self._beat, args=(child,), daemon=True).start()
            boot_s = self._wait_until_running(child, begin)
            if self._request.shell:
                self._relay_terminal(child)
            status = self._wait_for_exit(child, begin)
            for thread in threads:
                thread.join(5)
        finally:
            process.stop(child)
        self._fetch()
        console = self._console()
        return Outcome(
            status=status,
            out=bytes(self._out),
            err=bytes(self._err),
            console=console,
            kernel_faults=dmesg.bad_lines(console),
            boot_s=boot_s,
            wall_s=time.monotonic() - begin,
        )

    # Before the start.

    def _prepare(self):
        request = self._request
        self._check_memory()
        settings = {
            "LAB_BARE": int(request.bare),
            "LAB_FULL": int(request.full),
            "LAB_BOOTS": 1 + len(request.after_reboot),
            "LAB_SHELL": int(request.shell),
            "LAB_GET": " ".join(path.lstrip("/") for path in request.get),
        }
        text = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in settings.items())
        with tarfile.open(self._dir / "in.tar", "w") as archive:
            _add(archive, "/lab/init", (_HERE / "l1/init").read_bytes(), 0o755)
            _add(archive, "/lab/settings", text.encode())
            for boot, command in enumerate([request.command, *request.after_reboot], 1):
                _add(archive, f"/lab/command.{boot}", command.encode() + b"\n")
            for target, source in request.put.items():
                _add(archive, target, source)
        with open(self._dir / "out.tar", "wb") as stream:
            stream.truncate(_RESULT_DISK_BYTES)
        (self._dir / "initrd").write_bytes(initramfs.for_l1(self._lab, request.kernel))
        (self._dir / "tmp").mkdir()
        names = ["ctl", "out", "err"] + (["tty"] if request.shell else [])
        for name in names:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(self._dir / f"{name}.sock"))
            listener.listen(1)
            listener.settimeout(30)
            self._ports[name] = listener

    def _check_memory(self):
        meminfo = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
        available = int(re.search(r"MemAvailable: +(\d+)", meminfo)[1]) // 1024
        if available < self._memory_mib() + _QEMU_MIB:
            raise LabError(
                f"L1 needs {self._memory_mib()} MiB and QEMU about {_QEMU_MIB} MiB, "
                f"but only {available} MiB are available on this machine"
            )

    def _binds(self):
        binds = [
            (self._dir, "/var/lab/run"),
            (self._dir / "tmp", "/var/tmp"),
            (self._lab.vmlinuz(self._request.kernel).parent, "/var/lab/boot"),
            (self._image().parent, "/var/lab/image"),
        ]
        if self._request.plugin:
            binds.append((self._request.plugin.parent, "/var/lab/plugin"))
        return binds

    def _image(self):
        if self._request.nova:
            return self._lab.nova_image
        return self._lab.full_image if self._request.full else self._lab.l1_image

    def _argv(self):
        request = self._request
        append = "console=ttyS0 loglevel=7 panic=-1 intel_iommu=on iommu=pt random.trust_cpu=on"
        # A CPU that L0 does not run for a while is not locked up: 120 s instead of 20 s.
        append += " watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120"
        # On a busy machine L1's watchdog of clocks would give up the TSC for a much slower clock.
        append += " tsc=reliable"
        argv = [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
            "-name", "turnstile-l1", "-machine", "q35", *self._accel_arguments(),
            "-smp", str(self._cpus()), "-m", str(self._memory_mib()),
            "-device", "intel-iommu,intremap=off",
            "-drive", f"file=/var/lab/image/{self._image().name},if=virtio,format=raw,snapshot=on",
            "-drive", "file=/var/lab/run/in.tar,if=virtio,format=raw,readonly=on",
            "-drive", "file=/var/lab/run/out.tar,if=virtio,format=raw,discard=unmap",
            "-kernel", f"/var/lab/boot/{self._lab.vmlinuz(request.kernel).name}",
            "-initrd", "/var/lab/run/initrd", "-append", append,
            "-serial", "file:/var/lab/run/console.log", "-device", "virtio-serial-pci",
        ]  # fmt: skip
        for name in self._ports:
            kind = "virtconsole" if name == "tty" else "virtserialport"
            argv += ["-chardev", f"socket,id={name},path=/var/lab/run/{name}.sock"]
            argv += ["-device", f"{kind},chardev={name},name={name}"]
        # A reboot stays in this QEMU, so the disk keeps what L1 wrote to it.
        argv += [] if request.after_reboot else ["-no-reboot"]
        argv += request.devices
        if request.plugin:
            argv = ["env", f"LD_PRELOAD=/var/lab/plugin/{request.plugin.name}", *argv]
        return argv

    def _memory_mib(self):
        """L1's memory. KASAN's shadow and kmemleak's objects come on top on the debug kernel."""
        extra = _DEBUG_MIB if self._request.kernel == debug_kernel.NAME else 0
        return self._request.memory_mib + extra

    def _cpus(self):
        """How many CPUs L1 has.

        QEMU's emulation of SVM is not safe with several: what one vCPU does while another is on its
        way in or out of its guest can give the guest an interrupt twice, or never, and ends in a
        corrupted stack of L1's kernel within some 30 000 interrupts, also with no driver of ours in
        L1 (docs/testing.md). One CPU has no such neighbour.
        """
        if self._request.cpus:
            return self._request.cpus
        return 1 if self._accel == "tcg" and self._request.guests else 2

    def _accel_arguments(self):
        if self._accel == "kvm":
            return ["-accel", "kvm", "-cpu", "host"]
        # Five-level page tables only make TCG's walks longer.
        return ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max,la57=off"]

    # While it runs.

    def _start_readers(self, child):
        threads = []
        for name, listener in list(self._ports.items()):
            try:
                connection, _ = self._accept(listener, child)
            finally:
                listener.close()
            self._ports[name] = connection
            if name != "tty":
                thread = threading.Thread(target=self._read, args=(name, connection), daemon=True)
                thread.start()
                threads.append(thread)
        return threads

    def _beat(self, child):
        """Interrupts L1 ten times a second, so that no interrupt is lost for good.

        QEMU 10.0 takes the mark of a virtual interrupt off a vCPU whenever a guest of L1 exits, and
        not atomically: a device's interrupt that comes in that moment stays in the APIC and the vCPU
        does not see it. If it was that of the timer, an idle L1 sleeps for ever. The next interrupt,
        whichever it is, makes QEMU look at the APIC again.
        """
        connection = self._ports["ctl"]
        while child.poll() is None:
            try:
                connection.send(b"\n", socket.MSG_DONTWAIT)
            except BlockingIOError:
                pass  # L1 does not read: it boots, or its port is closed already
            except OSError:
                return
            time.sleep(_BEAT_SECONDS)

    def _accept(self, listener, child):
        while True:
            ready, _, _ = select.select([listener], [], [], 0.2)
            if ready:
                return listener.accept()
            if child.poll() is not None:
                raise LabError("QEMU did not start L1: " + self._qemu_log())

    def _read(self, name, connection):
        pending = b""
        while True:
            try:
                data = connection.recv(65536)
            except OSError:
                data = b""
            if not data:
                break
            if name == "ctl":
                *lines, pending = (pending + data).split(b"\n")
                with self._changed:
                    self._events += [line.decode(errors="replace") for line in lines]
                    self._changed.notify_all()
            else:
                target = self._out if name == "out" else self._err
                target += data
                if name in self._stream:
                    self._stream[name].write(data)
                    self._stream[name].flush()
        with self._changed:
            self._changed.notify_all()

    def _wait_event(self, child, begin, wanted):
        """Waits for a ctl line that begins with `wanted`; returns the rest of it."""
        deadline = begin + self._request.timeout
        while True:
            with self._changed:
                for line in self._events:
                    if line.startswith("error "):
                        raise LabError("L1: " + line[6:] + self._console_hint())
                    if line.split(" ")[0] == wanted:
                        return line[len(wanted) + 1 :]
                self._check_restarts()
                self._check_boot()
                self._changed.wait(0.5)
            if child.poll() is not None and not self._reader_has_more(wanted):
                raise LabError(
                    f"L1 ended before its command did (QEMU's exit status {child.returncode}). "
                    + self._qemu_log()
                    + self._console_hint()
                )
            if time.monotonic() > deadline:
                raise LabError(
                    f"no end after {self._request.timeout:.0f} s (waiting for '{wanted}'); "
                    "L1 was stopped." + self._console_hint(),
                    EXIT_TIMEOUT,
                )

    def _check_restarts(self):
        """A kernel that panics starts anew, unasked."""
        if self._events.count("up") > 1 + sum(line.startswith("reboot ") for line in self._events):
            raise LabError("L1 rebooted by itself." + self._console_hint())

    def _check_boot(self):
        if "up" not in self._events and _STALL in self._console():
            raise _BootHangs("L1 hangs before its first program." + self._console_hint())

    def _reader_has_more(self, wanted):
        """Gives the reader a moment: the last line may still be in the socket when QEMU is gone."""
        time.sleep(0.3)
        with self._changed:
            return any(line.split(" ")[0] in (wanted, "error") for line in self._events)

    def _wait_until_running(self, child, begin):
        self._wait_event(child, begin, "running")
        return time.monotonic() - begin

    def _wait_for_exit(self, child, begin):
        status = int(self._wait_event(child, begin, "exit"))
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            raise LabError("L1 did not power off within 30 s." + self._console_hint()) from None
        return status

    def _relay_terminal(self, child):
        """Connects this terminal with L1's, byte by byte, until the shell in L1 ends."""
        port = self._ports["tty"]
        keyboard = sys.stdin.fileno()
        saved = termios.tcgetattr(keyboard)
        tty.setraw(keyboard)
        try:
            while child.poll() is None and not any(e.startswith("exit") for e in self._events):
                ready, _, _ = select.select([port, keyboard], [], [], 0.3)
                if port in ready:
                    data = port.recv(65536)
                    if not data:
                        return
                    sys.stdout.buffer.write(data)
                    sys.stdout.buffer.flush()
                if keyboard in ready:
                    port.sendall(os.read(keyboard, 4096))
        finally:
            termios.tcsetattr(keyboard, termios.TCSADRAIN, saved)

    # Afterwards.

    def _fetch(self):
        if not self._request.get:
            return
        with tarfile.open(self._dir / "out.tar") as archive:
            for remote, local in self._request.get.items():
                self._fetch_one(archive, remote.strip("/"), pathlib.Path(local))

    @staticmethod
    def _fetch_one(archive, remote, local):
        found = False
        for member in archive.getmembers():
            if member.name != remote and not member.name.startswith(remote + "/"):
                continue
            found = True
            target = (
                local / member.name[len(remote) :].strip("/") if member.name != remote else local
            )
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif member.isfile():
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.extractfile(member) as source, open(target, "wb") as stream:
                    shutil.copyfileobj(source, stream)
        if not found:
            raise LabError(f"L1 has no {remote}")

    def _console(self):
        path = self._dir / "console.log"
        return path.read_text(errors="replace").replace("\r", "") if path.exists() else ""

    def _console_hint(self):
        lines = self._console().splitlines()
        bad = dmesg.bad_lines("\n".join(lines))
        text = "\nL1's kernel log ends:\n  " + "\n  ".join(lines[-25:])
        if bad:
            text += "\nand has these faults:\n  " + "\n  ".join(bad[:20])
        return text

    def _qemu_log(self):
        path = self._dir / "qemu.log"
        text = path.read_text(errors="replace").strip() if path.exists() else ""
        return (
            "QEMU says:\n  " + "\n  ".join(text.splitlines()[-12:])
            if text
            else "QEMU said nothing."
        )


def _add(archive, target, source, mode=0o644):
    """Puts bytes, a file or a directory into the archive as `target`, owned by root."""
    name = target.lstrip("/")
    if isinstance(source, (bytes, bytearray)):
        member = tarfile.TarInfo(name)
        member.size, member.mode, member.mtime = len(source), mode, int(time.time())
        archive.addfile(member, io.BytesIO(source))
        return

    def own(member):
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        return member

    archive.add(source, name, filter=own)
