# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""vGPUs that come back when the host does; half of it runs after a reboot. In the full L1."""

import sys

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import guide
import virt
from tap import expect, expect_equal, figure, main, run, test
from virt import Domain, virsh

_AUTO = {
    "7a11e000-0000-4000-8000-00000000b001": "turnstile-ts104_v8",
    "7a11e000-0000-4000-8000-00000000b002": "turnstile-ts104_v16",
}
_MANUAL = {"7a11e000-0000-4000-8000-00000000b003": "turnstile-ts104_v16"}
_WEIGHT = "777"


@test("host")
def c06_devices_are_defined_before_the_host_reboots():
    for uuid, type_id in {**_AUTO, **_MANUAL}.items():
        virsh(f"nodedev-define {virt.device_xml(uuid, type_id)}")
    for uuid in _AUTO:
        virsh(f"nodedev-autostart {virt.node_name(uuid)}")
    first = next(iter(_AUTO))
    run(f"mdevctl modify --uuid {first} --addattr=turnstile/weight --value={_WEIGHT}")


@test("host")
def guide_mdevctl_is_right_up_to_the_reboot():
    # Its vGPU starts by itself whenever a driver comes: no test may bind one between here and there.
    figure(f"{guide.follow('mdevctl.md')} steps")


@test("host", boot=2)
def guide_mdevctl_is_right_after_the_reboot():
    figure(f"{guide.follow('mdevctl.md', boot=2)} steps")


@test("host", boot=2)
def c06_defined_devices_come_back_after_the_host_has_rebooted():
    # Nothing here starts them; libvirtd already runs, and saw them when it did.
    for uuid, type_id in _AUTO.items():
        expect_equal((virt.DEVICES / uuid / "mdev_type").resolve().name, type_id)
    first = next(iter(_AUTO))
    expect_equal((virt.DEVICES / first / "turnstile/weight").read_text().strip(), _WEIGHT)
    active = virsh("nodedev-list --cap mdev").split()
    expect_equal({virt.node_name(uuid) for uuid in _AUTO} - set(active), set())
    for uuid in _MANUAL:
        expect(not (virt.DEVICES / uuid).exists(), "a vGPU started that is not to start by itself")
        expect(virt.node_name(uuid) in virsh("nodedev-list --inactive --cap mdev"), "not defined")
    started = run("systemctl show -P ActiveEnterTimestampMonotonic turnstile-autostart.service")
    daemon = run("systemctl show -P ExecMainStartTimestampMonotonic libvirtd.service")
    expect(0 < int(started) <= int(daemon), f"vGPUs at {started}, libvirtd at {daemon}")
    figure(f"{len(_AUTO)} vGPUs {int(started) / 1e6:.1f} s after the kernel, before libvirtd")


@test("host", boot=2)
def guest_computes_on_a_vgpu_that_came_back():
    with Domain(list(_AUTO)[:1]) as domain:
        domain.start()
        domain.compute()


@test("host", boot=2)
def nothing_is_left_when_the_definitions_go():
    for uuid in _AUTO:
        virsh(f"nodedev-destroy {virt.node_name(uuid)}")
    for uuid in {**_AUTO, **_MANUAL}:
        virsh(f"nodedev-undefine {virt.node_name(uuid)}")
    defined = run("mdevctl list --defined")
    for uuid in {**_AUTO, **_MANUAL}:
        expect(uuid not in defined and not (virt.DEVICES / uuid).exists(), f"{uuid} is there")


if __name__ == "__main__":
    main()
