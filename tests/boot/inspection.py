# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What the driver shows of itself when something is wrong: dumps in debugfs, devlink. Part of boot."""

import contextlib
import errno
import json
import os
import pathlib
import subprocess
import sys

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import vgpu
from tap import expect, expect_equal, patience, run, test, wait_for

TYPE = "turnstile-ts104_v4"
# devlink is part of Debian's kernels, not of the small debug kernel.
WITH_DEVLINK = ("6.1", "6.12")
# In 6.1 its dumps are not safe against a driver that leaves.
WITH_DEVLINKS_DUMPS = ("6.12",)


@contextlib.contextmanager
def made(count=1):
    """UUIDs of `count` vGPUs while the body runs."""
    uuids = []
    try:
        for _ in range(count):
            uuids.append(vgpu.create(TYPE))
        yield uuids
    finally:
        for uuid in uuids:
            vgpu.remove(uuid)


@contextlib.contextmanager
def computing(uuid, placement="sysmem"):
    """A program that runs until it is killed, with its data in host memory or `vram`."""
    device = f"/sys/bus/mdev/devices/{uuid}"
    child = subprocess.Popen(
        ["ts104-run", "--transport", "vfio", "--device", device, "--placement", placement,
         "endless"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(
            lambda: vgpu.sched(uuid)[0]["run_ns"] > 0, 60 * patience(), "it does not compute"
        )
        yield
    finally:
        child.kill()
        child.wait()


def computes(uuid):
    """Fails unless a program on it has the right result."""
    device = f"/sys/bus/mdev/devices/{uuid}"
    text = run(f"ts104-run --transport vfio --device {device} --json vecadd", 240)
    programs = json.loads(text[text.index("{") :])["programs"]
    expect_equal([program["verified"] for program in programs], [True])


def covered(address, length, ranges):
    """Whether [address, address + length) lies in the union of ranges (first, length)."""
    for first, size in sorted(ranges):
        if first <= address < first + size:
            step = min(length, first + size - address)
            address, length = address + step, length - step
            if length == 0:
                return True
    return False


# ---- dumps


@test("driver")
def dumps_show_channels_lists_tables_and_pins_of_who_computes():
    with made(2) as (uuid, idle), computing(uuid):
        function = (vgpu.vgpu_dir(uuid) / "function").read_text().strip()
        head, *channels = vgpu.dump("channels", uuid)
        expect_equal(head["function"], function)
        on = [line for line in channels if line["bound"] == line["enabled"] == "1"]
        expect(on, f"no channel is bound and enabled: {channels}")
        expect_equal({line["holds"] for line in on}, {"none"})
        lists = [line for line in vgpu.dump("runlists") if line.get("function") == function]
        listed = {line["channel"] for line in lists if "channel" in line}
        expect({line["channel"] for line in on} <= listed, f"{on} are not in {lists}")
        pinned = sum(int(line["pages"]) for line in vgpu.dump("pins", uuid))
        expect_equal(pinned, vgpu.counters(uuid)["pages_pinned"])
        expect(pinned > 0, "nothing is pinned")
        expect_equal(vgpu.dump("pins", idle), [])
        expect_equal(len(vgpu.dump("channels", idle)), 1)


@test("driver")
def device_finds_nothing_in_the_shadow_but_its_partition_and_pinned_pages():
    quarter = int((vgpu.gpu_dir() / "vram_bytes").read_text()) // 4
    with (
        made(2) as (first, second),
        computing(first, "vram"),
        computing(second, "sysmem"),
    ):
        seen = set()
        for index, uuid in enumerate((first, second)):
            pins = [
                (int(line["dma"], 16), 4096 * int(line["pages"])) for line in vgpu.dump("pins", uuid)
            ]
            places = {"sys": pins, "vid": [(index * quarter, quarter)]}
            for line in vgpu.dump("shadow", uuid):
                if "va" not in line:
                    continue
                kind, _, address = line["to"].partition(":")
                length = int(line["pages"]) * int(line["page_bytes"])
                expect(covered(int(address, 16), length, places[kind]), f"{line} leads elsewhere")
                seen.add(kind)
        expect_equal(seen, {"sys", "vid"})


# ---- users without rights

NOBODY = 65534


def as_nobody(command):
    """The end of `command`, run as a user without rights."""
    return subprocess.run(
        command, capture_output=True, text=True, user=NOBODY, group=NOBODY, extra_groups=[]
    )


def openable(paths, mode):
    """Those of `paths` that a user without rights can open: `mode` "r" or "w"."""
    flags = os.O_WRONLY if mode == "w" else os.O_RDONLY
    program = (
        "import os, sys\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        f"        os.open(path, {flags})\n"
        "        print(path)\n"
        "    except PermissionError:\n"
        "        pass\n"
    )
    done = as_nobody([sys.executable, "-c", program, *map(str, paths)])
    expect_equal((done.returncode, done.stderr), (0, ""))
    return done.stdout.splitlines()


def files_in(*folders):
    """All files below the folders, links not followed."""
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


@test("driver")
def user_without_rights_changes_nothing_and_sees_settings_but_no_dumps():
    with made() as (uuid,):
        gpu = pathlib.Path("/sys/bus/pci/devices") / vgpu.gpu_address()
        mdev = pathlib.Path("/sys/bus/mdev/devices") / uuid
        sysfs = [
            *files_in(vgpu.gpu_dir(), vgpu.vgpu_dir(uuid), gpu / "mdev_supported_types"),
            mdev / "remove", gpu / "reset",
        ]  # fmt: skip
        group = os.readlink(mdev / "iommu_group").rpartition("/")[2]
        device = pathlib.Path("/dev/vfio") / group
        expect_equal(openable([*sysfs, device], "w"), [])
        expect_equal(openable([device], "r"), [])
        shown = [vgpu.gpu_dir() / "policy", vgpu.vgpu_dir(uuid) / "weight"]
        expect_equal(openable(shown, "r"), [str(path) for path in shown])
        dumps = files_in(pathlib.Path("/sys/kernel/debug/turnstile"))
        expect(len(dumps) >= 8, str(dumps))
        # Of the files: Debian's kernel closes the whole of debugfs as well.
        expect_equal([str(path) for path in dumps if path.stat().st_mode & 0o077], [])


@test("driver", kernels=WITH_DEVLINK)
def user_without_rights_recovers_and_dumps_nothing_by_devlink():
    for verb in ("recover", "dump show"):
        command = f"devlink health {verb} {vgpu.devlink_name()} reporter hardware".split()
        done = as_nobody(command)
        expect(done.returncode != 0 and "not permitted" in done.stderr, f"{verb}: {done}")


# ---- reset from outside, devlink


def reset_gpu():
    """By sysfs, behind the driver's back."""
    pathlib.Path(f"/sys/bus/pci/devices/{vgpu.gpu_address()}/reset").write_text("1")


@test("driver")
def gpu_that_is_reset_without_vgpus_is_started_over():
    reset_gpu()
    expect_equal(vgpu.available(TYPE), 4)
    with made() as (uuid,):
        computes(uuid)


@test("driver", kernels=WITH_DEVLINK)
def gpu_that_is_reset_with_a_vgpu_is_recovered_by_devlink_when_that_is_gone():
    before = vgpu.health("hardware")
    with made() as (uuid,):
        computes(uuid)
        reset_gpu()
        wait_for(lambda: vgpu.health("hardware")["state"] == "error", 10, "no error")
        expect_equal(vgpu.available(TYPE), 0)
        try:
            vgpu.create(TYPE)
            raise AssertionError("a vGPU was made on a GPU that was reset")
        except OSError as error:
            expect_equal(error.errno, errno.ENODEV)
        text = run(f"devlink health recover {vgpu.devlink_name()} reporter hardware 2>&1", status=None)
        expect("vGPUs exist: remove them first" in text, text)
        found = json.loads(run(f"devlink -j health diagnose {vgpu.devlink_name()} reporter hardware"))
        expect_equal((found["lost"], found["vgpus"]), (True, 1))
        expect_equal(found["last"], "reset from outside and not started over")
    run(f"devlink health recover {vgpu.devlink_name()} reporter hardware")
    after = vgpu.health("hardware")
    expect_equal(after["state"], "healthy")
    expect_equal(after["error"] - before["error"], 1)
    expect_equal(vgpu.available(TYPE), 4)
    with made() as (uuid,):
        computes(uuid)


@test("driver", kernels=WITH_DEVLINK)
def gpu_that_is_reset_again_without_vgpus_is_healthy_at_once():
    with made():
        reset_gpu()
        wait_for(lambda: vgpu.health("hardware")["state"] == "error", 10, "no error")
    reset_gpu()
    expect_equal(vgpu.health("hardware")["state"], "healthy")
    expect_equal(vgpu.available(TYPE), 4)


@test("driver", kernels=WITH_DEVLINK)
def devlink_tells_what_the_device_is():
    found = json.loads(run(f"devlink -j dev info {vgpu.devlink_name()}"))["info"][vgpu.devlink_name()]
    expect_equal(found["driver"], "turnstile")
    expect_equal(found["versions"]["fixed"]["asic.id"], "TS104")


@test("driver", kernels=WITH_DEVLINKS_DUMPS)
def devlinks_dump_has_the_runlists_of_who_computes():
    with made() as (uuid,), computing(uuid):
        function = (vgpu.vgpu_dir(uuid) / "function").read_text().strip()
        # One of an earlier test, if there is one.
        run(f"devlink health dump clear {vgpu.devlink_name()} reporter timeout || true")
        found = json.loads(run(f"devlink -j health dump show {vgpu.devlink_name()} reporter timeout"))
        expect_equal(found["policy"], vgpu.policy())
        expect(any(f" function={function} tsg=" in line for line in found["runlists"]), str(found))
    run(f"devlink health dump clear {vgpu.devlink_name()} reporter timeout")
