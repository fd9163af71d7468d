# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Nova's libvirt driver on this host, and a Placement that it reports to. Inside the L1 of OpenStack.

Both are Debian's, in this process: no service of theirs runs, no database server, no message queue.
What the driver does goes to the real libvirtd; what it reports goes through Nova's own client, by
HTTP, to Placement's own application.

Import it before all else: Nova replaces what waits in Python's library (eventlet).
"""

import nova.monkey_patch  # noqa: F401, first of all

import contextlib
import json
import logging
import os
import pathlib
import re
import sys
import urllib.request
import uuid as uuid_module

sys.path[:0] = ["/opt/turnstile/lab", "/lab/tests"]

import eventlet
import eventlet.wsgi
import libvirt
import nova.conf
import nova.context
from nova import objects
from nova.scheduler import utils as scheduler_utils
from nova.scheduler.client import report
from nova.virt import virtapi
from nova.virt.libvirt import driver as nova_driver
from placement import wsgi as placement_wsgi

from tap import Failure, expect, expect_equal, wait_for

NODE = "turnstile-l1"
GUIDE = pathlib.Path("/opt/turnstile/docs/openstack.md")
CONF = nova.conf.CONF

_DIRECTORY = pathlib.Path("/tmp/openstack")
_BUS = pathlib.Path("/sys/class/mdev_bus")
_DEVICES = pathlib.Path("/sys/bus/mdev/devices")
# libvirtd learns from udev what has come and gone; the machine may be busy.
_SETTLE_SECONDS = 120


# The host as sysfs has it.


def gpus():
    """The PCI addresses of all GPUs."""
    return sorted(entry.name for entry in _BUS.iterdir())


def node_name(address):
    """libvirt's name of a GPU."""
    return "pci_" + re.sub("[:.]", "_", address)


def types(address):
    """{type: (name, available instances)} of a GPU."""
    found = {}
    for entry in (_BUS / address / "mdev_supported_types").iterdir():
        name = (entry / "name").read_text().strip()
        found[entry.name] = (name, int((entry / "available_instances").read_text()))
    return found


def capacity(address, type_id):
    """How many vGPUs of a type the GPU has, and can have besides."""
    entry = _BUS / address / "mdev_supported_types" / type_id
    made = len(list((entry / "devices").iterdir()))
    return made + int((entry / "available_instances").read_text())


def vgpu(uuid):
    """(PCI address of its GPU, type) of a vGPU. Fails when it is not there."""
    device = _DEVICES / uuid
    expect(device.exists(), f"there is no vGPU {uuid}")
    return device.resolve().parent.name, (device / "mdev_type").resolve().name


def vgpus():
    """The UUIDs of all vGPUs; none as well while the kernel has no `mdev`."""
    return sorted(entry.name for entry in _DEVICES.glob("*"))


# Nova.

_BASE = """\
[DEFAULT]
host = turnstile-l1
state_path = /var/lib/nova
cpu_allocation_ratio = 16
[libvirt]
connection_uri = qemu:///system
virt_type = kvm
[placement]
auth_type = admin_token
endpoint = {endpoint}
token = admin
"""


def settings(name):
    """The nova.conf that the guide has in its fence ```ini NAME."""
    return _fence("ini", name)


def commands(name):
    """The commands that the guide has in its fence ```sh NAME, one per line."""
    return _fence("sh", name).splitlines()


def _fence(language, name):
    match = re.search(rf"^```{language} {name}\n(.*?)^```$", GUIDE.read_text(), re.S | re.M)
    expect(match, f"{GUIDE.name} has no ```{language} {name}")
    return match[1]


def documented(message):
    """Fails unless a first column of the guide's tables has what Nova says; returns it."""
    cells = re.findall(r"^\| (.*?) \| ", GUIDE.read_text(), re.M)
    for shown in (text for cell in cells for text in re.findall(r"`([^`]+)`", cell)):
        if re.search(".*".join(re.escape(part) for part in shown.split("…")), message):
            return message
    raise Failure(f"{GUIDE.name} does not have: {message}")


class _Manager(virtapi.VirtAPI):
    """What the driver wants of the compute manager: to wait for networks, which no server here has."""

    @contextlib.contextmanager
    def wait_for_instance_event(self, *_, **__):
        yield


_host = None


def driver(text):
    """The LibvirtDriver of a nova-compute that starts with `text` in its nova.conf."""
    global _host
    _DIRECTORY.mkdir(exist_ok=True)
    path = _DIRECTORY / "nova.conf"
    endpoint = _placement.endpoint if _placement else "http://127.0.0.1:9"
    path.write_text(_BASE.format(endpoint=endpoint) + text)
    CONF([], project="nova", default_config_files=[str(path)])
    made = nova_driver.LibvirtDriver(_Manager())
    if _host is None:
        objects.register_all()
        _host = made._host
        _host._conn_event_handler = None  # it would tell the service's record in the database
        _host.initialize()
    made._host = _host
    return made


@contextlib.contextmanager
def said():
    """What Nova's driver logs meanwhile: a list of messages."""
    messages = []

    class Keeper(logging.Handler):
        def emit(self, record):
            messages.append(record.getMessage())

    logger = logging.getLogger("nova.virt.libvirt.driver")
    keeper, level = Keeper(), logger.level
    logger.addHandler(keeper)
    logger.setLevel(logging.DEBUG)
    try:
        yield messages
    finally:
        logger.setLevel(level)
        logger.removeHandler(keeper)


def _node_devices():
    connection = libvirt.open("qemu:///system")
    try:
        return {
            device.name(): device
            for device in connection.listAllDevices(
                libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV
                | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_INACTIVE
                | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_ACTIVE
            )
        }
    finally:
        connection.close()


def remove_all():
    """Removes all vGPUs and their definitions; returns when libvirtd has none any more."""
    for device in _node_devices().values():
        if device.isActive():
            device.destroy()
        if device.isPersistent():
            device.undefine()
    wait_for(lambda: not _node_devices(), _SETTLE_SECONDS, "libvirtd still has vGPUs")
    expect_equal(vgpus(), [])


@contextlib.contextmanager
def cleared():
    """A host without vGPUs, before and after the block."""
    remove_all()
    before = {address: types(address) for address in gpus()}
    try:
        yield
    finally:
        remove_all()
    expect_equal({address: types(address) for address in gpus()}, before)


# Placement.

_PLACEMENT = """\
[DEFAULT]
log_file = {directory}/placement.log
[api]
auth_strategy = noauth2
[placement_database]
connection = sqlite:///{directory}/placement.sqlite
sync_on_startup = true
"""

_placement = None


class Placement:
    """Placement with an empty database; one compute node reports to it."""

    def __init__(self):
        self._uuid = str(uuid_module.uuid4())
        self._context = nova.context.get_admin_context()
        self._client = None
        _DIRECTORY.mkdir(exist_ok=True)
        (_DIRECTORY / "placement.conf").write_text(_PLACEMENT.format(directory=_DIRECTORY))
        (_DIRECTORY / "placement.sqlite").unlink(missing_ok=True)
        os.environ["OS_PLACEMENT_CONFIG_DIR"] = str(_DIRECTORY)
        application = placement_wsgi.init_application()
        listener = eventlet.listen(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
        eventlet.spawn(eventlet.wsgi.server, listener, application, log_output=False)

    def request(self, method, path, body=None):
        """The answer to a request of an administrator; None when it has no text."""
        request = urllib.request.Request(
            self.endpoint + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "X-Auth-Token": "admin",
                "OpenStack-API-Version": "placement 1.36",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=_SETTLE_SECONDS) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def client(self):
        """Nova's client of it. There must be a driver(): it has read where Placement is."""
        if self._client is None:
            self._client = report.SchedulerReportClient()
        return self._client

    def update(self, made):
        """The driver `made` reports, as the resource tracker lets it once a minute."""
        tree = self.client().get_provider_tree_and_ensure_root(self._context, self._uuid, NODE)
        made.update_provider_tree(tree, NODE)
        self.client().update_from_provider_tree(self._context, tree)

    def providers(self):
        """{name: UUID} of all providers."""
        listing = self.request("GET", "/resource_providers")["resource_providers"]
        return {provider["name"]: provider["uuid"] for provider in listing}

    def inventories(self):
        """{GPU's name in libvirt: {class: inventory}}, as it holds them."""
        held = {}
        for name, uuid in self.providers().items():
            if name != NODE:
                answer = self.request("GET", f"/resource_providers/{uuid}/inventories")
                held[name.removeprefix(NODE + "_")] = answer["inventories"]
        return held

    def usage(self, gpu):
        """{class: used} of a GPU."""
        uuid = self.providers()[f"{NODE}_{gpu}"]
        return self.request("GET", f"/resource_providers/{uuid}/usages")["usages"]

    def set_traits(self, gpu, traits):
        """Gives a GPU the traits of an administrator."""
        for trait in traits:
            self.request("PUT", f"/traits/{trait}")
        path = f"/resource_providers/{self.providers()[f'{NODE}_{gpu}']}/traits"
        generation = self.request("GET", path)["resource_provider_generation"]
        body = {"traits": traits, "resource_provider_generation": generation}
        self.request("PUT", path, body)

    def traits(self, gpu):
        """The traits that a GPU has."""
        path = f"/resource_providers/{self.providers()[f'{NODE}_{gpu}']}/traits"
        return sorted(self.request("GET", path)["traits"])

    def candidates(self, **properties):
        """What the scheduler is offered for a flavor: [(request, GPU's name in libvirt)].

        In the properties' names `__` stands for a colon, as in trait__CUSTOM_X.
        """
        names = {uuid: name.removeprefix(NODE + "_") for name, uuid in self.providers().items()}
        flavor = objects.Flavor(
            vcpus=1, memory_mb=64, root_gb=0, ephemeral_gb=0, swap=0,
            extra_specs={k.replace("__", ":"): str(v) for k, v in properties.items()},
        )  # fmt: skip
        spec = objects.RequestSpec(
            flavor=flavor, image=None, is_bfv=False, numa_topology=None, requested_resources=[],
            pci_requests=objects.InstancePCIRequests(requests=[]),
        )  # fmt: skip
        wanted = scheduler_utils.ResourceRequest.from_request_spec(spec)
        requests, _, _ = self.client().get_allocation_candidates(self._context, wanted)
        expect(requests is not None, "Placement did not answer")
        return sorted(
            ((request, names[uuid])
             for request in requests for uuid in request["allocations"] if names[uuid] != NODE),
            key=lambda pair: pair[1],
        )  # fmt: skip

    def claim(self, request):
        """Books a candidate for a new server; returns its UUID and allocations, as Nova reads them."""
        server = str(uuid_module.uuid4())
        user = str(uuid_module.uuid4())
        booked = self.client().claim_resources(self._context, server, request, user, user, "1.36")
        expect(booked, "Placement does not take the claim")
        found = self.client().get_allocs_for_consumer(self._context, server)
        return server, found["allocations"]

    def release(self, server):
        """The server is deleted."""
        self.request("DELETE", f"/allocations/{server}")


def placement():
    """The Placement of this process, made when it is first asked for; before driver()."""
    global _placement
    if _placement is None:
        _placement = Placement()
    return _placement
