# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What OpenStack Nova's libvirt driver and Placement make of two GPUs. Inside the L1 of OpenStack."""

import compute  # first: it replaces what waits in Python's library

import pathlib
import time

import libvirt
from lxml import etree
from nova import exception, objects
from nova.network import model as network_model
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import migration as nova_migration
from nova.virt.libvirt import utils as nova_utils
from oslo_config import cfg

import virt
from compute import cleared, documented, driver, node_name, placement, said, settings
from tap import expect, expect_equal, figure, main, run, test, wait_for

_FIRST, _SECOND = "0000:00:10.0", "0000:00:11.0"
_GPU, _OTHER = "pci_0000_00_10_0", "pci_0000_00_11_0"
# As long as libvirtd may take to hear of a GPU or vGPU.
_SETTLE_S = 60
_V4, _V8, _V16 = (f"turnstile-ts104_v{n}" for n in (4, 8, 16))


def _inventory(total):
    """What Nova reports of a GPU that can have `total` vGPUs."""
    return {
        "total": total,
        "min_unit": 1,
        "max_unit": total,
        "step_size": 1,
        "reserved": 0,
        "allocation_ratio": 1.0,
    }


def _create(made, gpu, count=1):
    """Lets Nova make vGPUs on a GPU; returns their UUIDs."""
    uuids = [made._create_new_mediated_device(gpu) for _ in range(count)]
    expect(all(uuids), f"not made: {uuids}")
    return uuids


# What is there.


@test("host")
def both_gpus_offer_what_sysfs_says():
    made = driver("")
    expect_equal(compute.gpus(), [_FIRST, _SECOND])
    expect_equal(sorted(made._host.list_mdev_capable_devices()), [_GPU, _OTHER])
    begin = time.monotonic()
    found = made._get_mdev_capable_devices()
    seconds = time.monotonic() - begin
    expect_equal(sorted(device["dev_id"] for device in found), [_GPU, _OTHER])
    for device, address in zip(sorted(found, key=lambda d: d["dev_id"]), compute.gpus()):
        expect_equal(device["vendor_id"], 0x1234)
        expect_equal(
            device["types"],
            {
                type_id: {"availableInstances": available, "name": name, "deviceAPI": "vfio-pci"}
                for type_id, (name, available) in compute.types(address).items()
            },
        )
    figure(f"{len(found)} GPUs in {seconds:.2f} s")


@test("host")
def each_gpu_has_the_type_that_is_configured():
    made = driver(settings("mixed"))
    expect_equal(made.supported_vgpu_types, [_V4, _V8])
    expect_equal(made._get_vgpu_type_per_pgpu(_GPU), _V4)
    expect_equal(made._get_vgpu_type_per_pgpu(_OTHER), _V8)
    expect_equal(made._get_vgpu_type_per_pgpu("pci_0000_00_12_0"), None)
    expect_equal(made._get_pci_id_from_libvirt_name(_OTHER), _SECOND)
    expect_equal(made._get_pci_id_from_libvirt_name("mtty_mtty"), None)


@test("host")
def type_without_addresses_is_for_all_gpus_and_only_the_first_is():
    made = driver(settings("one-type"))
    expect_equal([made._get_vgpu_type_per_pgpu(gpu) for gpu in (_GPU, _OTHER)], [_V4, _V4])
    expect_equal(made._get_gpu_inventories(), {_GPU: _inventory(4), _OTHER: _inventory(4)})
    with said() as messages:
        made = driver(f"[devices]\nenabled_mdev_types = {_V8}, {_V4}\n")
    expect_equal(made.supported_vgpu_types, [_V8])
    expect_equal(
        [documented(message) for message in messages if "default" in message],
        [f"Mdev type default already set to  {_V8} so {_V4} will not be used."],
    )


@test("host")
def nothing_configured_is_no_vgpu():
    made = driver("")
    expect_equal(made._get_gpu_inventories(), {})
    expect_equal(made._get_vgpu_type_per_pgpu(_GPU), None)


_WRONG = [
    (
        f"[mdev_{_V4}]\ndevice_addresses = {_FIRST}\n[mdev_{_V8}]\ndevice_addresses = {_FIRST}\n",
        exception.InvalidLibvirtMdevConfig,
        "duplicate types for PCI ID 0000:00:10.0",
    ),
    (
        f"[mdev_{_V4}]\ndevice_addresses = {_GPU}\n",
        exception.InvalidLibvirtMdevConfig,
        f"incorrect PCI address: {_GPU}",
    ),
    (
        f"[mdev_{_V4}]\ndevice_addresses = 0:10.0\n",
        exception.InvalidLibvirtMdevConfig,
        "incorrect PCI address: 0:10.0",
    ),
    (
        f"[mdev_{_V4}]\nmdev_class = TS104\n",
        cfg.ConfigFileValueError,
        "doesn't match regex",
    ),
    (
        f"[mdev_{_V4}]\nmax_instances = 0\n",
        cfg.ConfigFileValueError,
        "Should be greater than or equal to 1",
    ),
]


@test("host")
def wrong_configurations_are_refused_with_the_messages_of_the_guide():
    for text, kind, message in _WRONG:
        try:
            driver(f"[devices]\nenabled_mdev_types = {_V4}, {_V8}\n{text}")
        except kind as error:
            expect(message in str(error), f"expected {message!r}, got {str(error)!r}")
            documented(str(error))
        else:
            expect(False, f"accepted: {text}")
    figure(f"{len(_WRONG)} refused")


@test("host")
def inventories_equal_sysfs_with_and_without_vgpus():
    made = driver(settings("mixed"))
    with cleared():
        expect_equal(made._get_gpu_inventories(), {_GPU: _inventory(4), _OTHER: _inventory(8)})
        _create(made, _GPU)
        _create(made, _OTHER)
        begin = time.monotonic()
        got = made._get_gpu_inventories()
        seconds = time.monotonic() - begin
        expect_equal(dict(made._count_mediated_devices([_V4, _V8])), {_GPU: 1, _OTHER: 1})
        expect_equal(dict(made._count_mdev_capable_devices([_V4, _V8])), {_GPU: 3, _OTHER: 7})
        expect_equal(got, {_GPU: _inventory(4), _OTHER: _inventory(8)})
        for address, type_id in ((_FIRST, _V4), (_SECOND, _V8)):
            expect_equal(got[node_name(address)]["total"], compute.capacity(address, type_id))
    figure(f"{seconds:.2f} s")


@test("host")
def max_instances_keeps_or_drops_whole_gpus():
    wanted = {3: (0, 0), 4: (4, 0), 7: (4, 0), 8: (4, 4)}
    for limit, totals in wanted.items():
        made = driver(f"{settings('one-type')}\n[mdev_{_V4}]\nmax_instances = {limit}\n")
        got = made._get_gpu_inventories()
        # Which of two equal GPUs is dropped is for libvirt's order to say.
        expect_equal(sorted((i["total"] for i in got.values()), reverse=True), list(totals))
        expect_equal(sorted(got), [_GPU, _OTHER])
    made = driver(settings("limit"))
    expect_equal(made._get_gpu_inventories(), {_GPU: _inventory(4), _OTHER: _inventory(4)})


@test("host")
def resource_class_of_each_gpu_is_the_configured_one():
    made = driver(settings("classes"))
    expect_equal(made._get_supported_mdev_resource_classes(), {"VGPU", "CUSTOM_TS104_V8"})
    expect_equal(made._get_resource_class_for_device(_GPU), "VGPU")
    expect_equal(made._get_resource_class_for_device(_OTHER), "CUSTOM_TS104_V8")
    allocations = {
        "a": {"resources": {"VCPU": 1, "MEMORY_MB": 64}},
        "b": {"resources": {"CUSTOM_TS104_V8": 1}},
    }
    expect_equal(
        made._vgpu_allocations(allocations), {"b": {"resources": {"CUSTOM_TS104_V8": 1}}}
    )


# Making.


@test("host")
def new_vgpu_runs_is_defined_and_starts_with_the_host():
    made = driver(settings("mixed"))
    with cleared():
        begin = time.monotonic()
        (uuid,) = _create(made, _OTHER)
        seconds = time.monotonic() - begin
        expect_equal(compute.vgpu(uuid), (_SECOND, _V8))
        expect(made._is_existing_mdev(uuid), "Nova does not see it in sysfs")
        expect_equal(run("mdevctl list --defined").split(), [uuid, _SECOND, _V8, "auto", "(active)"])
        name = nova_utils.mdev_uuid2name(uuid)
        expect_equal(nova_utils.mdev_name2uuid(name), uuid)
        # libvirt appends the GPU's address; Nova must find it by its own name as well.
        full = f"{name}_0000_00_11_0"
        expect_equal(nova_utils.mdev_name2uuid(full), uuid)
        expect_equal(made._host.list_mediated_devices(), [full])
        group = (virt.DEVICES / uuid / "iommu_group").resolve().name
        for asked in (name, full):
            expect_equal(
                made._get_mediated_device_information(asked),
                {
                    "dev_id": full,
                    "uuid": uuid,
                    "parent": _OTHER,
                    "type": _V8,
                    "iommu_group": int(group),
                },
            )
        expect_equal(made._get_mediated_devices([_V4]), [])
        expect_equal(made._get_mdev_types_from_uuids([uuid]), {uuid: _V8})
    figure(f"made in {seconds:.2f} s")


@test("host")
def full_gpu_makes_no_more_and_says_so():
    made = driver(settings("mixed"))
    with cleared():
        uuids = _create(made, _GPU, 4)
        expect_equal({compute.vgpu(uuid) for uuid in uuids}, {(_FIRST, _V4)})
        expect_equal(made._get_gpu_inventories(), {_GPU: _inventory(4), _OTHER: _inventory(8)})
        with said() as messages:
            expect_equal(made._create_new_mediated_device(_GPU), None)
        refusals = [m for m in messages if m.startswith("Failed to create mdev.")]
        expect_equal(len(refusals), 1)
        documented(refusals[0])
        expect_equal(sorted(compute.vgpus()), sorted(uuids))


@test("host")
def vgpu_of_another_type_is_neither_counted_nor_given_and_takes_its_room():
    with cleared():
        # From before the operator changed the type.
        (foreign,) = _create(driver(f"[devices]\nenabled_mdev_types = {_V16}\n"), _GPU)
        made = driver(settings("mixed"))
        expect_equal(compute.vgpu(foreign), (_FIRST, _V16))
        expect_equal(dict(made._count_mediated_devices([_V4, _V8])), {})
        expect_equal(made._get_existing_mdevs_not_assigned(_GPU), set())
        # A sixteenth of the GPU is in the way of one quarter.
        expect_equal(made._get_gpu_inventories(), {_GPU: _inventory(3), _OTHER: _inventory(8)})


# Placement.


@test("host")
def placement_holds_what_sysfs_has():
    held = placement()
    made = driver(settings("mixed"))
    with cleared():
        begin = time.monotonic()
        held.update(made)
        seconds = time.monotonic() - begin
        expect_equal(
            held.inventories(), {_GPU: {"VGPU": _inventory(4)}, _OTHER: {"VGPU": _inventory(8)}}
        )
        _create(made, _GPU)
        _create(made, _OTHER, 2)
        held.update(made)
        expect_equal(
            held.inventories(), {_GPU: {"VGPU": _inventory(4)}, _OTHER: {"VGPU": _inventory(8)}}
        )
        for address, type_id in ((_FIRST, _V4), (_SECOND, _V8)):
            total = held.inventories()[node_name(address)]["VGPU"]["total"]
            expect_equal(total, compute.capacity(address, type_id))
    figure(f"reported in {seconds:.2f} s")


@test("host")
def placement_has_the_class_of_each_gpu():
    held = placement()
    held.update(driver(settings("classes")))
    expect_equal(
        held.inventories(),
        {_GPU: {"VGPU": _inventory(4)}, _OTHER: {"CUSTOM_TS104_V8": _inventory(8)}},
    )
    expect_equal(_offered(held, resources__CUSTOM_TS104_V8=1), [_OTHER])
    expect_equal(_offered(held, resources__VGPU=1), [_GPU])


@test("host")
def gpus_above_max_instances_leave_placement_and_come_back():
    held = placement()
    held.update(driver(settings("one-type")))
    expect_equal(sorted(held.inventories()), [_GPU, _OTHER])
    held.update(driver(f"{settings('one-type')}\n[mdev_{_V4}]\nmax_instances = 3\n"))
    expect_equal(held.inventories(), {})
    held.update(driver(settings("limit")))
    expect_equal(
        held.inventories(), {_GPU: {"VGPU": _inventory(4)}, _OTHER: {"VGPU": _inventory(4)}}
    )


def _offered(held, **properties):
    """The GPUs that a flavor can be had on."""
    return [gpu for _, gpu in held.candidates(**properties)]


@test("host")
def flavors_find_their_gpu_by_trait_and_asking_too_much_finds_none():
    held = placement()
    made = driver(settings("mixed"))
    held.update(made)
    held.set_traits(_GPU, ["CUSTOM_TS104_V4"])
    held.set_traits(_OTHER, ["CUSTOM_TS104_V8"])
    # The next report of the driver leaves them alone.
    held.update(made)
    expect_equal(held.traits(_GPU), ["CUSTOM_TS104_V4"])
    expect_equal(held.traits(_OTHER), ["CUSTOM_TS104_V8"])
    expect_equal(_offered(held, resources__VGPU=1), [_GPU, _OTHER])
    required = {"resources__VGPU": 1, "trait__CUSTOM_TS104_V4": "required"}
    expect_equal(_offered(held, **required), [_GPU])
    required = {"resources__VGPU": 1, "trait__CUSTOM_TS104_V8": "required"}
    expect_equal(_offered(held, **required), [_OTHER])
    expect_equal(_offered(held, resources__VGPU=8), [_OTHER])
    expect_equal(_offered(held, resources__VGPU=9), [])


# Servers.


@test("host")
def claims_become_vgpus_of_the_claimed_gpu_until_it_is_full():
    held = placement()
    made = driver(settings("mixed"))
    servers, uuids = [], []
    with cleared():
        held.update(made)
        try:
            for number in range(4):
                (request, _), *_ = held.candidates(resources__VGPU=1)
                server, allocations = held.claim(request)
                servers.append(server)
                expect_equal(held.usage(_GPU), {"VGPU": number + 1})
                (uuid,) = made._allocate_mdevs(allocations)
                made.instance_claimed_mdevs[server] = [uuid]  # as of a guest that has it
                uuids.append(uuid)
                held.update(made)
                expect_equal(held.inventories()[_GPU], {"VGPU": _inventory(4)})
            expect_equal(len(set(uuids)), 4)
            expect_equal({compute.vgpu(uuid) for uuid in uuids}, {(_FIRST, _V4)})
            expect_equal(_offered(held, resources__VGPU=1), [_OTHER])
            _free_vgpu_is_given_to_the_next(held, made, servers, uuids)
        finally:
            for server in servers:
                held.release(server)
        expect_equal(held.usage(_GPU), {"VGPU": 0})


def _free_vgpu_is_given_to_the_next(held, made, servers, uuids):
    """Deletes one of four servers of a full GPU: the next gets its vGPU."""
    gone = servers.pop(1)
    held.release(gone)
    del made.instance_claimed_mdevs[gone]
    expect_equal(held.usage(_GPU), {"VGPU": 3})
    expect_equal(made._get_existing_mdevs_not_assigned(_GPU, [_V4]), {uuids[1]})
    (request, _), *_ = held.candidates(resources__VGPU=1)
    server, allocations = held.claim(request)
    servers.append(server)
    expect_equal(made._allocate_mdevs(allocations), [uuids[1]])
    expect_equal(compute.vgpus(), sorted(uuids))


@test("host")
def allocation_of_an_unknown_provider_is_refused():
    made = driver(settings("mixed"))
    placement().update(made)
    nobody = "7a11e000-0000-4000-8000-00000000dead"
    try:
        made._allocate_mdevs({nobody: {"resources": {"VGPU": 1}}})
    except exception.ComputeResourcesUnavailable as error:
        documented(str(error))
    else:
        expect(False, "accepted")
    expect_equal(made._allocate_mdevs({nobody: {"resources": {"VCPU": 1}}}), None)


@test("host")
def live_migration_is_for_libvirt_and_qemu_of_these_versions():
    made = driver(settings("mixed"))
    # Nova asks for versions only; that the driver cannot do it yet is for QEMU to say.
    expect(made._host_can_support_mdev_live_migration(), "refused for their versions")
    uuid, other = "7a11e000-0000-4000-8000-0000000000aa", "7a11e000-0000-4000-8000-0000000000bb"
    text = f"<domain><devices>{_nova_hostdev(made, uuid)}</devices></domain>"
    changed = nova_migration._update_mdev_xml(etree.fromstring(text), {uuid: other})
    expect_equal([a.get("uuid") for a in changed.findall(".//hostdev/source/address")], [other])
    try:
        nova_migration._update_mdev_xml(etree.fromstring(text), {})
    except exception.NovaException as error:
        documented(str(error))
    else:
        expect(False, "migrates to no vGPU")


def _nova_hostdev(made, uuid):
    """The XML that Nova writes for a vGPU of a domain."""
    guest = vconfig.LibvirtConfigGuest()
    made._guest_add_mdevs(guest, [uuid])
    (device,) = guest.devices
    expect_equal(device.uuid, uuid)
    return device.to_xml()


def _instance(domain):
    """Nova's record of a server that is this domain, as far as the driver asks."""
    return objects.Instance(
        uuid=run(f"virsh domuuid {domain.name}").strip(),
        display_name=domain.name,
        image_ref="",
        numa_topology=None,
        resources=None,
        system_metadata={},
        pci_devices=objects.PciDeviceList(objects=[]),
        pci_requests=objects.InstancePCIRequests(requests=[]),
        info_cache=objects.InstanceInfoCache(network_info=network_model.NetworkInfo()),
    )


def _wait_gpu(domain):
    wait_for(
        lambda: "yes" in domain.guest("test -e /dev/dri/renderD128 && echo yes; true"),
        virt.GUEST_SECONDS,
        "the guest has no GPU",
    )


@test("host")
def guest_computes_and_is_suspended_and_resumed_with_its_vgpu():
    held = placement()
    made = driver(settings("mixed"))
    with cleared():
        held.update(made)
        (request, _), *_ = held.candidates(resources__VGPU=1)
        server, allocations = held.claim(request)
        (uuid,) = made._allocate_mdevs(allocations)
        with virt.Domain([], devices=_nova_hostdev(made, uuid)) as domain:
            instance = _instance(domain)
            expect_equal(made._get_all_assigned_mediated_devices(), {uuid: instance.uuid})
            expect_equal(made._get_all_assigned_mediated_devices(instance), {uuid: instance.uuid})
            expect_equal(made._get_existing_mdevs_not_assigned(_GPU, [_V4]), set())
            domain.start()
            domain.compute()
            try:
                _suspend_and_resume(made, domain, instance, uuid)
            finally:
                virt.virsh(f"managedsave-remove {domain.name}")
            domain.compute()
            # The next server does not get it.
            (next_uuid,) = made._allocate_mdevs(allocations)
            expect(next_uuid != uuid, "given to two servers")
        expect_equal(made._get_all_assigned_mediated_devices(), {})
        free = made._get_existing_mdevs_not_assigned(_GPU, [_V4])
        expect_equal(free, {uuid, next_uuid})
        held.release(server)


def _suspend_and_resume(made, domain, instance, uuid):
    """By Nova's own methods: the vGPU goes before the memory is saved and comes back after."""
    guest = made._host.get_guest(instance)
    (device,) = made._get_mdevs_from_guest_config(guest.get_xml_desc())
    expect_equal(device.uuid, uuid)
    # A guest that does not let go in the 5 s that libvirt waits. Nova does not look.
    virt.virsh(f"suspend {domain.name}")
    try:
        made.suspend(None, instance)
    except libvirt.libvirtError as error:
        documented(str(error))
    else:
        expect(False, "the memory was saved with the vGPU in the guest")
    virt.virsh(f"resume {domain.name}")
    wait_for(lambda: uuid not in domain.live_xml(), virt.GUEST_SECONDS, f"{uuid} is not out")
    domain.disconnect()
    begin = time.monotonic()
    made.suspend(None, instance)
    suspended = time.monotonic() - begin
    expect_equal(domain.state(), "shut off")
    # It is still the server's: no other may get it meanwhile.
    expect_equal(made._get_all_assigned_mediated_devices(), {uuid: instance.uuid})
    begin = time.monotonic()
    made.resume(None, instance, network_model.NetworkInfo())
    resumed = time.monotonic() - begin
    expect(uuid in domain.live_xml(), "the vGPU did not come back")
    _wait_gpu(domain)
    figure(f"suspend {suspended:.1f} s, resume {resumed:.1f} s")


# A new driver, and a reboot of the host.


@test("host")
def driver_is_replaced_and_the_same_vgpus_come_back_for_their_servers():
    """What the guide's section "Upgrade" says, with the commands it has."""
    held = placement()
    with cleared():
        made = driver(settings("mixed"))
        held.update(made)
        ((request, gpu),) = held.candidates(resources__VGPU=1)[:1]
        server, allocations = held.claim(request)
        (uuid,) = made._allocate_mdevs(allocations)
        before, offered = compute.vgpu(uuid), made._get_gpu_inventories()
        unload, load = compute.commands("driver")
        run(unload)
        # A vGPU that is defined is all that libvirt has now.
        left = {gpu: _inventory(1)}
        wait_for(
            lambda: made._get_gpu_inventories() == left,
            _SETTLE_S,
            f"inventories are {made._get_gpu_inventories()}, not {left},",
        )
        begin = time.monotonic()
        run(load)
        # Its folder is there a moment before the link to its type.
        wait_for(
            lambda: uuid in compute.vgpus() and compute.vgpu(uuid) == before,
            _SETTLE_S,
            "the vGPU does not come back as it was",
        )
        figure(f"the vGPU is back after {time.monotonic() - begin:.2f} s")
        wait_for(lambda: made._get_gpu_inventories() == offered, _SETTLE_S, "inventories differ")
        made._start_inactive_mediated_devices()
        held.update(made)
        expect_equal(held.usage(gpu), {"VGPU": 1})
        held.release(server)


_KEPT = pathlib.Path("/var/lib/lab-nova")


@test("host")
def vgpus_are_made_before_the_host_reboots():
    compute.remove_all()
    made = driver(settings("mixed"))
    (auto,) = _create(made, _GPU)
    (manual,) = _create(made, _OTHER)
    # As when libvirt could not set it, which Nova only logs.
    run(f"virsh nodedev-autostart --disable mdev_{manual.replace('-', '_')}_0000_00_11_0")
    _KEPT.write_text(f"{auto} {manual}\n")


@test("host", boot=2)
def vgpus_are_back_after_the_reboot_and_nova_starts_the_rest():
    auto, manual = _KEPT.read_text().split()
    made = driver(settings("mixed"))
    # By the driver's own unit, before libvirtd and Nova.
    expect_equal(compute.vgpu(auto), (_FIRST, _V4))
    expect(not made._is_existing_mdev(manual), "started by itself")
    # libvirt lists what is only defined as well, and Nova adds it to what sysfs says is free.
    expect_equal(made._get_gpu_inventories(), {_GPU: _inventory(4), _OTHER: _inventory(9)})
    expect_equal(compute.capacity(_SECOND, _V8), 8)
    begin = time.monotonic()
    made._start_inactive_mediated_devices()
    seconds = time.monotonic() - begin
    expect_equal(compute.vgpu(manual), (_SECOND, _V8))
    listed = sorted(device["uuid"] for device in made._get_mediated_devices())
    expect_equal(listed, sorted((auto, manual)))
    expect_equal(made._get_gpu_inventories(), {_GPU: _inventory(4), _OTHER: _inventory(8)})
    figure(f"started in {seconds:.2f} s")


@test("host", boot=2)
def vgpus_of_before_the_reboot_are_given_again():
    auto, manual = _KEPT.read_text().split()
    held = placement()
    made = driver(settings("mixed"))
    held.update(made)
    for (request, gpu), uuid in zip(held.candidates(resources__VGPU=1), (auto, manual)):
        server, allocations = held.claim(request)
        expect_equal(made._allocate_mdevs(allocations), [uuid])
        expect_equal(compute.vgpu(uuid)[0], {_GPU: _FIRST, _OTHER: _SECOND}[gpu])
        held.release(server)
    compute.remove_all()
    expect_equal(run("mdevctl list --defined"), "")


if __name__ == "__main__":
    main()
