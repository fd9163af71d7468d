# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What the types offer is the truth: filling, racing, churning. Runs inside the full L1.

Without libvirtd, which runs mdevctl twice for every event and waits a second for each vGPU that is
gone by then: after a churn of thousands it would be busy for hours.
"""

import contextlib
import errno
import json
import multiprocessing
import pathlib
import random
import sys
import time
import uuid as uuid_module

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import vgpu
import virt
from tap import count, expect, expect_equal, figure, main, on_debug_kernel, patience, run, test

_UDEV = "systemd-udevd-kernel.socket systemd-udevd-control.socket systemd-udevd.service"
_SIZES = {type_id: 16 // int(type_id.rsplit("_v")[-1]) for type_id in virt.TYPES}
_WORKERS = 8


def _create_or_errno(type_id, uuid):
    """Makes a vGPU; returns 0 or the errno."""
    try:
        vgpu.create(type_id, uuid)
    except OSError as error:
        return error.errno
    return 0


def _expect_truth(used):
    """With `used` sixteenths in use in whatever places, no type may promise more than is there."""
    free = 16 - used
    for type_id, available in virt.offered().items():
        expect(
            available * _SIZES[type_id] <= free,
            f"{type_id} offers {available} with {free}/16 free",
        )


@contextlib.contextmanager
def _no_udev():
    """While the block runs nobody listens to the kernel's events.

    udev has the one CPU that L1 has for longer than the driver, and a queue of events of thousands
    of vGPUs would keep it busy for minutes afterwards.
    """
    run("udevadm settle --timeout 600", timeout=700)
    run(f"systemctl stop {_UDEV}")
    try:
        yield
    finally:
        # Several starts in ten seconds are no fault.
        run(f"systemctl reset-failed systemd-udevd.service; systemctl start {_UDEV}")


@test("host")
def libvirtd_stops():
    run("systemctl stop libvirtd.socket libvirtd-ro.socket libvirtd-admin.socket libvirtd")


@test("host")
def c03_sum_of_made_and_available_is_constant_and_the_last_create_is_enospc():
    mark = virt.mark_log()
    creates = 0
    for type_id in virt.TYPES:
        total = virt.EMPTY[type_id]
        with virt.vgpus() as made:
            for number in range(total):
                expect_equal(vgpu.available(type_id), total - number)
                made.append(vgpu.create(type_id))
                creates += 1
                used = (number + 1) * _SIZES[type_id]
                for other, available in virt.offered().items():
                    expect_equal(available, (16 - used) // _SIZES[other])
            expect_equal(
                _create_or_errno(type_id, str(uuid_module.uuid4())), errno.ENOSPC
            )
        expect_equal(virt.offered(), virt.EMPTY)
    reasons = [
        line
        for line in virt.log_since(mark)
        if "turnstile" in line and "free" in line
    ]
    expect(len(reasons) >= len(virt.TYPES), f"no reasons in the log: {reasons}")
    figure(f"{creates} creates")


@test("host")
def mixed_types_never_offer_what_cannot_be_made():
    generator = random.Random(104)
    steps = count(200, 2000)
    made = {}
    with virt.nothing_left(libvirt=False), _no_udev():
        try:
            for _ in range(steps):
                if made and generator.random() < 0.45:
                    uuid = generator.choice(sorted(made))
                    vgpu.remove(uuid)
                    del made[uuid]
                else:
                    type_id = generator.choice(virt.TYPES)
                    uuid = str(uuid_module.UUID(int=generator.getrandbits(128)))
                    promised = vgpu.available(type_id)
                    result = _create_or_errno(type_id, uuid)
                    expect_equal(result, 0 if promised else errno.ENOSPC)
                    if promised:
                        made[uuid] = type_id
                _expect_truth(sum(_SIZES[type_id] for type_id in made.values()))
        finally:
            for uuid in made:
                vgpu.remove(uuid)
    figure(f"{steps} steps")


def _work(seed, rounds, results):
    """Creates and removes at random; puts (creates, wrong answers) into `results`."""
    generator = random.Random(seed)
    made, creates, wrong = [], 0, []
    for _ in range(rounds):
        if made and generator.random() < 0.5:
            vgpu.remove(made.pop(generator.randrange(len(made))))
            continue
        uuid = str(uuid_module.UUID(int=generator.getrandbits(128)))
        result = _create_or_errno(generator.choice(virt.TYPES), uuid)
        if result == 0:
            made.append(uuid)
            creates += 1
        elif result != errno.ENOSPC:
            wrong.append(errno.errorcode.get(result, result))
        for type_id, available in virt.offered().items():
            if not 0 <= available <= virt.EMPTY[type_id]:
                wrong.append(f"{type_id} offers {available}")
    for uuid in made:
        vgpu.remove(uuid)
    results.put((creates, wrong))


@test("host")
def eight_processes_at_once_get_only_what_is_there():
    rounds = count(30, 600)
    with virt.nothing_left(libvirt=False), _no_udev():
        results = multiprocessing.Queue()
        workers = [
            multiprocessing.Process(target=_work, args=(seed, rounds, results))
            for seed in range(_WORKERS)
        ]
        for worker in workers:
            worker.start()
        answers = [results.get(timeout=900) for _ in workers]
        for worker in workers:
            worker.join()
        expect_equal([wrong for _, wrong in answers if wrong], [])
    creates = sum(creates for creates, _ in answers)
    expect(creates > 0, "nothing was made")
    figure(f"{_WORKERS} processes, {creates} creates")


def _grab(type_id, start, results):
    start.wait()
    uuid = str(uuid_module.uuid4())
    results.put((_create_or_errno(type_id, uuid), uuid))


@test("host")
def more_processes_than_instances_share_them_out_exactly():
    type_id = "turnstile-ts104_v4"
    rounds = count(5, 50)
    with virt.nothing_left(libvirt=False), _no_udev():
        for _ in range(rounds):
            start, results = multiprocessing.Event(), multiprocessing.Queue()
            workers = [
                multiprocessing.Process(target=_grab, args=(type_id, start, results))
                for _ in range(_WORKERS)
            ]
            for worker in workers:
                worker.start()
            start.set()
            answers = [results.get(timeout=300) for _ in workers]
            for worker in workers:
                worker.join()
            for result, uuid in answers:
                if result == 0:
                    vgpu.remove(uuid)
            expect_equal(sorted(result for result, _ in answers), [0] * 4 + [errno.ENOSPC] * 4)
    figure(f"{rounds} rounds of {_WORKERS} for 4")


def _compute(steps):
    for _ in range(steps):
        pass


def _steps_of(seconds):
    """How many steps of _compute() take `seconds`, or up to twice as long, undisturbed."""
    steps = 1000
    while min(virt.timed(_compute, steps)[0] for _ in range(5)) < seconds:
        steps *= 2
    return steps


def _link_times(rounds):
    """Milliseconds from the write to `create` until the link `mdev_type` is there, for each.

    And those of computing for about as long, in turn: what takes the CPU away takes it from both.
    """
    times, control = [], []
    steps = _steps_of(0.01)
    for _ in range(rounds):
        control.append(virt.timed(_compute, steps)[0] * 1000)
        uuid = str(uuid_module.uuid4())
        link = virt.DEVICES / uuid / "mdev_type"
        begin = time.monotonic()
        vgpu.create("turnstile-ts104_v16", uuid)
        while not link.is_symlink():
            pass
        times.append((time.monotonic() - begin) * 1000)
        vgpu.remove(uuid)
    return times, control


@test("host")
def c04_mdev_type_link_is_there_in_50_ms():
    rounds = count(200, 1000)
    # Without udev, which works on the events of each vGPU on the same CPU: what we answer for.
    with _no_udev():
        alone, control = _link_times(rounds)
    beside, _ = _link_times(count(50, 200))
    for times, words in ((alone, f"over {rounds}"), (beside, "while udev works")):
        figure(
            f"{words}: median {virt.percentile(times, 50):.1f} ms, "
            f"p99 {virt.percentile(times, 99):.1f} ms, longest {max(times):.1f} ms"
        )
    # L0 has other things to do as well, and a create also waits for other threads of the kernel.
    lost = virt.percentile(control, 99) - virt.percentile(control, 50)
    figure(f"computing for {virt.percentile(control, 50):.1f} ms: p99 {lost:.1f} ms more")
    p99 = virt.percentile(alone, 99) - 2 * lost
    most = 50 * patience()
    expect(p99 <= most, f"p99 without what the machine took is {p99:.1f} ms, more than {most} ms")
    # libvirt waits so long.
    expect(max(beside) < 1000 * patience(), "longest is more than 1 s")


@test("host")
def c12_all_instances_in_a_tight_loop_then_unbind_and_rebind():
    rounds = count(3, 30)
    address = vgpu.gpu_address()
    driver = pathlib.Path("/sys/bus/pci/drivers/turnstile")
    fills = 0
    for _ in range(rounds):
        for type_id in virt.TYPES:
            with virt.vgpus() as made:
                for _ in range(vgpu.available(type_id)):
                    made.append(vgpu.create(type_id))
                expect_equal(vgpu.available(type_id), 0)
                names = {(virt.DEVICES / uuid / "mdev_type/name").read_text() for uuid in made}
                expect_equal(len(names), 1)
                groups = {(virt.DEVICES / uuid / "iommu_group").resolve() for uuid in made}
                expect_equal(len(groups), len(made))
                fills += 1
        # With vGPUs that nobody has open: they go with the parent.
        vgpu.create("turnstile-ts104_v2")
        (driver / "unbind").write_text(address)
        expect_equal(list(virt.DEVICES.iterdir()), [])
        (driver / "bind").write_text(address)
        expect_equal(virt.offered(), virt.EMPTY)
    figure(f"{fills} fills, {rounds} rebinds")


def _kernel_memory():
    """Memory of the kernel that is not cache, in KiB."""
    # Twice: names that go let go of inodes. What goes waits for RCU, and some of it twice.
    for _ in range(2):
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
        time.sleep(4)
    fields = dict(
        line.split(":") for line in pathlib.Path("/proc/meminfo").read_text().splitlines()
    )
    names = ("SUnreclaim", "KernelStack", "PageTables", "Percpu", "VmallocUsed")
    return sum(int(fields[name].split()[0]) for name in names)


def _slab_objects():
    """{cache: objects in use} of the kernel's allocator."""
    lines = pathlib.Path("/proc/slabinfo").read_text().splitlines()[2:]
    return {line.split()[0]: int(line.split()[1]) for line in lines}


def _churn(cycles):
    for number in range(cycles):
        vgpu.remove(vgpu.create(virt.TYPES[number % len(virt.TYPES)]))


@test("host")
def c14_churn_leaves_memory_capacity_debugfs_and_sysfs_as_before():
    cycles = count(300, 10000)
    with virt.nothing_left(libvirt=False), _no_udev():
        _churn(50)
        before, begin = _kernel_memory(), time.monotonic()
        objects = _slab_objects()
        _churn(cycles)
        seconds = time.monotonic() - begin
        growth = _kernel_memory() - before
        grown = {name: now - objects.get(name, 0) for name, now in _slab_objects().items()}
    most = max(grown, key=grown.get)
    figure(f"{cycles} cycles in {seconds:.0f} s, {growth} KiB more kernel memory")
    figure(f"most objects more: {grown[most]} of {most}")
    if on_debug_kernel():
        return  # KASAN keeps what is freed for a while; nothing_is_leaked asks kmemleak
    # A leak of a page a cycle would be 4 KiB times the cycles.
    limit = 1024 + cycles // 4
    expect(growth < limit, f"{growth} KiB more kernel memory, {limit} allowed")
    # And of anything smaller one object a cycle, with full counts. Reserves count as in use: some
    # slabs, of which one has up to 512 objects.
    expect(grown[most] < 2048 + cycles // 2, f"{grown[most]} objects of {most} more")


@test("host")
def c13_uuids_of_proxmox_from_start_to_stop():
    rounds = count(5, 100)
    device = pathlib.Path("/sys/bus/pci/devices") / vgpu.gpu_address()
    for number in range(rounds):
        uuid = f"{number:08d}-0000-0000-0000-{100 + number:012d}"
        vgpu.create("turnstile-ts104_v8", uuid)
        # The path that its QEMU is given.
        expect((device / uuid / "mdev_type").is_symlink(), f"{device / uuid} is not there")
        run(f"ts104-run --transport vfio --device {device / uuid} --json vecadd", timeout=300)
        vgpu.remove(uuid)
        expect(not (device / uuid).exists(), "still there after remove")
    figure(f"{rounds} made, used and removed")


@test("host")
def c02_mdevctl_lists_types_that_every_tool_can_read():
    seconds, text = virt.timed(run, "mdevctl types --dumpjson")
    types = {}
    for entry in json.loads(text):
        for listing in entry.values():
            for item in listing:
                types.update(item)
    expect_equal(sorted(types), sorted(virt.TYPES))
    for type_id, facts in types.items():
        expect(not set(type_id) & set("/.:"), type_id)
        expect(len(facts["name"].split(" ")) >= 2, facts["name"])
        expect(facts["name"] == " ".join(facts["name"].split()), f"blanks: {facts['name']!r}")
        expect(facts["description"], f"{type_id} has no description")
        expect_equal(int(facts["available_instances"]), virt.EMPTY[type_id])
        expect_equal(facts["device_api"], "vfio-pci")
    expect_equal(len({facts["name"] for facts in types.values()}), len(types))
    figure(f"{len(types)} types in {seconds:.2f} s")


@test("host")
def libvirtd_starts_again():
    run("systemctl start libvirtd")
    expect_equal(virt.virsh("nodedev-list --cap mdev_types").split(), [virt.parent()])


if __name__ == "__main__":
    main()
