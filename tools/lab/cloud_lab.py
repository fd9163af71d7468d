# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`./lab cloud`: the control plane (cloud.py), an L1 with two TS104 as its compute host, a user.

The GPUs have a type each, as Nova wants it; flavors choose one by trait.
"""

import contextlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import threading
import time

import artifacts
import build
import cache as cache_module
import cloud as cloud_module
import cloud_config
import host
import process
import setup
from cpio import Cpio
from errors import LabError

_HERE = pathlib.Path(__file__).parent

# (PCI slot, type id, trait of its provider).
GPUS = (
    ("0x10", "turnstile-ts104_v2", "CUSTOM_TS104_HALF"),
    ("0x11", "turnstile-ts104_v1", "CUSTOM_TS104_WHOLE"),
)
_HOST = "turnstile-l1"
# Its tenants fill it, and then it is memory of this machine.
_VRAM = "256M"
# An L1 without KVM on a busy machine: it boots, then Nova is imported and looks around.
_COMPUTE_SECONDS = 1200
_UNIT = "[Service]\nTimeoutStartSec=infinity\n"
# {name: extra specs}.
_FLAVORS = {
    "vgpu": {"resources:VGPU": "1"},
    "vgpu-half": {"resources:VGPU": "1", "trait:CUSTOM_TS104_HALF": "required"},
    "vgpu-whole": {"resources:VGPU": "1", "trait:CUSTOM_TS104_WHOLE": "required"},
    "plain": {},
}
_FLAVOR_MIB = 320
_IMAGE = "ts104-guest"
_CMDLINE = (
    "console=ttyS0 loglevel=5 panic=-1 random.trust_cpu=on tsc=reliable watchdog_thresh=60 "
    "rcupdate.rcu_cpu_stall_timeout=120 iomem=relaxed"
)


def request(lab, cloud, product, command):
    """A host.Request for the compute host of `cloud`, which runs `command` once it has started."""
    addresses = [(_address(slot), type_id) for slot, type_id, _ in GPUS]
    devices = [word for slot, _, _ in GPUS for word in artifacts.device(addr=slot, vram=_VRAM)]
    # L0's loopback is 10.0.2.2 in there.
    devices += ["-netdev", "user,id=cloud", "-device", "virtio-net-pci,netdev=cloud"]
    return host.Request(
        command=command,
        full=True,
        nova=True,
        timeout=86400,
        put={
            **artifacts.files(lab, product, "6.12", installed=True),
            "/etc/nova/nova.conf": cloud.compute_config(addresses).encode(),
            "/etc/systemd/system/nova-compute.service.d/lab.conf": _UNIT.encode(),
            "/opt/turnstile/lab/compute": _HERE / "l1/compute",
        },
        plugin=product.plugin,
        devices=devices,
    )


def settings(cloud, image):
    """What tests/nova/cloud.py wants to know, as JSON."""
    urls = {name: f"http://10.0.2.2:{cloud.ports[name]}" for name in ("nova", "placement")}
    gpus = [(_address(slot), type_id, trait) for slot, type_id, trait in GPUS]
    value = {"urls": urls, "token": cloud_config.TOKEN, "image": image, "gpus": gpus}
    return json.dumps(value).encode()


def _address(slot):
    return f"0000:00:{int(slot, 16):02x}.0"


def providers(cloud):
    """{PCI slot: UUID of its resource provider} of the GPUs that Placement knows so far."""
    listed = cloud.ask("placement", "GET", "/resource_providers", version="1.39")
    found = {}
    for entry in listed["resource_providers"]:
        for slot, _, _ in GPUS:
            if entry["name"] == f"{_HOST}_pci_0000_00_{int(slot, 16):02x}_0":
                found[slot] = entry["uuid"]
    return found


def is_ready(cloud):
    """Whether the compute host takes servers with vGPUs of all GPUs."""
    if len(providers(cloud)) < len(GPUS) or "nova-compute" not in cloud.binaries_up():
        return False
    hypervisors = cloud.ask("nova", "GET", "/v2.1/os-hypervisors")["hypervisors"]
    return bool(hypervisors)


def set_traits(cloud):
    """Gives each GPU's provider the trait of its type, as an operator does."""
    found = providers(cloud)
    for slot, _, trait in GPUS:
        path = f"/resource_providers/{found[slot]}/traits"
        cloud.ask("placement", "PUT", f"/traits/{trait}", version="1.39")
        now = cloud.ask("placement", "GET", path, version="1.39")
        generation = "resource_provider_generation"
        body = {"traits": sorted({*now["traits"], trait}), generation: now[generation]}
        cloud.ask("placement", "PUT", path, body, version="1.39")


def furnish(cloud, lab, product):
    """Makes the flavors and the image of a guest with the TS104 driver; returns its UUID."""
    for name, specs in _FLAVORS.items():
        flavor = {"name": name, "id": name, "ram": _FLAVOR_MIB, "vcpus": 1, "disk": 0}
        cloud.ask("nova", "POST", "/v2.1/flavors", {"flavor": flavor})
        if specs:
            path = f"/v2.1/flavors/{name}/os-extra_specs"
            cloud.ask("nova", "POST", path, {"extra_specs": specs})
    kernel = _upload(cloud, "ts104-guest-kernel", lab.vmlinuz("6.12").read_bytes())
    init = Cpio()
    init.file("init", (_HERE / "l1/cloud-guest-init").read_bytes(), 0o755)
    ramdisk = product.guest_initramfs.read_bytes() + init.finish()
    return _upload(
        cloud,
        _IMAGE,
        bytes(1 << 20),
        kernel_id=kernel,
        ramdisk_id=_upload(cloud, "ts104-guest-ramdisk", ramdisk),
        os_command_line=_CMDLINE,
        hw_machine_type="q35",
    )


def _upload(cloud, name, data, **properties):
    image = {
        "name": name,
        "disk_format": "raw",
        "container_format": "bare",
        "visibility": "public",
        **properties,
    }
    uuid = cloud.ask("glance", "POST", "/v2/images", image)["id"]
    cloud.ask("glance", "PUT", f"/v2/images/{uuid}/file", data)
    return uuid


# What the compute host does; nova-compute's log comes here.
_COMMAND = (
    "tail -q -n +1 -F /var/log/nova/nova-compute.log >&2 2>/dev/null & "
    "/opt/turnstile/lab/compute && exec sleep infinity"
)


class Compute:
    """L1 as the compute host, in a thread of its own, until the lab ends.

    Its standard error goes to the file `log`.
    """

    def __init__(self, lab, cache, wanted, log):
        self._outcome = None
        self._error = None
        arguments = (lab, cache, wanted, log)
        self._thread = threading.Thread(target=self._run, args=arguments, daemon=True)
        self._thread.start()

    def _run(self, lab, cache, wanted, log):
        try:
            with open(log, "wb") as stream:
                self._outcome = host.run(lab, cache, wanted, stream={"err": stream})
        except LabError as error:
            self._error = error

    def end(self):
        """Ends it, and all other children of the lab, and waits until its files are gone."""
        process.stop_all()
        self._thread.join(30)

    def check(self):
        """Raises LabError when L1 has ended."""
        if self._error:
            raise self._error
        if self._outcome:
            raise LabError(f"the compute host ended with status {self._outcome.status}")

    def wait_ready(self, cloud):
        """Waits until `cloud` can use it."""
        deadline = time.monotonic() + _COMPUTE_SECONDS
        while not is_ready(cloud):
            cloud.check()
            self.check()
            if time.monotonic() > deadline:
                raise LabError(
                    f"nova-compute did not offer its GPUs within {_COMPUTE_SECONDS} s; "
                    f"logs: {cloud.logs}"
                )
            time.sleep(2)


_HELP = """
OpenStack runs on this machine's loopback; the compute host is an emulated one with two TS104.
In another terminal:

  PATH={directory}:$PATH
  openstack resource provider list
  openstack server create --flavor vgpu-half --image {image} --nic none first
  openstack server list                   # some minutes later: ACTIVE
  openstack console log show first        # and then: "vecadd and sgemm verified"

More in docs/openstack-cloud.md. Logs: {logs}. Ctrl-C ends it all.
"""


def run(words, control_only):
    """Brings the cloud up; runs `words` in it, or waits for Ctrl-C. Returns a status."""
    cache = cache_module.Cache()
    lab = setup.ensure(cache, nova=not control_only, cloud=True)
    with cache.run_directory() as directory, cloud_module.Cloud(lab, directory / "c") as cloud:
        client = directory / "bin/openstack"
        client.parent.mkdir()
        cloud.write_client(client)
        with contextlib.ExitStack() as stack:
            hosts = [] if control_only else [stack.enter_context(_compute_host(lab, cache, cloud))]
            if words:
                return _run_command(words, client.parent)
            text = _HELP.format(directory=client.parent, image=_IMAGE, logs=cloud.logs)
            print(text, flush=True)
            while True:
                for part in (cloud, *hosts):
                    part.check()
                time.sleep(1)


@contextlib.contextmanager
def _compute_host(lab, cache, cloud):
    """The compute host, ready, with flavors, traits and images."""
    with build.opened(lab, cache) as builder:
        product = builder.parts(build.PARTS, ["6.12"])
        wanted = request(lab, cloud, product, _COMMAND)
        print("lab: the compute host boots", file=sys.stderr, flush=True)
        compute = Compute(lab, cache, wanted, cloud.logs / "nova-compute.log")
        try:
            furnish(cloud, lab, product)
            compute.wait_ready(cloud)
            set_traits(cloud)
            yield compute
        finally:
            compute.end()


def _run_command(words, directory):
    command = words[0] if len(words) == 1 else shlex.join(words)
    env = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}
    return subprocess.run(["/bin/sh", "-c", command], env=env, check=False).returncode
