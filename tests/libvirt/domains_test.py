# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Domains with vGPUs from start to kill, and what hosts do to them. Runs inside the full L1."""

import pathlib
import re
import resource
import sys
import time

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import vgpu
import virt
from tap import count, expect, expect_equal, figure, main, run, test, wait_for
from virt import Domain, virsh

_TYPE = "turnstile-ts104_v4"
_GUIDE = pathlib.Path("/opt/turnstile/docs/troubleshooting.md")


@test("host")
def guest_reboots_and_resets_and_its_gpu_works_each_time():
    reboots = count(1, 20)
    domain = virt.standing()
    domain.compute()
    begin = time.monotonic()
    for _ in range(reboots):
        domain.expect_boot()
        domain.send("reboot -f")
        domain.wait_ready()
        domain.compute()
    seconds = (time.monotonic() - begin) / reboots
    # In the middle of work.
    domain.compute_without_end()
    domain.expect_boot()
    virsh(f"reset {domain.name}")
    domain.wait_ready()
    domain.compute()
    figure(f"{reboots} reboots of {seconds:.1f} s")


@test("host")
def destroyed_domain_starts_at_once_on_the_same_vgpu():
    domain = virt.standing()
    (uuid,) = domain.uuids
    domain.compute_without_end()
    virsh(f"destroy {domain.name}")
    counters = vgpu.counters(uuid)
    expect_equal((counters["pages_pinned"], counters["channels"]), (0, 0))
    seconds = domain.start()
    domain.compute()
    figure(f"virsh start {seconds:.1f} s")


@test("host")
def second_domain_on_the_same_vgpu_is_refused_with_the_name_of_the_first():
    first = virt.standing()
    (uuid,) = first.uuids
    with Domain([uuid]) as second:
        text = virsh(f"start {second.name}", status=None)
        expect("in use" in text and first.name in text, text)
    text = virsh(f"nodedev-destroy {virt.node_name(uuid)}", status=None)
    expect("in use" in text, text)
    first.compute()


@test("host")
def module_in_use_is_not_unloaded():
    domain = virt.standing()
    seconds, text = virt.timed(run, "rmmod turnstile", status=None)
    expect("in use" in text, text)
    domain.compute()
    figure(f"refused after {seconds:.2f} s")


@test("host")
def guest_without_its_driver_and_with_a_driver_that_comes_and_goes():
    rounds = count(5, 50)
    domain = virt.standing()
    (uuid,) = domain.uuids
    domain.compute("--placement sysmem vecadd")
    domain.guest("rmmod ts104")
    time.sleep(1)
    counters = vgpu.counters(uuid)
    expect_equal((counters["pages_pinned"], counters["channels"]), (0, 0))
    begin = time.monotonic()
    domain.guest(
        f"i=0; while [ $i -lt {rounds} ]; do i=$((i + 1)); insmod /modules/ts104.ko && "
        "rmmod ts104 || exit 1; done"
    )
    seconds = (time.monotonic() - begin) / rounds
    grown = vgpu.counters(uuid)["memory_bytes"] - counters["memory_bytes"]
    domain.guest("insmod /modules/ts104.ko")
    domain.compute()
    figure(f"{rounds} loads and unloads of {seconds:.2f} s, vGPU's memory {grown:+d} bytes")
    expect(grown <= 64 * 1024, f"{grown} bytes more")


_ONLINE = (
    "for m in /sys/devices/system/memory/memory*/state; do "
    "grep -q offline $m && echo online >$m; done; true"
)


def _dimm():
    """The XML of memory to plug in, in a file."""
    path = pathlib.Path("/tmp/dimm.xml")
    path.write_text(
        "<memory model='dimm'><target><size unit='MiB'>256</size><node>0</node></target></memory>"
    )
    return path


def _guest_kib(domain):
    return int(domain.guest("sed -n 's/MemTotal: *//p' /proc/meminfo").split()[0])


@test("host")
def memory_is_plugged_in_and_a_balloon_inflated_under_a_working_gpu():
    dimm = _dimm()
    domain = virt.standing()
    before = _guest_kib(domain)
    work = "ts104-run --placement sysmem --iterations 40 --json vecadd"
    domain.send(work)
    virsh(f"attach-device {domain.name} {dimm}")
    domain.computed()
    domain.guest(_ONLINE)
    grown = _guest_kib(domain) - before
    expect(grown > 200 * 1024, f"only {grown} KiB more")
    # While the guest gives memory away and gets it back.
    domain.send(work)
    virsh(f"setmem {domain.name} 400M --live")
    time.sleep(3)
    virsh(f"setmem {domain.name} 640M --live")
    domain.computed()
    # Out again; the guest may refuse, but nothing may break.
    run(f"virsh -q detach-device {domain.name} {dimm}; true")
    domain.compute("--placement sysmem vecadd")
    figure(f"{grown // 1024} MiB plugged in")


@test("host")
def limit_of_locked_memory_is_a_fault_of_the_guest_and_no_flood_in_the_log():
    reason = "vfio_pin_page_external: Task qemu-system-x86"
    domain = virt.standing()
    domain.compute("--placement sysmem vecadd")
    pid, mark = domain.qemu_pid(), virt.mark_log()
    limits = resource.prlimit(pid, resource.RLIMIT_MEMLOCK, (0, resource.RLIM_INFINITY))
    try:
        domain.guest("ts104-run --placement sysmem vecadd", status=None)
    finally:
        resource.prlimit(pid, resource.RLIMIT_MEMLOCK, limits)
    log = virt.log_since(mark)
    refusals = [line for line in log if "RLIMIT_MEMLOCK" in line]
    expect(refusals and reason in refusals[0], f"no reason: {log[:20]}")
    time.sleep(2)  # the driver asks again after one
    domain.compute("--placement sysmem vecadd")
    figure(f"{len(refusals)} of {len(log)} lines in the log")
    guide = _GUIDE.read_text(encoding="utf-8")
    for text in (reason, "RLIMIT_MEMLOCK"):
        expect(text in guide, f"{_GUIDE.name} does not have {text!r}")


def _has_logged(domain, text):
    """Whether the guest's kernel has; its whole log would take half a minute through the port."""
    return domain.guest(f'dmesg | grep -F "{text}"; true') != ""


@test("host")
def vgpu_in_a_port_that_has_no_room_or_in_none_says_why():
    no_room = "BAR 1 [mem size 0x10000000 64bit pref]: can't assign; no space"
    missing = "BAR0 or BAR1 is missing"
    no_port = "No more available PCI slots"
    domain = virt.standing()
    with virt.vgpus(_TYPE, _TYPE) as uuids:
        paths = [virt.hostdev_file(uuid) for uuid in uuids]
        # Its last port was empty when the firmware looked.
        virsh(f"attach-device {domain.name} {paths[0]}")
        wait_for(lambda: _has_logged(domain, missing), virt.GUEST_SECONDS, missing)
        expect(_has_logged(domain, no_room), f"not in the guest's log: {no_room}")
        text = virsh(f"attach-device {domain.name} {paths[1]}", status=None)
        expect(no_port in text, text)
        domain.detach(uuids[0])
        domain.compute()
    guide = _GUIDE.read_text(encoding="utf-8")
    for text in (no_room, missing, no_port):
        expect(text in guide, f"{_GUIDE.name} does not have {text!r}")


@test("host")
def guests_with_two_versions_of_the_driver_compute_at_once():
    usual = virt.standing()
    with virt.vgpus(_TYPE) as (uuid,), Domain([uuid], kernel="-newest") as newest:
        newest.start()
        releases = [domain.guest("uname -r").strip() for domain in (usual, newest)]
        expect(releases[0] != releases[1], f"both have {releases[0]}")
        sums = [domain.guest("sha256sum </modules/ts104.ko") for domain in (usual, newest)]
        expect(sums[0] != sums[1], "both have the same driver")
        for domain in (usual, newest):
            domain.send("ts104-run --iterations 10 --json vecadd")
        for domain in (usual, newest):
            domain.computed()
    figure(f"ts104.ko for {' and '.join(releases)}")


@test("host")
def kernel_of_the_guest_has_not_complained():
    virt.standing().judge_log()


@test("host")
def memory_that_the_gpu_uses_goes_its_pins_with_it_and_its_guest_gets_a_fault():
    domain = virt.standing()
    (uuid,) = domain.uuids
    virsh(f"attach-device {domain.name} {_dimm()}")
    domain.guest(_ONLINE)
    # The kernel takes pages above 4 GiB first, so these are in what was plugged in.
    domain.compute_without_end()
    slots = re.findall(r"<address type='dimm' slot='(\d+)'", domain.live_xml())
    expect(slots, f"no memory was plugged in: {domain.live_xml()}")
    before, mark = vgpu.counters(uuid), virt.mark_log()
    # As a guest's kernel does that lets go of memory which its GPU still uses: port 0xa00 chooses
    # the slot, 8 in port 0xa14 ejects what is in it.
    for slot in slots:
        domain.monitor(f"o /w 0xa00 {slot}")
        domain.monitor("o /b 0xa14 8")
    pinned, left = before["pages_pinned"], vgpu.counters(uuid)["pages_pinned"]

    def faulted():
        lines = [line for line in virt.log_since(mark) if f"{uuid}: channel" in line]
        forwarded = vgpu.counters(uuid)["faults_forwarded"] - before["faults_forwarded"]
        return forwarded > 0 or any("fault of type" in line for line in lines)

    wait_for(faulted, virt.GUEST_SECONDS, "the program has no fault")
    wait_for(lambda: "type='dimm'" not in domain.live_xml(), virt.GUEST_SECONDS, "still there")
    virsh(f"destroy {domain.name}")
    # The guest's kernel has lost memory as well; the host's log is judged when L1 is off.
    domain.discard_log()
    virt.end_standing()
    figure(f"{pinned} pages pinned before, {left} after")
    expect(left < pinned, "no pinned page was in the memory that went")


@test("host")
def start_with_a_vgpu_takes_little_longer_than_without():
    rounds = count(5, 25)
    times = {"with": [], "without": []}
    with virt.vgpus(_TYPE) as (uuid,), Domain([uuid]) as one, Domain([]) as other:
        for _ in range(rounds):
            for kind, domain in (("with", one), ("without", other)):
                times[kind].append(domain.begin())
                virsh(f"destroy {domain.name}")
    with_vgpu, without = (virt.percentile(times[kind], 50) for kind in ("with", "without"))
    ratio = with_vgpu / without
    figure(f"median {with_vgpu:.2f} s with, {without:.2f} s without, ratio {ratio:.2f}")
    expect(ratio <= 1.25, "more than 1.25")


@test("host")
def host_does_not_sleep_while_a_vgpu_exists():
    state = pathlib.Path("/sys/power/state")
    kinds = [kind for kind in ("freeze", "mem") if kind in state.read_text().split()]
    expect(kinds, f"this kernel offers only {state.read_text()}")
    with virt.vgpus(_TYPE):
        for kind in kinds:
            mark = virt.mark_log()
            problem = vgpu.expect_errno("EBUSY", _write, state, kind)
            expect(not problem, f"{kind}: {problem}")
            log = virt.log_since(mark)
            expect(any("while vGPUs exist (" in line for line in log), f"no reason: {log}")
    figure(f"refused: {', '.join(kinds)}")


def _write(path, text):
    with open(path, "wb", buffering=0) as stream:
        stream.write(text.encode())


if __name__ == "__main__":
    main()
