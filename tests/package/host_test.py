# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A host that booted from the packages: what an operator does first. Inside L1."""

import json
import pathlib
import re
import subprocess
import sys
import urllib.request

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import vgpu
from tap import expect, expect_equal, figure, main, run, test, wait_for

_BOTH = ("12", "13")
_TYPE = "turnstile-ts104_v4"
_UUID = "7a11e000-0000-4000-8000-00000000000b"
_DEVICE = pathlib.Path("/sys/bus/mdev/devices") / _UUID
_METRICS = "http://127.0.0.1:9836/metrics"


@test("host", _BOTH)
def driver_is_loaded_at_boot_and_is_that_of_the_package():
    path = run("modinfo -F filename turnstile").strip()
    expect("/updates/dkms/" in path, path)
    types = [entry for entry in vgpu.types() if entry.startswith("turnstile-")]
    expect_equal(len(types), 5)
    expect(not pathlib.Path("/opt/turnstile/modules").exists(), "the lab's own modules are here")


@test("host", _BOTH)
def vgpu_is_defined_starts_and_computes():
    parent = vgpu.gpu_address()
    run(f"mdevctl define --uuid {_UUID} --parent {parent} --type {_TYPE} --auto")
    run(f"mdevctl start --uuid {_UUID}")
    text = run(f"ts104-run --transport vfio --device {_UUID} --json vecadd sgemm", timeout=600)
    verified = {p["name"]: p["verified"] for p in json.loads(text)["programs"]}
    expect_equal(verified, {"vecadd": True, "sgemm": True})


@test("host", _BOTH)
def smi_shows_it_and_the_doctor_finds_nothing_wrong_with_the_driver():
    text = run("turnstile-smi")
    expect(_UUID in text and "ts104_v4" in text, text)
    found = json.loads(run("turnstile-smi --json doctor || true"))["findings"]
    wrong = [finding["what"] for finding in found if finding["verdict"] == "wrong"]
    figure(f"doctor: {len(found)} findings, wrong: {wrong or 'none'}")
    expect(not {"driver", "module", "GPU", "VFIO"} & set(wrong), str(found))


_EVENTS = {"turnstile_vgpu_open", "turnstile_csr_access", "turnstile_runlist_submit",
           "turnstile_shadow_update", "turnstile_pin", "turnstile_vgpu_close"}  # fmt: skip
_PROGRAM = f"ts104-run --transport vfio --device {_UUID} --placement sysmem vecadd"


@test("host", _BOTH)
def trace_cmd_records_a_program_from_open_to_close():
    run(f"trace-cmd record -q -e turnstile -o /tmp/trace.dat {_PROGRAM}", timeout=600)
    text = run("trace-cmd report -i /tmp/trace.dat", timeout=600)
    seen = set(re.findall(r" (turnstile_\w+): ", text))
    expect(seen >= _EVENTS, f"missing: {_EVENTS - seen}")
    opened = re.search(r"turnstile_vgpu_open: .*", text)[0]
    expect(_UUID in opened, opened)


@test("host", _BOTH)
def perf_counts_and_records_the_same_events():
    run(f"perf record -q -e 'turnstile:*' -a -o /tmp/perf.data {_PROGRAM}", timeout=600)
    text = run("perf script -i /tmp/perf.data 2>/dev/null", timeout=600)
    seen = set(re.findall(r" turnstile:(turnstile_\w+): ", text))
    expect(seen >= _EVENTS, f"missing: {_EVENTS - seen}")
    text = run(
        f"perf stat -x, -e turnstile:turnstile_runlist_submit -a {_PROGRAM} 2>&1", timeout=600
    )
    count = re.search(r"^(\d+),,turnstile:turnstile_runlist_submit", text, re.M)
    expect(count and int(count[1]) > 0, text)


@test("host", _BOTH)
def exporter_runs_as_a_service_with_the_rights_it_needs():
    run("systemctl start turnstile-exporter.service")

    def served():
        try:
            with urllib.request.urlopen(_METRICS, timeout=60) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    wait_for(lambda: "turnstile_driver_up 1" in served(), 120, "no metrics")
    text = served()
    # Who has a vGPU open is in other users' /proc, channels are in debugfs: 0 is known, not missing.
    line = re.search(rf'^turnstile_vgpu_open{{.*mdev_uuid="{_UUID}".*}} (\S+)$', text, re.M)
    expect(line, text[-2000:])
    expect_equal(line[1], "0")
    user = run("ps -o user= -C turnstile-exporter").strip()
    expect(user not in ("", "root"), f"user {user}")
    run("systemctl stop turnstile-exporter.service")


@test("host", ("13",))
def demo_runs_with_two_guests_and_smi_agrees_with_it():
    run(f"mdevctl stop --uuid {_UUID}")
    with open("/tmp/smi.json", "wb") as stream:
        smi = subprocess.Popen(["turnstile-smi", "--json", "-l", "1"], stdout=stream)
        try:
            run(
                "mkdir -p /lab/out && python3 /opt/turnstile/lab/demo.py --guests 2 "
                "--out /lab/out/demo.json",
                timeout=900,
            )
        finally:
            smi.kill()
            smi.wait()
    guests = json.loads(pathlib.Path("/lab/out/demo.json").read_text())["guests"]
    expect_equal(len(guests), 2)
    programs = [program for guest in guests for program in guest["programs"]]
    expect(len(programs) >= 12 and all(p["verified"] for p in programs), str(programs))
    readings = [vgpu for line in _whole_lines("/tmp/smi.json") for vgpu in _vgpus(line)]
    for guest in guests:
        own = [reading for reading in readings if reading["mdev_uuid"] == guest["uuid"]]
        expect(own and own[0]["mdev_type"] == guest["type"], f"smi has no {guest['uuid']}")
        names = {reading["user"]["vm_name"] for reading in own if reading["user"]}
        expect(len(names) == 1 and names <= {"guest0", "guest1"}, f"VMs {names}")
        # What the demo read lies between two readings of smi, all of it between the same two.
        around = [pair for pair in zip(own, own[1:]) if _between(*pair, guest)]
        expect(around, f"of {len(own)} readings no two enclose {[guest[n] for n in _COUNTERS]}")
    figure(f"{len(programs)} programs verified in 2 guests, {len(readings)} readings of smi")


_COUNTERS = ("csr_exits_total", "interrupts_injected", "gpu_time_ns")


def _between(before, after, guest):
    return all(before[name] <= guest[name] <= after[name] for name in _COUNTERS)


def _whole_lines(path):
    text = pathlib.Path(path).read_text()
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _vgpus(document):
    return [vgpu for gpu in document["gpus"] for vgpu in gpu["vgpus"]]


@test("host", _BOTH, boot=2)
def vgpu_is_back_after_a_reboot():
    expect(_DEVICE.exists(), run("systemctl status turnstile-autostart.service || true"))
    expect_equal((_DEVICE / "mdev_type").resolve().name, _TYPE)


if __name__ == "__main__":
    main()
