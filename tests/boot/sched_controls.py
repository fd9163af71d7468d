# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The scheduler's controls, accounts and traces on a real kernel, with VFIO users for guests."""

import contextlib
import pathlib
import re
import subprocess
import time

import vfio
import vgpu
from tap import Failure, expect, expect_equal, run, test, wait_for

MODULE = "/opt/turnstile/modules/turnstile.ko"
TRACING = pathlib.Path("/sys/kernel/tracing")

# name: (default, legal values, values out of range, the legal range in the kernel's line)
GPU_NUMBERS = {
    "arr": (1, (0, 1), (2,), "0 to 1"),
    "frequency_hz": (0, (63, 960, 0), (62, 961), "63 to 960, or 0"),
    "averaging_factor": (33, (1, 60), (0, 61), "1 to 60"),
    "timeslice_us": (0, (1000, 30000, 0), (999, 30001), "1000 to 30000, or 0"),
    "hold_us": (150, (0, 1, 10000), (10001,), "1 to 10000, or 0"),
    "ctxsw_timeout_ms": (500, (1, 10000), (0, 10001), "1 to 10000"),
    "strict": (0, (0, 1), (2,), "0 to 1"),
}
VGPU_NUMBERS = {
    "weight": (100, (1, 10000), (0, 10001), "1 to 10000"),
    "cap_percent": (100, (1, 100), (0, 101), "1 to 100"),
    "latency_us": (0, (200, 1000000, 0), (199, 1000001), "200 to 1000000, or 0"),
}
POLICIES = ("best_effort", "equal_share", "fixed_share", "weighted", "latency")


@contextlib.contextmanager
def vgpus(count, type_id="turnstile-ts104_v4"):
    """`count` vGPUs, gone afterwards; the GPU's policy is the default one then."""
    uuids = []
    try:
        for _ in range(count):
            uuids.append(vgpu.create(type_id))
        yield uuids
    finally:
        vgpu.set_gpu("policy", "best_effort")
        for uuid in uuids:
            vgpu.remove(uuid)


@contextlib.contextmanager
def saturating(*uuids):
    """A process on each vGPU that always has kernels waiting; they run when the body begins."""
    processes = []
    try:
        for uuid in uuids:
            device = f"/sys/bus/mdev/devices/{uuid}"
            command = f"exec ts104-run --transport vfio --device {device} --timeout-ms 600000"
            processes.append(
                subprocess.Popen(
                    f"{command} --matrix 32 --seconds 3600 bench gpu",
                    shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )  # fmt: skip
            )
        wait_for(
            lambda: all(account(uuid, "gr_run_ns") > 500_000_000 for uuid in uuids), 120,
            "the processes do not compute",
        )  # fmt: skip
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def account(uuid, name):
    """A number from a vGPU's attributes."""
    return int((vgpu.vgpu_dir(uuid) / name).read_text())


def function(uuid):
    """The vGPU's number on the GPU."""
    return account(uuid, "function")


def slices(runlist=0):
    """The last slices of a runlist as debugfs has them, oldest first."""
    path = pathlib.Path("/sys/kernel/debug/turnstile") / vgpu.gpu_address() / "slices"
    lines = [fields(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["runlist"] == runlist]


def fields(line):
    """name=value words of a line; decimal values as numbers."""
    pairs = re.findall(r"(\w+)=(\S+)", line)
    return {name: int(text) if text.isdecimal() else text for name, text in pairs}


def grown(uuids, seconds):
    """GPU time of each vGPU in the next `seconds`."""
    before = [account(uuid, "gr_run_ns") for uuid in uuids]
    time.sleep(seconds)
    return [account(uuid, "gr_run_ns") - first for uuid, first in zip(uuids, before)]


# Values.


def check_numbers(numbers, directory, write):
    """Defaults, legal values, and what is refused, with the line that has the legal range."""
    for name, (default, legal, wrong, text) in numbers.items():
        path = directory / name
        expect_equal((name, path.read_text()), (name, f"{default}\n"))
        for value in legal:
            write(name, value)
            expect_equal((name, path.read_text()), (name, f"{value}\n"))
        for value in wrong:
            subprocess.run(["dmesg", "--clear"], check=True)
            problem = vgpu.expect_errno("EINVAL", write, name, value)
            expect(not problem, f"{name} {value}: {problem}")
            log = run("dmesg")
            expect(f"{name} {value} is out of range: {text}\n" in log, f"{name} {value}: {log}")
            expect_equal((name, path.read_text()), (name, f"{legal[-1]}\n"))
        problem = vgpu.expect_errno("EINVAL", write, name, "many")
        expect(not problem, f"{name} many: {problem}")
        write(name, default)


@test("sched")
def every_number_of_the_gpu_has_its_default_and_range():
    check_numbers(GPU_NUMBERS, vgpu.gpu_dir(), vgpu.set_gpu)


@test("sched")
def every_number_of_a_vgpu_has_its_default_and_range():
    with vgpus(1) as (uuid,):
        check_numbers(
            VGPU_NUMBERS,
            vgpu.vgpu_dir(uuid),
            lambda name, value: vgpu.set_vgpu(uuid, name, value),
        )
        vgpu.set_vgpu(uuid, "weight", 7)
    # A number lasts as long as the vGPU.
    with vgpus(1) as (uuid,):
        expect_equal(account(uuid, "weight"), 100)


@test("sched")
def every_policy_can_be_chosen_and_another_is_named_in_the_log():
    for name in POLICIES:
        vgpu.set_gpu("policy", name)
        expect_equal(vgpu.policy(), name)
    problem = vgpu.expect_errno("EINVAL", vgpu.set_gpu, "policy", "lottery")
    expect(not problem, problem)
    expect(f"legal: {', '.join(POLICIES)}\n" in run("dmesg"), "the log names no legal policy")
    expect_equal(vgpu.policy(), POLICIES[-1])
    vgpu.set_gpu("policy", "best_effort")


@test("sched")
def module_parameters_set_policy_and_batch():
    run("rmmod turnstile")
    try:
        run(f"insmod {MODULE} policy=weighted pin_batch=64")
        expect_equal(vgpu.policy(), "weighted")
        batch = pathlib.Path("/sys/kernel/debug/turnstile") / vgpu.gpu_address() / "pin_batch"
        expect_equal(batch.read_text(), "64\n")
        run("rmmod turnstile")
        text = run(f"insmod {MODULE} pin_batch=513", status=None)
        expect("Invalid" in text, text)
        expect("pin_batch=513; legal: 1 to 512\n" in run("dmesg"), "the log has no range")
    finally:
        run(f"rmmod turnstile; insmod {MODULE}")
    expect_equal(vgpu.policy(), "best_effort")


# Effects, while users compute.


@test("sched")
def a_new_policy_counts_from_the_next_rotation_on():
    with vgpus(2) as uuids, saturating(*uuids):
        numbers = {function(uuid) for uuid in uuids}
        for name in ("weighted", "equal_share", "latency"):
            begin = time.monotonic_ns()
            vgpu.set_gpu("policy", name)
            # Time that a late model stands still is nobody's, so on a busy machine one user may
            # have several turns in a row; how soon it is the other's turn is for the rig.
            wait_for(
                lambda: {s["function"] for s in slices() if s["start_ns"] >= begin} >= numbers,
                30,
                f"{name}: no slices of both",
            )
        vgpu.set_gpu("policy", "best_effort")
        count = [account(uuid, "gr_slices") for uuid in uuids]
        expect(min(grown(uuids, 1)) > 0, "a vGPU does not run")
        expect_equal([account(uuid, "gr_slices") for uuid in uuids], count)


@test("sched")
def a_new_slice_counts_from_the_next_slice_on():
    with vgpus(2) as uuids, saturating(*uuids):
        vgpu.set_gpu("policy", "weighted")
        for us in (30000, 5000):
            vgpu.set_gpu("timeslice_us", us)
            done = time.monotonic_ns()
            wait_for(
                lambda: len([s for s in slices() if s["start_ns"] >= done]) >= 4, 30, "no slices"
            )
            targets = {s["target_ns"] for s in slices() if s["start_ns"] >= done}
            expect_equal(targets, {us * 1000})
        vgpu.set_gpu("timeslice_us", 0)


# How exact shares are is for the rig and the guests of the sched suite; here, that a weight counts.
@test("sched")
def a_new_weight_and_a_cap_count_while_users_compute():
    with vgpus(2) as uuids, saturating(*uuids):
        vgpu.set_gpu("policy", "weighted")
        one, two = grown(uuids, 3)
        expect(0.7 < one / two < 1.4, f"equal weights: {one} and {two}")
        vgpu.set_vgpu(uuids[0], "weight", 300)
        one, two = grown(uuids, 4)
        expect(2.1 < one / two < 4.2, f"weights 3:1: {one} and {two}")
        vgpu.set_vgpu(uuids[0], "cap_percent", 20)
        begin = time.monotonic_ns()
        one, two = grown(uuids, 4)
        elapsed = time.monotonic_ns() - begin
        expect(0 < one <= 0.21 * elapsed, f"a cap of 20 %: {one} of {elapsed}")
        expect(two > one, f"the rest is not used: {one} and {two}")


@test("sched")
def accounts_are_monotonic_and_outlive_their_user():
    names = ("run_ns", "wait_ns", "longest_wait_ns", "slices", "preemptions", "overshoot_ns")
    with vgpus(2) as uuids:
        files = [f"{engine}_{name}" for engine in ("gr", "ce2", "ce3") for name in names]
        expect_equal({account(uuids[0], name) for name in files}, {0})
        vgpu.set_gpu("policy", "equal_share")
        with saturating(*uuids):
            first = [account(uuids[0], name) for name in files]
            time.sleep(1)
            second = [account(uuids[0], name) for name in files]
        third = [account(uuids[0], name) for name in files]
        for name, a, b, c in zip(files, first, second, third):
            expect(a <= b <= c, f"{name} goes back: {a}, {b}, {c}")
        for name in ("gr_run_ns", "gr_wait_ns", "gr_longest_wait_ns", "gr_slices", "gr_preemptions"):
            expect(account(uuids[0], name) > 0, f"{name} is 0")
        expect_equal(account(uuids[0], "ce3_run_ns"), 0)


# Traces.


@contextlib.contextmanager
def traced():
    """Records all events of the driver; gives a function that returns them as [(name, fields)]."""
    (TRACING / "trace").write_text("")
    (TRACING / "buffer_size_kb").write_text("16384")
    enable = TRACING / "events/turnstile/enable"

    def events():
        enable.write_text("0")
        for path in (TRACING / "per_cpu").glob("cpu*/stats"):
            expect("\noverrun: 0\n" in path.read_text(), f"events are lost: {path.read_text()}")
        found = re.findall(r": turnstile_(\w+): (.*)", (TRACING / "trace").read_text())
        return [(name, fields(text)) for name, text in found]

    enable.write_text("1")
    try:
        yield events
    finally:
        enable.write_text("0")
        (TRACING / "trace").write_text("")


def check_slices(found):
    """Slices of one runlist, in order: none overlaps, and each account adds up."""
    end, last = 0, {}
    for line in found:
        expect(line["start_ns"] >= end, f"begins before {end}: {line}")
        end = line["time_ns"]
        expect(end >= line["start_ns"], f"ends before it begins: {line}")
        number = line["function"]
        if number == 0:
            continue
        before = last.get(number, {"total_run_ns": 0, "overshoot_ns": 0})
        late = line["overshoot_ns"] - before["overshoot_ns"]
        if line["total_run_ns"] - before["total_run_ns"] != line["run_ns"] + late:
            raise Failure(f"does not add up: {line} after {before}")
        last[number] = line
    return last


@test("sched")
def traced_slices_never_overlap_and_add_up_to_the_account():
    with vgpus(2) as uuids, traced() as events:
        vgpu.set_gpu("policy", "weighted")
        with saturating(*uuids):
            time.sleep(2)
        found = [line for name, line in events() if name == "slice" and line["runlist"] == 0]
        last = check_slices(found)
        for uuid in uuids:
            line = last[function(uuid)]
            expect_equal(line["vgpu"], uuid)
            expect_equal(line["preemptions"], account(uuid, "gr_preemptions"))
            own = [other for other in found if other["vgpu"] == uuid]
            total = sum(other["run_ns"] for other in own) + line["overshoot_ns"]
            expect_equal(total, line["total_run_ns"])
            # A context may run on until it has left, after its last slice.
            for name, value in (("run", line["total_run_ns"]), ("overshoot", line["overshoot_ns"])):
                left = account(uuid, f"gr_{name}_ns") - value
                expect(0 <= left <= 1_000_000_000, f"{name} of {left} ns of {uuid} is in no slice")
        # The same from debugfs: the last 200.
        kept = slices()
        expect(len(kept) == 200 or len(kept) == len(found) < 200, f"{len(kept)} are kept")
        for old, line in zip(kept, found[-len(kept) :]):
            expect_equal(old, {name: line[name] for name in old})


@test("sched")
def every_event_of_a_life_is_traced():
    with traced() as events:
        with vgpus(1) as (uuid,):
            device = f"/sys/bus/mdev/devices/{uuid}"
            command = f"ts104-run --transport vfio --device {device}"
            vgpu.set_gpu("policy", "weighted")
            run(f"{command} --placement sysmem --iterations 20 vecadd")
            run(f"{command} --address 0x123456000 fault-store", status=3)
            with vfio.Device(uuid) as opened:
                opened.reset()
        found = events()
    own = [(name, line) for name, line in found if line["vgpu"] == uuid]
    names = [name for name, _ in own]
    for name in (
        "csr_access", "runlist_submit", "irq_inject", "pin", "unpin", "shadow_update",
        "fault", "switch", "slice", "wake", "vgpu_reset",
    ):  # fmt: skip
        expect(name in names, f"no event {name} in {sorted(set(names))}")
    expect_equal([names[0], names[-1]], ["vgpu_create", "vgpu_destroy"])
    expect_equal(names.count("vgpu_open"), names.count("vgpu_close"))
    expect_equal(names.count("vgpu_open"), 3)
    expect_equal(own[0][1]["error"], 0)
    fault = next(line for name, line in own if name == "fault")
    expect_equal(fault["address"], "0x123456000")


if TRACING.is_dir() and not (TRACING / "events").is_dir():
    run(f"mount -t tracefs tracefs {TRACING}")
