# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A vGPU and the guest on it for the chaos suite: it computes, verifies, can be ill-treated."""

import json
import os
import pathlib
import socket
import threading
import time

import dmesg
import l2
import vgpu
from tap import Failure, wait_for

# An L1 under TCG boots four guests on one CPU while they also compute.
BOOT_S = 900
# So much GPU time after its start a guest has submissions waiting all the time.
_SETTLED_NS = 300_000_000
_GONE_S = 60
# A guest that floods its own GPU may not live to say that it is done.
_FLOOD_S = 60

# A load that keeps the GPU busy and, beside it, runs whose results are verified, one line for each.
# `started` and what follows it say that the state of before is over.
_GUEST = """
stty -echo </dev/ttyS1
load() {
	ts104-run --timeout-ms 600000 --matrix 32 --seconds 3600 bench gpu >/run/load 2>&1
	echo "@@ bad load $? $(tail -n 1 /run/load)"
}
verify() {
	while :; do
		if ts104-run --timeout-ms 600000 --elements 2048 --matrix 32 vecadd sgemm >/run/verify 2>&1
		then echo "@@ ok"
		else echo "@@ bad result $? $(tail -n 1 /run/verify)"; sleep 2
		fi
		sleep 1
	done
}
begin() {
	until ls /dev/dri/renderD* >/dev/null 2>&1; do sleep 0.3; done
	load & loads="$!"
	verify & loads="$loads $!"
	echo "@@ started"
}
stop() {
	kill -9 $loads
	killall -9 ts104-run
	wait
}
begin
while read -r order argument; do
	case $order in
	reset) echo 1 >"$(dirname /sys/bus/pci/devices/*/drm)/reset"; stop; begin ;;
	restart) stop; begin ;;
	fault) ts104-run --address 0x123456000 fault-store; echo "@@ answer $?" ;;
	hog) timeout -s KILL 4 ts104-run --timeout-ms 600000 endless; echo "@@ answer $?" ;;
	flood) ts104-flood 4 "$argument"; echo "@@ answer $?" ;;
	esac
done </dev/ttyS1
"""


class Tenant(vgpu.Tenant):
    """One of the four. `units`: its sixteenths of the GPU.

    It is `steady` when its guest works and nothing has been done to it since; what it then says and
    gets is judged.
    """

    def __init__(self, name, type_id, units):
        super().__init__(type_id)
        self.name, self.type_id, self.units = name, type_id, units
        self.weight = 100
        self.disturbed = True
        self._lock = threading.Lock()
        self._seen = 0
        self._orders = 0
        # So much of the guest's kernel log is not judged: it had lost its senses.
        self._forgiven = 0
        # When a verified result was seen, since the last disturbance; by time.monotonic().
        self.results = []
        self.bad = []
        self._started_at_ns = 0
        self._qmp = None

    # Its guest.

    def start(self):
        """Boots a guest on the vGPU."""
        qmp = f"/run/{self.name}-{time.monotonic_ns()}.qmp"
        devices = ["-device", "pcie-root-port,id=socket,chassis=1,slot=1", *self._device()]
        with self._lock:
            self.guest = l2.Guest(
                self.name, _GUEST, devices, memory_mib=256, reboots=True,
                qemu=["-qmp", f"unix:{qmp},server=on,wait=off"],
            )  # fmt: skip
            self._seen = self._forgiven = 0
        self.disturb()
        try:
            self._qmp = Qmp(qmp)
        except OSError as error:
            raise Failure(f"{self.name}: {error}: {self.guest.log.read_text()[-800:]}") from None

    def _device(self):
        return ["-device", f"vfio-pci,sysfsdev=/sys/bus/mdev/devices/{self.uuid},bus=socket,id=vgpu"]

    def disturb(self):
        """From here on it is not judged, until it has said that it started anew."""
        self.poll()
        self.disturbed = True
        self._started_at_ns = self.account()["run_ns"]

    def poll(self):
        """Takes in what the guest has said. Any thread."""
        with self._lock:
            if self.guest is not None:
                self._take(self.guest.output())

    def _take(self, output):
        *lines, _ = output[self._seen :].split(b"\n")
        self._seen += sum(len(line) + 1 for line in lines)
        for line in lines:
            text = line.decode(errors="replace").strip()
            if text.endswith("@@ started"):  # whatever a reset cut off
                self.disturbed = False
                self.results = []
            elif text == "@@ ok":
                self.results.append(time.monotonic())
            elif text.startswith("@@ bad") and not self.disturbed:
                self.bad.append(text[3:])
            elif text.startswith("@@ answer"):
                self._orders += 1

    def steady(self):
        """Whether it computes and nothing was done to it."""
        if self.guest.process.poll() is not None and not self.disturbed:
            raise Failure(f"{self.name}: QEMU ended by itself: {self.guest.log.read_text()[-500:]}")
        self.poll()
        ran = self.account()["run_ns"] - self._started_at_ns
        return not self.disturbed and bool(self.results) and ran > _SETTLED_NS

    def describe(self):
        """Where its guest is, for a report of one that does not compute."""
        said = self.guest.output()[-300:].decode(errors="replace")
        return (
            f"{self.name}: {self.account()}, QEMU used {_cpu_seconds(self.guest.process.pid)} s of "
            f"CPU, last said {said!r}{self.guest.state()}"
        )

    def kernel_faults(self):
        """What its kernel complained of."""
        return dmesg.bad_lines(self.guest.console()[self._forgiven :])

    def order(self, line, answered=True):
        """Gives the guest an order; waits for its answer if there is one."""
        orders = self._orders
        self.guest.say(line)
        if answered:
            wait_for(
                lambda: self._is_answered(orders), BOOT_S, f"{self.name}: no answer to '{line}'"
            )

    def flood(self, seed):
        """The guest does its worst, then its machine is reset: it need not survive that."""
        orders = self._orders
        self.disturb()
        self.guest.say(f"flood {seed}")
        deadline = time.monotonic() + _FLOOD_S
        while not self._is_answered(orders) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.disturb()
        self.ask_qemu("system_reset")
        self._forgiven = len(self.guest.console())

    def _is_answered(self, orders):
        self.poll()
        return self._orders > orders

    def kill(self):
        """Ends QEMU as the host's OOM killer would."""
        self.disturb()
        self._qmp.close()
        self.guest.kill()

    def ask_qemu(self, command, **arguments):
        """A command of QMP."""
        return self._qmp.ask(command, **arguments)

    def unplug(self):
        """Takes the vGPU out of the running guest."""
        self.disturb()
        self._qmp.ask("device_del", id="vgpu")
        self._qmp.wait_event("DEVICE_DELETED", BOOT_S, device="vgpu")

    def plug(self):
        """Puts it in again; the guest starts its loads anew."""
        self._qmp.ask(
            "device_add", driver="vfio-pci", bus="socket", id="vgpu",
            sysfsdev=f"/sys/bus/mdev/devices/{self.uuid}",
        )  # fmt: skip
        self.guest.say("restart")

    # Its vGPU.

    def expect_gone(self):
        """Nothing that the guest had is left: pins, channels."""

        def nothing_is_left():
            counters = vgpu.counters(self.uuid)
            return counters["pages_pinned"] == 0 and counters["channels"] == 0

        wait_for(nothing_is_left, _GONE_S, f"{self.name}: {vgpu.counters(self.uuid)}")

    def renew(self):
        """Another vGPU of the same type; its VRAM is free in between."""
        before = vgpu.available(self.type_id)
        vgpu.remove(self.uuid)
        if vgpu.available(self.type_id) != before + 1:
            raise Failure(f"{self.name}: its VRAM is not free after its vGPU is removed")
        self.uuid = vgpu.create(self.type_id)
        self.weight = 100
        self._started_at_ns = 0

    def set_weight(self, weight):
        """Its share under weighted and latency."""
        vgpu.set_vgpu(self.uuid, "weight", weight)
        self.weight = weight

    def end(self):
        """Ends it, whatever state it is in."""
        super().end()
        vgpu.remove(self.uuid)


def _cpu_seconds(pid):
    """What a process has used since it began, user and system."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Qmp:
    """A connection to QEMU's machine protocol."""

    def __init__(self, path, timeout=60):
        self._socket = socket.socket(socket.AF_UNIX)
        self._pending = b""
        self._events = []
        deadline = time.monotonic() + timeout
        while True:
            try:
                self._socket.connect(path)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        self._read(timeout)
        self.ask("qmp_capabilities")

    def ask(self, command, timeout=120, **arguments):
        """Executes a command; returns what it returns. Raises Failure when QEMU refuses."""
        request = {"execute": command, "arguments": arguments}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        while True:
            message = self._read(timeout)
            if "event" in message:
                self._events.append(message)
            elif "return" in message:
                return message["return"]
            else:
                raise Failure(f"QMP {command} {arguments}: {message}")

    def wait_event(self, name, timeout, **data):
        """Waits for an event with these data."""
        deadline = time.monotonic() + timeout
        while True:
            for event in self._events:
                if event["event"] == name and data.items() <= event.get("data", {}).items():
                    self._events.remove(event)
                    return
            self._events.append(self._read(max(deadline - time.monotonic(), 0.1)))

    def close(self):
        """Lets go of QEMU."""
        self._socket.close()

    def _read(self, timeout):
        self._socket.settimeout(timeout)
        while b"\n" not in self._pending:
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                raise Failure(f"QEMU says nothing for {timeout:.0f} s over QMP") from None
            if not data:
                raise Failure("QEMU closed its QMP socket")
            self._pending += data
        line, self._pending = self._pending.split(b"\n", 1)
        return json.loads(line)
