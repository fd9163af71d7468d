# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""turnstile-smi on a real kernel: runs inside L1 (`./lab test operate`).

One vGPU is open in a QEMU that does not run its guest, so its VM has a name; on the other one
ts104-run computes through VFIO.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import termios
import time

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import schema
import vgpu
from tap import expect, expect_equal, figure, main, run, test, wait_for

# A slow SM: kernels take long on the GPU and little of the machine.
GROUPS = [
    {"name": "smi", "device": {"engine_mhz": 10, "sms": 1}},
]

MODULE = "/opt/turnstile/modules/turnstile.ko"
SCHEMA = json.loads(pathlib.Path("/opt/turnstile/share/turnstile/smi.schema.json").read_text())
UUID_VM = "6c1f0d0e-2f5a-4b0e-9a53-1d2f6d1b7a01"
UUID_RUN = "6c1f0d0e-2f5a-4b0e-9a53-1d2f6d1b7a02"
VM_UUID = "11111111-2222-3333-4444-555555555555"
NOBODY = 65534
TRACE = pathlib.Path("/tmp/trace.json")
ENGINES = ("gr", "ce2", "ce3")
FIGURES = ("run_ns", "wait_ns", "longest_wait_ns", "slices", "preemptions", "overshoot_ns")
# Attributes of a vGPU that are members of its JSON under the same name.
SETTINGS = ("function", "weight", "cap_percent", "latency_us")
GROWING = (
    "csr_exits_total", "submissions", "interrupts_injected", "faults_forwarded", "gpu_time_ns",
)  # fmt: skip


def smi(arguments="", status=0, user=0):
    """(standard output, standard error) of turnstile-smi, which must exit with `status`."""
    result = subprocess.run(
        ["turnstile-smi", *arguments.split()], capture_output=True, text=True, user=user,
        extra_groups=[], timeout=300,
    )  # fmt: skip
    if result.returncode != status:
        raise AssertionError(f"{arguments}: {result.returncode}: {result.stdout}{result.stderr}")
    return result.stdout, result.stderr


def document(arguments="", user=0):
    """Its JSON, which fits the schema."""
    found = json.loads(smi(f"--json {arguments}", user=user)[0])
    problems = schema.problems(found, SCHEMA)
    expect(not problems, f"{arguments}: {problems}")
    return found


def only_gpu(found):
    """The one GPU of a document."""
    expect_equal([gpu["pci_bus_id"] for gpu in found["gpus"]], [vgpu.gpu_address()])
    return found["gpus"][0]


def attribute(uuid, name):
    """A number from a vGPU's attributes."""
    return int((vgpu.vgpu_dir(uuid) / name).read_text())


@contextlib.contextmanager
def process(command):
    """A process while the body runs."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


@contextlib.contextmanager
def vm(uuid, name):
    """A QEMU with the vGPU; its guest stands still."""
    device = f"vfio-pci,sysfsdev=/sys/bus/mdev/devices/{uuid}"
    command = [
        "qemu-system-x86_64", "-name", f"guest={name},debug-threads=on", "-uuid", VM_UUID,
        "-machine", "q35", "-accel", "tcg", "-m", "64", "-display", "none", "-nodefaults", "-S",
        "-device", device,
    ]  # fmt: skip
    with process(command) as child:
        group = os.readlink(f"/sys/bus/mdev/devices/{uuid}/iommu_group").rpartition("/")[2]

        def has_it():
            if child.poll() is not None:
                raise AssertionError(f"QEMU ended: {child.stderr.read().decode()}")
            return f"/dev/vfio/{group}" in descriptors(child.pid)

        wait_for(has_it, 60, "QEMU does not open its vGPU")
        yield child


def descriptors(pid):
    """Where the descriptors of a process point."""
    folder = pathlib.Path(f"/proc/{pid}/fd")
    links = []
    for entry in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(entry))
    return links


def computing_on(uuid):
    """A process that always has kernels waiting on the vGPU."""
    return process([
        "ts104-run", "--transport", "vfio", "--device", f"/sys/bus/mdev/devices/{uuid}",
        "--timeout-ms", "600000", "--matrix", "32", "--seconds", "3600", "bench", "gpu",
    ])  # fmt: skip


@contextlib.contextmanager
def two_who_compute():
    """Two v4 that compute, weights 100 and 300."""
    vgpu.set_gpu("policy", "weighted")
    uuids = (UUID_VM, UUID_RUN)
    made = []
    try:
        for uuid in uuids:
            made.append(vgpu.create("turnstile-ts104_v4", uuid))
        vgpu.set_vgpu(UUID_RUN, "weight", 300)
        with computing_on(UUID_VM), computing_on(UUID_RUN):
            wait_for(
                lambda: min(attribute(uuid, "gr_run_ns") for uuid in uuids) > 300_000_000, 120,
                "no computing",
            )  # fmt: skip
            yield uuids
    finally:
        for uuid in made:
            vgpu.remove(uuid)
        vgpu.set_gpu("policy", "best_effort")


@contextlib.contextmanager
def two_vgpus():
    """A v4 in a VM named alpha and a v8 that computes, weights 100 and 300."""
    vgpu.set_gpu("policy", "weighted")
    made = []
    try:
        made.append(vgpu.create("turnstile-ts104_v4", UUID_VM))
        made.append(vgpu.create("turnstile-ts104_v8", UUID_RUN))
        vgpu.set_vgpu(UUID_RUN, "weight", 300)
        with vm(UUID_VM, "alpha") as guest, computing_on(UUID_RUN) as computing:
            wait_for(lambda: attribute(UUID_RUN, "gr_run_ns") > 500_000_000, 120, "no computing")
            yield guest.pid, computing.pid
    finally:
        for uuid in made:
            vgpu.remove(uuid)
        vgpu.set_gpu("policy", "best_effort")


def row(text, uuid):
    """The cells of a table's line that begins with the UUID; two blanks part them."""
    line = next(line for line in text.splitlines() if line.strip().startswith(uuid))
    return re.split(r"  +", line.strip())


@test("smi", kernels=("6.12",))
def table_shows_type_vm_share_vram_and_state():
    with two_vgpus():
        text, errors = smi("--sample 1000")
        print(text, file=sys.stderr)
        expect_equal(errors, "")
        head = rf"GPU {vgpu.gpu_address()}  policy weighted  VRAM 384 MiB of 1024 MiB given out  2 vGPUs"
        expect(re.match(head, text), text)
        cells = row(text, UUID_VM)
        expect_equal(cells[:5], [UUID_VM, "ts104_v4", "alpha", "256 MiB", "-"])
        expect_equal(cells[5:], ["0.0 %", "0.0 %", "open"])
        cells = row(text, UUID_RUN)
        expect_equal(cells[:5], [UUID_RUN, "ts104_v8", "(ts104-run)", "128 MiB", "100.0 %"])
        expect_equal([cells[5], cells[7]], ["100.0 %", "active"])
        expect(0 < float(cells[6].removesuffix(" %")) <= 100, text)


@test("smi", kernels=("6.12",))
def json_is_what_sysfs_and_debugfs_say():
    with two_vgpus() as (qemu, computing):
        names = [*GROWING, *(f"{engine}_{name}" for engine in ENGINES for name in FIGURES)]
        uuids = (UUID_VM, UUID_RUN)
        first = {(u, n): attribute(u, n) for u in uuids for n in names}
        counters = {u: vgpu.counters(u) for u in uuids}
        gpu = only_gpu(document())
        last = {(u, n): attribute(u, n) for u in uuids for n in names}
        expect_equal(gpu["policy"], "weighted")
        expect_equal(gpu["vram_bytes"], 1 << 30)
        for name, value in gpu["scheduler"].items():
            expect_equal((name, value), (name, int((vgpu.gpu_dir() / name).read_text())))
        shown = {one["mdev_uuid"]: one for one in gpu["vgpus"]}
        expect_equal(sorted(shown), sorted(uuids))
        for uuid, one in shown.items():
            for name in SETTINGS:
                expect_equal((name, one[name]), (name, attribute(uuid, name)))
            flat = {f"{e}_{n}": one["engines"][e][n] for e in ENGINES for n in FIGURES} | one
            for name in names:
                low, value, high = first[uuid, name], flat[name], last[uuid, name]
                expect(low <= value <= high, f"{uuid} {name}: {low} <= {value} <= {high}")
            expect_equal(sorted(one["counters"]), sorted(counters[uuid]))
            expect(one["counters"]["csr_writes"] >= counters[uuid]["csr_writes"], "csr_writes")
        user = {"pid": qemu, "command": "qemu-system-x86_64", "vm_name": "alpha", "vm_uuid": VM_UUID}
        expect_equal(shown[UUID_VM]["user"], user)
        expect_equal(shown[UUID_RUN]["user"]["pid"], computing)
        expect_equal(shown[UUID_RUN]["user"]["vm_name"], None)
        for one in gpu["types"]:
            expect_equal(one["available_instances"], vgpu.available(one["mdev_type"]))


@test("smi", kernels=("6.12",))
def every_document_fits_the_schema_and_a_wrong_one_does_not():
    with two_vgpus():
        for arguments in ("", "-q", "-s", "-c", "-u -n 1 -l 0.2", "--sample 200", "sched show"):
            document(arguments)
        for uuid in (UUID_VM, UUID_RUN):
            only = only_gpu(document(f"-i {uuid}"))
            expect_equal([one["mdev_uuid"] for one in only["vgpus"]], [uuid])
        wrong = document()
        del wrong["gpus"][0]["vgpus"][0]["weight"]
        expect(schema.problems(wrong, SCHEMA), "a document without a weight fits")


@test("smi", kernels=("6.12",))
def utilisation_is_that_of_who_computes():
    with two_vgpus():
        lines = smi("--json -u -n 3 -l 1")[0].splitlines()
        expect_equal(len(lines), 3)
        for line in lines:
            shown = {one["mdev_uuid"]: one for one in json.loads(line)["gpus"][0]["vgpus"]}
            expect_equal(shown[UUID_VM]["utilisation"]["gr"], 0)
            expect(shown[UUID_RUN]["utilisation"]["gr"] > 0, line)
            expect_equal(shown[UUID_RUN]["share_measured"], 1)
        figure(f"gr {shown[UUID_RUN]['utilisation']['gr']:.0%}")


@test("smi", kernels=("6.12",))
def settings_are_set_and_refusals_say_what_is_legal():
    with two_vgpus():
        expect_equal(smi(f"sched set -i {UUID_RUN} weight=200")[0], "weight: 300 -> 200\n")
        expect_equal(attribute(UUID_RUN, "weight"), 200)
        text = smi("sched set policy=latency hold_us=300")[0]
        expect_equal(text, "policy: weighted -> latency\nhold_us: 150 -> 300\n")
        expect_equal(vgpu.policy(), "latency")
        vgpu.set_gpu("hold_us", 150)
        error = smi(f"sched set -i {UUID_RUN} weight=10001", status=1)[1]
        expect_equal(
            error,
            f"turnstile-smi: vGPU {UUID_RUN}: weight=10001 was refused: not legal: 1 to 10000\n",
        )
        error = smi("sched set policy=lottery", status=1)[1]
        expect("best_effort, equal_share, fixed_share, weighted or latency\n" in error, error)
        error = smi(f"sched set -i {UUID_RUN} weight=7", status=1, user=NOBODY)[1]
        expect("weight=7 was refused: only root may change it\n" in error, error)
        expect_equal(attribute(UUID_RUN, "weight"), 200)


@test("smi", kernels=("6.12",))
def without_root_it_says_what_it_cannot_show():
    with two_vgpus():
        found = document(user=NOBODY)
        expect_equal(len(found["notes"]), 2)
        shown = {one["mdev_uuid"]: one for one in found["gpus"][0]["vgpus"]}
        for one in shown.values():
            expect_equal((one["state"], one["user"], one["counters"]), ("unknown", None, None))
        expect(shown[UUID_RUN]["engines"]["gr"]["run_ns"] > 0, "no account")
        text = smi(user=NOBODY)[0]
        expect_equal(text.count("not shown: "), 3)  # and utilisation: it was one reading


@test("smi", kernels=("6.12",))
def metrics_are_openmetrics_with_the_drivers_figures():
    with two_vgpus():
        before = attribute(UUID_RUN, "gr_run_ns")
        samples = open_metrics(smi("metrics")[0])
        after = attribute(UUID_RUN, "gr_run_ns")
        labels = (
            f'pci_bus_id="{vgpu.gpu_address()}",mdev_uuid="{{}}",mdev_type="{{}}",vm_name="{{}}"'
        )
        own = labels.format(UUID_RUN, "turnstile-ts104_v8", "") + ',engine="gr"'
        ran = float(samples[f"turnstile_vgpu_engine_run_seconds_total{{{own}}}"])
        expect(before * 1e-9 <= ran <= after * 1e-9, f"{before} {ran} {after}")
        guest = labels.format(UUID_VM, "turnstile-ts104_v4", "alpha")
        expect_equal(samples[f"turnstile_vgpu_open{{{guest}}}"], "1")
        expect_equal(samples[f"turnstile_vgpu_vram_bytes{{{guest}}}"], str(256 << 20))


def open_metrics(text):
    """{series: value} of OpenMetrics text: families in one piece, no series twice, an end."""
    lines = text.splitlines()
    expect_equal(lines[-1], "# EOF")
    family, kind, seen, samples = "", "", set(), {}
    suffixes = {"counter": "_total", "info": "_info", "gauge": ""}
    for line in lines[:-1]:
        if line.startswith("# TYPE "):
            family, kind = line.split()[2:]
            expect(family not in seen, f"{family} comes twice")
            seen.add(family)
        elif line.startswith("# "):
            expect_equal(line.split()[2], family)
        else:
            match = re.fullmatch(r'((\w+)\{(?:\w+="(?:[^"\\\n]|\\.)*",?)*\}) (\S+)', line)
            expect(match, line)
            expect_equal(match[2], family + suffixes[kind])
            expect(match[1] not in samples, f"twice: {line}")
            float(match[3])
            samples[match[1]] = match[3]
    return samples


@test("smi", kernels=("6.12",))
def trace_has_turns_that_never_overlap_and_add_up_to_the_account():
    with two_who_compute() as uuids:
        before = {uuid: attribute(uuid, "gr_run_ns") for uuid in uuids}
        text = smi(f"trace --seconds 2 -o {TRACE}")[0]
        after = {uuid: attribute(uuid, "gr_run_ns") for uuid in uuids}
        expect(re.match(rf"{TRACE}: \d+ turns in \d+ lanes; open it in ", text), text)
        trace = json.loads(TRACE.read_text())
        TRACE.unlink()
        expect_equal(trace["otherData"]["lost_events"], 0)
        lanes = lanes_of(trace["traceEvents"])
        engine = lanes[f"GPU {vgpu.gpu_address()}", "gr"]
        check_no_overlap(engine)
        total = {}
        for uuid in uuids:
            turns = [e["args"] for e in engine if e["ph"] == "X" and e["args"]["vgpu"] == uuid]
            expect(len(turns) > 2, f"{uuid} had {len(turns)} turns")
            first, last = turns[0], turns[-1]
            ran = sum(turn["run_ns"] for turn in turns[1:])
            late = last["overshoot_ns"] - first["overshoot_ns"]
            expect_equal(ran + late, last["total_run_ns"] - first["total_run_ns"])
            expect(before[uuid] <= last["total_run_ns"] <= after[uuid], f"not the account of {uuid}")
            own = lanes[f"vGPU {uuid}", "gr"]
            check_no_overlap(own)
            expect_equal({event["name"] for event in own}, {"runs", "waits"})
            expect_equal(sum(event["name"] == "runs" for event in own), len(turns))
            for lane in ("interrupts", "exits"):
                expect(lanes.get((f"vGPU {uuid}", lane)), f"{uuid} has no {lane}")
            total[uuid] = ran
        expect_equal(os.listdir("/sys/kernel/tracing/instances"), [])
        count = sum(event["ph"] == "X" for event in engine)
        figure(f"{count} turns, shares 1 : {total[UUID_RUN] / total[UUID_VM]:.2f} (ordered 3)")


def lanes_of(events):
    """{(process, thread): events in order of time} of a trace."""
    names = {}
    for event in events:
        if event["ph"] == "M" and event["name"] == "process_name":
            names[event["pid"], 0] = event["args"]["name"]
        if event["ph"] == "M" and event["name"] == "thread_name":
            names[event["pid"], event["tid"]] = event["args"]["name"]
    lanes = {}
    for event in sorted((e for e in events if e["ph"] != "M"), key=lambda e: e["ts"]):
        key = names[event["pid"], 0], names[event["pid"], event["tid"]]
        lanes.setdefault(key, []).append(event)
    return lanes


def check_no_overlap(lane):
    """Its spans follow one another."""
    end = 0
    for event in lane:
        if event["ph"] == "X":
            expect(event["ts"] >= end, f"begins before {end}: {event}")
            end = event["ts"] + event["dur"]


@test("smi", kernels=("6.12",))
def trace_that_is_interrupted_is_written_and_takes_its_instance_away():
    instances = pathlib.Path("/sys/kernel/tracing/instances")
    with two_vgpus():
        command = ["turnstile-smi", "trace", "--seconds", "600", "-o", str(TRACE)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            wait_for(lambda: os.listdir(instances), 60, "no trace instance")
            (folder,) = instances.iterdir()
            wait_for(
                lambda: (folder / "events/turnstile/enable").read_text() == "1\n", 60, "no events"
            )
            time.sleep(1)
            child.send_signal(signal.SIGINT)
            expect_equal(child.wait(120), 0)
        expect(json.loads(TRACE.read_text())["traceEvents"], "an empty trace")
        TRACE.unlink()
        expect_equal(os.listdir(instances), [])
        expect_equal(
            smi("trace --seconds 1 -o /dev/null", status=1, user=NOBODY)[1],
            "turnstile-smi: only root may trace\n",
        )


@test("smi", kernels=("6.12",))
def log_of_turns_is_that_of_debugfs():
    with two_who_compute() as uuids:
        text = smi("sched log")[0]
        for uuid in uuids:
            expect(f"  gr      {uuid}  (ts104-run)  " in text, text)
        slices = only_gpu(document("sched log"))["slices"]
        expect(len(slices) > 2, f"{len(slices)} turns")
        expect_equal({one["mdev_uuid"] for one in slices} - {None}, set(uuids))
        for before, one in zip(slices, slices[1:]):
            if before["engine"] == one["engine"]:
                expect(one["start_ns"] >= before["end_ns"], f"{one} overlaps {before}")
        expect("only root may look at it" in smi("sched log", user=NOBODY)[0], "no note")


@test("smi", kernels=("6.12",))
def orphans_are_the_vgpus_that_nobody_has_open():
    with two_vgpus():
        expect_equal(document("orphans")["orphans"], [])
        uuid = vgpu.create("turnstile-ts104_v16")
        try:
            (orphan,) = document("orphans")["orphans"]
            expect_equal((orphan["mdev_uuid"], orphan["start"]), (uuid, None))
            cells = row(smi("orphans")[0], uuid)
            expect_equal(cells, [uuid, vgpu.gpu_address(), "ts104_v16", "64 MiB", "-"])
            expect_equal(document("orphans", user=NOBODY)["orphans"], [])
        finally:
            vgpu.remove(uuid)


def findings(status):
    """{what: [(verdict, text, mend)]} of the doctor."""
    found = json.loads(smi("--json doctor", status=status)[0])
    expect_equal(schema.problems(found, SCHEMA), [])
    result = {}
    for one in found["findings"]:
        result.setdefault(one["what"], []).append((one["verdict"], one["text"], one["mend"]))
    return result


@test("smi", kernels=("6.12",))
def doctor_names_what_is_wrong_and_its_command_mends_it():
    address = vgpu.gpu_address()
    with two_vgpus():
        well = findings(0)
        for what in ("kernel", "module", "GPU", "types", "VFIO"):
            expect_equal([verdict for verdict, _, _ in well[what]], ["ok"])
        expect_equal(len(well["memlock"]), 2)
    pathlib.Path("/sys/bus/pci/drivers/turnstile/unbind").write_text(address)
    ((verdict, text, mend),) = findings(1)["GPU"]
    expect_equal((verdict, text), ("wrong", f"{address} is bound to no driver"))
    run(mend)
    expect_equal(findings(0)["GPU"], [("ok", f"{address}, policy best_effort", None)])


@test("smi", kernels=("6.12",))
def top_draws_bars_and_who_was_on_the_gpu_and_ends_with_q():
    with two_who_compute():
        text = smi("top -n 1 -l 1.5")[0]
        print(text, file=sys.stderr)
        strip = next(line for line in text.splitlines() if line.startswith("-1 s ["))
        expect("A" in strip and "B" in strip, strip)
        for letter in "AB":
            line = next(line for line in text.splitlines() if line.startswith(f"{letter} (ts104-run)"))
            expect("#" in line and "|" in line, line)
        screen = on_a_terminal(["turnstile-smi", "top", "-l", "0.5"], rows=12, columns=90)
        expect(screen.startswith("\033[?1049h"), "it does not take the screen")
        expect(screen.endswith("\033[?25h\033[?1049l"), "it does not give the screen back")
        expect("q quit  sort: " in screen and "ts104_v4" in screen, screen)


def on_a_terminal(command, rows, columns):
    """What a program writes to a terminal of that size until it shows both vGPUs and gets a 'q'."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    child = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, start_new_session=True)
    os.close(its)
    screen, asked, end = b"", False, time.monotonic() + 120
    while time.monotonic() < end:
        if select.select([ours], [], [], 1)[0]:
            try:
                screen += os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
        if not asked and screen.count(b"ts104_v4") >= 4:
            os.write(ours, b"q")
            asked = True
    expect_equal(child.wait(60), 0)
    os.close(ours)
    return screen.decode()


@test("smi", kernels=("6.12",))
def sixteen_vgpus_in_one_call():
    made = []
    try:
        for _ in range(16):
            made.append(vgpu.create("turnstile-ts104_v16"))
        expect_equal(len(only_gpu(document())["vgpus"]), 16)
        expect_equal(smi("-c")[0].splitlines()[1], "  no vGPU can be made now")
        times = []
        for _ in range(20):
            begin = time.monotonic()
            smi()
            times.append((time.monotonic() - begin) * 1000)
        begin = time.monotonic()
        smi("--help")
        nothing = (time.monotonic() - begin) * 1000
        figure(
            f"a call with 16 vGPUs: median {statistics.median(times):.1f} ms, "
            f"--help {nothing:.1f} ms"
        )
    finally:
        for uuid in made:
            vgpu.remove(uuid)


@test("smi", kernels=("6.12",))
def what_is_not_there_has_its_own_exit_status():
    error = smi("-i 0000:77:00.0", status=5)[1]
    expect_equal(
        error, "turnstile-smi: 0000:77:00.0: no GPU has this PCI address and no vGPU this UUID\n"
    )
    smi("--colour", status=2)
    address = vgpu.gpu_address()
    driver = pathlib.Path("/sys/bus/pci/drivers/turnstile")
    (driver / "unbind").write_text(address)
    try:
        error = smi(status=4)[1]
        expect_equal(error, "turnstile-smi: the driver turnstile has no GPU\n")
        run("rmmod turnstile")
        error = smi(status=3)[1]
        expect_equal(error, "turnstile-smi: the driver is not loaded: modprobe turnstile\n")
    finally:
        run(f"rmmod turnstile; insmod {MODULE}")


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C.UTF-8")
    main()
