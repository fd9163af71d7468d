# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What libvirt, mdevctl and the tools above ask of a mediated device. Inside the full L1."""

import json
import pathlib
import re
import sys
import time
import uuid as uuid_module
import xml.etree.ElementTree as ElementTree

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import vfio
import vgpu
import virt
from tap import count, expect, expect_equal, figure, main, patience, run, test, wait_for
from virt import Domain, virsh

_TYPE = "turnstile-ts104_v4"


# Node devices.


@test("host")
def c01_virsh_lists_the_gpu_with_all_types():
    expect_equal(virsh("nodedev-list --cap mdev_types").split(), [virt.parent()])
    seconds, text = virt.timed(virsh, f"nodedev-dumpxml {virt.parent()}")
    types = ElementTree.fromstring(text).findall(".//capability[@type='mdev_types']/type")
    expect_equal(
        {t.get("id"): int(t.findtext("availableInstances")) for t in types}, virt.EMPTY
    )
    for entry in types:
        expect_equal(entry.findtext("deviceAPI"), "vfio-pci")
        expect(len(entry.findtext("name").split()) >= 2, entry.findtext("name"))
    figure(f"{len(types)} types in {seconds:.2f} s")


@test("host")
def c05_uuid_that_exists_or_is_none_is_refused():
    uuid = str(uuid_module.uuid4())
    refused = 0
    with virt.nothing_left(), virt.vgpus() as made:
        made.append(vgpu.create(_TYPE, uuid))
        wrong = [("EEXIST", uuid), ("EINVAL", "x"), ("EINVAL", uuid[:-1])]
        wrong += [("EINVAL", uuid + "00"), ("EINVAL", uuid.replace("-", "_"))]
        wrong += [("EINVAL", uuid[:-1] + "g")]
        for name, text in wrong:
            problem = vgpu.expect_errno(name, vgpu.create, _TYPE, text)
            expect(not problem, f"{text!r}: {problem}")
            refused += 1
    figure(f"{refused} refused")


@test("host")
def c06_nodedev_create_define_start_autostart_destroy_undefine():
    uuid = str(uuid_module.uuid4())
    name = virt.node_name(uuid)
    path = virt.device_xml(uuid, _TYPE)
    times = {}
    with virt.nothing_left():
        times["create"], _ = virt.timed(virsh, f"nodedev-create {path}")
        virsh(f"nodedev-destroy {name}")
        times["define"], _ = virt.timed(virsh, f"nodedev-define {path}")
        expect(name in virsh("nodedev-list --inactive --cap mdev"), "not listed as inactive")
        times["start"], _ = virt.timed(virsh, f"nodedev-start {name}")
        virsh(f"nodedev-autostart {name}")
        info = virsh(f"nodedev-info {name}")
        for field in ("Active", "Persistent", "Autostart"):
            expect(re.search(rf"^{field}: +yes$", info, re.M), info)
        xml = ElementTree.fromstring(virsh(f"nodedev-dumpxml {name}"))
        expect_equal(xml.find(".//type").get("id"), _TYPE)
        expect_equal(xml.findtext(".//uuid"), uuid)
        group = (virt.DEVICES / uuid / "iommu_group").resolve().name
        expect_equal(xml.find(".//iommuGroup").get("number"), group)
        virsh(f"nodedev-autostart --disable {name}")
        times["destroy"], _ = virt.timed(virsh, f"nodedev-destroy {name}")
        virsh(f"nodedev-undefine {name}")
        expect(uuid not in run("mdevctl list --defined"), "still defined")
    figure(", ".join(f"{what} {seconds:.2f} s" for what, seconds in times.items()))


# Domains.


@test("host")
def c07_vgpu_is_plugged_out_of_a_working_guest_and_in_again():
    rounds = count(2, 100)
    domain = virt.standing()
    (uuid,) = domain.uuids
    path = virt.hostdev_file(uuid)
    attach, detach = [], []
    for _ in range(rounds):
        domain.compute()
        # The driver is in use when it comes out: a process of the guest has the node open.
        domain.guest("sleep 1000 </dev/dri/renderD128 >/dev/null 2>&1 &")
        begin = time.monotonic()
        domain.detach(uuid)
        detach.append(time.monotonic() - begin)
        _wait_guest(domain, f"test ! -e {_NODE}")
        domain.guest("killall sleep")
        expect_equal(vgpu.counters(uuid)["pages_pinned"], 0)
        expect_equal(vgpu.counters(uuid)["channels"], 0)
        attach.append(virt.timed(virsh, f"attach-device {domain.name} {path}")[0])
        _wait_guest(domain, f"test -e {_NODE}")
    domain.compute()
    figure(
        f"{rounds} rounds, attach {virt.percentile(attach, 50):.2f} s, "
        f"detach {virt.percentile(detach, 50):.2f} s"
    )


_NODE = "/dev/dri/renderD128"


def _wait_guest(domain, condition):
    wait_for(
        lambda: "yes" in domain.guest(f"{condition} && echo yes; true"),
        virt.GUEST_SECONDS,
        f"in the guest: {condition}",
    )


@test("host")
def c07_paused_guest_goes_on_with_its_work():
    domain = virt.standing()
    domain.send("ts104-run --iterations 40 --json vecadd")
    virsh(f"suspend {domain.name}")
    expect_equal(domain.state(), "paused")
    time.sleep(2)
    seconds, _ = virt.timed(virsh, f"resume {domain.name}")
    domain.computed()
    figure(f"resume {seconds:.2f} s")


@test("host")
def c07_display_on_is_refused_with_a_reason():
    graphics = "<graphics type='vnc' socket='/tmp/lab-vnc'/><video><model type='none'/></video>"
    refused = 0
    with virt.vgpus(_TYPE) as (uuid,):
        for extra in ("display='on'", "display='on' ramfb='on'"):
            with virt.nothing_left():
                devices = virt.hostdev_xml(uuid, extra) + graphics
                with Domain([], devices=devices) as domain:
                    text = virsh(f"start {domain.name}", status=None)
                    expect("display method" in text, text)
                    refused += 1
    figure(f"{refused} refused")


@test("host")
def c09_migration_and_save_are_refused_with_the_reason():
    domain = virt.standing()
    # What a management layer does first: another UUID for the destination.
    xml = pathlib.Path(f"/tmp/{domain.name}-destination.xml")
    text = virsh(f"dumpxml --migratable {domain.name}")
    xml.write_text(text.replace(domain.uuids[0], str(uuid_module.uuid4())))
    answers = [
        virsh(f"migrate --live {domain.name} qemu+unix:///system --xml {xml}", status=None),
        virsh(f"save {domain.name} /tmp/{domain.name}.save", status=None),
        virsh(f"managedsave {domain.name}", status=None),
    ]
    for answer in answers:
        expect("VFIO migration is not supported in kernel" in answer, answer)
    expect_equal(domain.state(), "running")
    domain.compute()
    figure("refused: " + _reason(answers[0]).rpartition(": ")[2])


def _reason(text):
    lines = [line for line in text.splitlines() if line.startswith("error:")]
    expect(lines, f"no error: {text}")
    return lines[-1][len("error: ") :]


# mdevctl.


def _attr(uuid, name):
    return (virt.DEVICES / uuid / "turnstile" / name).read_text().strip()


def _modify_live(uuid, name, value, status=0):
    """Changes a running vGPU through mdevctl's callout; returns what mdevctl says."""
    attrs = [{f"turnstile/{name}": str(value)}]
    path = pathlib.Path(f"/tmp/{uuid}.json")
    path.write_text(json.dumps({"mdev_type": _TYPE, "start": "manual", "attrs": attrs}))
    return run(f"mdevctl modify --uuid {uuid} --live --jsonfile {path}", status=status)


@test("host")
def c16_mdevctl_writes_attributes_in_order_and_refuses_wrong_ones():
    uuid = str(uuid_module.uuid4())
    address = vgpu.gpu_address()
    with virt.nothing_left():
        run(f"mdevctl define --uuid {uuid} --parent {address} --type {_TYPE}")
        # The last of two values counts: they are written in the order of the definition.
        for name, value in (("weight", 300), ("weight", 200), ("cap_percent", 50)):
            run(f"mdevctl modify --uuid {uuid} --addattr=turnstile/{name} --value={value}")
        seconds, _ = virt.timed(run, f"mdevctl start --uuid {uuid}")
        expect_equal(_attr(uuid, "weight"), "200")
        expect_equal(_attr(uuid, "cap_percent"), "50")
        _modify_live(uuid, "weight", 400)
        expect_equal(_attr(uuid, "weight"), "400")
        for name, value in (("weight", 99999999), ("colour", "green")):
            bad = f"--addattr=turnstile/{name} --value={value}"
            text = run(f"mdevctl modify --uuid {uuid} {bad}", status=None)
            expect(name in text, text)
            text = _modify_live(uuid, name, value, status=None)
            expect(name in text, text)
        expect_equal(_attr(uuid, "weight"), "400")
        run(f"mdevctl stop --uuid {uuid}")
        # Past the callout, as an editor of the file would: the driver refuses.
        path = pathlib.Path(f"/etc/mdevctl.d/{address}/{uuid}")
        path.write_text(path.read_text().replace('"300"', '"99999999"'))
        text = run(f"mdevctl start --uuid {uuid}", status=None)
        expect("turnstile/weight" in text, text)
        expect(not (virt.DEVICES / uuid).exists(), "half made")
        run(f"mdevctl undefine --uuid {uuid}")
    figure(f"start with 3 attributes {seconds:.2f} s")


# What is taken away from a running guest.


def _plug_again(domain):
    """Makes the vGPU of the guest anew and plugs it in."""
    (uuid,) = domain.uuids
    vgpu.create(_TYPE, uuid)
    virsh(f"attach-device {domain.name} {virt.hostdev_file(uuid)}")
    _wait_guest(domain, f"test -e {_NODE}")
    domain.compute()


@test("host")
def c05_remove_of_a_vgpu_in_use_asks_the_guest_and_ends():
    domain = virt.standing()
    (uuid,) = domain.uuids
    # The write lasts until QEMU has closed the device; QEMU unplugs it because it was asked.
    seconds, _ = virt.timed(vgpu.remove, uuid)
    expect(not (virt.DEVICES / uuid).exists(), "still there after remove")
    _wait_guest(domain, f"test ! -e {_NODE}")
    expect_equal(domain.state(), "running")
    _plug_again(domain)
    figure(f"gone after {seconds:.1f} s")
    expect(seconds <= 10 * patience(), f"more than {10 * patience()} s")


@test("host")
def c15_unbind_of_the_gpu_while_a_guest_uses_it():
    address = vgpu.gpu_address()
    driver = pathlib.Path("/sys/bus/pci/drivers/turnstile")
    domain = virt.standing()
    (uuid,) = domain.uuids
    domain.compute_without_end()
    try:
        seconds, _ = virt.timed((driver / "unbind").write_text, address)
        expect(not (virt.DEVICES / uuid).exists(), "the vGPU is still there")
        domain.answer()
        _wait_guest(domain, f"test ! -e {_NODE}")
        expect_equal(domain.state(), "running")
    finally:
        if not (driver / address).exists():
            (driver / "bind").write_text(address)
    expect_equal(virt.offered(), virt.EMPTY)
    _plug_again(domain)
    figure(f"gone after {seconds:.1f} s")
    expect(seconds <= 10 * patience(), f"more than {10 * patience()} s")


@test("host")
def c08_killed_qemu_leaves_nothing_and_its_memory_cannot_be_read():
    mark = "SECRET-OF-THE-FORMER-GUEST"
    domain = virt.standing()
    (uuid,) = domain.uuids
    domain.send(f"ts104-run --json vram-fill={mark}")
    filled = domain.computed()[0]
    # Whoever looks must be able to find it.
    seen = _marks_in_guest(domain, mark)
    expect(seen > 0, "the guest has no mark in its own VRAM")
    domain.compute_without_end()
    begin = time.monotonic()
    run(f"kill -9 {domain.qemu_pid()}")
    wait_for(lambda: vgpu.counters(uuid)["pages_pinned"] == 0, 60, "pins did not go")
    gone = time.monotonic() - begin
    domain.wait_off()
    expect_equal(vgpu.counters(uuid)["channels"], 0)
    size, found, planted = _search_vram(uuid, mark.encode())
    expect_equal((found, planted), (0, 1))
    virt.standing().compute()
    figure(
        f"{filled['detail']} marked, seen in {seen} of {_SAMPLES} places before and in none of "
        f"{size >> 20} MiB after, pins gone after {gone:.2f} s"
    )


_SAMPLES = 16


def _marks_in_guest(domain, mark):
    """In how many of _SAMPLES places of its VRAM a running guest has `mark`, by QEMU's monitor."""
    # BAR1, the second line, is all of the guest's VRAM.
    line = domain.guest("sed -n 2p /sys/class/drm/renderD128/device/resource")
    first, last = (int(word, 16) for word in line.split()[:2])
    piece = domain.directory / "piece"
    seen = 0
    for number in range(_SAMPLES):
        address = first + (last + 1 - first) // _SAMPLES * number
        expect_equal(domain.monitor(f'pmemsave {address:#x} 4096 "{piece}"'), "")
        seen += mark.encode() in piece.read_bytes()
    return seen


def _search_vram(uuid, mark):
    """Looks for `mark` as a user who opens the vGPU anew, MiB by MiB.

    Returns how many bytes there are, in how many pieces it is, and the same of the last one once
    that user has written it there.
    """
    piece = 1 << 20
    with vfio.Device(uuid) as device:
        size = device.region(1).size
        memory = device.map(1, 0, size)
        found = sum(mark in memory[start : start + piece] for start in range(0, size, piece))
        memory[size - len(mark) : size] = mark
        planted = mark in memory[size - piece : size]
        memory.close()
        return size, found, int(planted)


if __name__ == "__main__":
    main()
