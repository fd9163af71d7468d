# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The small cloud as its users see it, for tests inside its compute host: Nova, Placement, servers.

/lab/tests/cloud.json says where the services are, which GPUs there are and what they are called.
"""

import contextlib
import json
import pathlib
import re
import time
import urllib.error
import urllib.request

from tap import Failure, expect_equal, run, wait_for

# Of everything that waits for a guest, or for Nova to do something to one: both are emulated, and
# the machine may be busy.
SECONDS = 1500

_SETTINGS = json.loads(pathlib.Path("/lab/tests/cloud.json").read_text(encoding="utf-8"))
_COMPUTE = "compute 2.96"
_PLACEMENT = "placement 1.39"
_MDEVS = pathlib.Path("/sys/bus/mdev/devices")

# {PCI address: (type id, trait)}.
GPUS = {address: (type_id, trait) for address, type_id, trait in _SETTINGS["gpus"]}


def _call(service, version, method, path, body=None):
    """(status, JSON or None)."""
    request = urllib.request.Request(
        _SETTINGS["urls"][service] + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "X-Auth-Token": _SETTINGS["token"],
            "OpenStack-API-Version": version,
            "Content-Type": "application/json",
            "Accept": "application/json",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            status, text = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read()
    return status, json.loads(text) if text.startswith((b"{", b"[")) else None


def nova(method, path, body=None, status=None):
    """Asks Nova's API; returns the JSON. Fails unless it answers `status`, or with success."""
    got, value = _call("nova", _COMPUTE, method, f"/v2.1{path}", body)
    if got != status and not (status is None and got < 300):
        raise Failure(f"Nova: {method} {path}: status {got}: {value}")
    return value


def placement(method, path, body=None):
    """Asks Placement; returns the JSON. Fails unless it succeeds."""
    got, value = _call("placement", _PLACEMENT, method, path, body)
    if got >= 300:
        raise Failure(f"Placement: {method} {path}: status {got}: {value}")
    return value


# Placement.


def provider(address):
    """The UUID of a GPU's resource provider."""
    (found,) = _providers(address)
    return found["uuid"]


def _providers(address):
    name = "turnstile-l1_pci_" + re.sub("[:.]", "_", address)
    return placement("GET", f"/resource_providers?name={name}")["resource_providers"]


def inventory(address):
    """{resource class: total} of a GPU's provider."""
    path = f"/resource_providers/{provider(address)}/inventories"
    return {name: entry["total"] for name, entry in placement("GET", path)["inventories"].items()}


def used(address):
    """How much VGPU of a GPU is in use."""
    path = f"/resource_providers/{provider(address)}/usages"
    return placement("GET", path)["usages"].get("VGPU", 0)


def usage():
    """{PCI address: VGPU in use} of all GPUs."""
    return {address: used(address) for address in GPUS}


def set_trait(address, trait):
    """Adds a custom trait to a GPU's provider."""
    placement("PUT", f"/traits/{trait}")
    path = f"/resource_providers/{provider(address)}/traits"
    body = placement("GET", path)
    body["traits"] = sorted({*body["traits"], trait})
    placement("PUT", path, body)


# The host.


def start_compute():
    """Starts nova-compute and waits until Nova and Placement know the host and its GPUs."""
    run("/opt/turnstile/lab/compute", timeout=SECONDS)
    # It looks around after it has told systemd that it is up.
    wait_for(lambda: all(_providers(a) for a in GPUS), SECONDS, "no provider for each GPU")
    wait_for(hosts, SECONDS, "Nova does not know the host")
    wait_for(_is_up, SECONDS, "nova-compute does not say that it is there")


def hosts():
    """The compute hosts that servers can be put on."""
    return [h["hypervisor_hostname"] for h in nova("GET", "/os-hypervisors")["hypervisors"]]


def _is_up():
    path = "/os-services?binary=nova-compute"
    return [entry["state"] for entry in nova("GET", path)["services"]] == ["up"]


def mdevs():
    """{UUID: (PCI address of its GPU, type id)} of the mediated devices that there are."""
    return {
        path.name: (path.resolve().parent.name, (path / "mdev_type").resolve().name)
        for path in sorted(_MDEVS.iterdir())
    }


class Server:
    """A server of Nova's. `marks`: what wait_computed() takes for old, see there."""

    def __init__(self, uuid, marks=()):
        self.uuid = uuid
        self.marks = set(marks)

    def show(self):
        """Nova's record of it."""
        return nova("GET", f"/servers/{self.uuid}")["server"]

    def act(self, action, arguments=None):
        """Asks for an action, which may take its time."""
        nova("POST", f"/servers/{self.uuid}/action", {action: arguments})

    def wait(self, *status, may_fail=False):
        """Waits until it has one of `status` and nothing is being done; returns its record.

        Fails when what was last asked for went wrong, unless it `may_fail`: Nova then has left the
        server as it was.
        """
        deadline = time.monotonic() + SECONDS
        while True:
            record = self.show()
            idle = record["OS-EXT-STS:task_state"] is None
            if record["status"] in status and idle:
                if not may_fail:
                    self._check_last_action()
                return record
            if record["status"] == "ERROR" and idle or time.monotonic() > deadline:
                raise Failure(
                    f"{record['name']} is {record['status']}, {record['OS-EXT-STS:task_state']}, "
                    f"not {' or '.join(status)}: {record.get('fault', {}).get('message')}\n"
                    + self.console()[-1500:]
                )
            time.sleep(2)

    def _check_last_action(self):
        path = f"/servers/{self.uuid}/os-instance-actions"
        last = nova("GET", path)["instanceActions"][0]
        if last["message"] == "Error":
            events = nova("GET", f"{path}/{last['request_id']}")["instanceAction"]["events"]
            text = "".join(str(event["traceback"]) for event in events)
            raise Failure(f"{last['action']} went wrong: {text[-1500:]}")

    def wait_error(self):
        """Waits until Nova has given it up; returns why."""
        deadline = time.monotonic() + SECONDS
        while True:
            record = self.show()
            if record["status"] == "ERROR" and "fault" in record:
                return record["fault"]["message"]
            if record["status"] == "ACTIVE" or time.monotonic() > deadline:
                raise Failure(f"{record['name']} is {record['status']}, not in error")
            time.sleep(2)

    def uuids(self):
        """The mediated devices of its domain."""
        return re.findall("<address uuid='(.*?)'", run(f"virsh -q dumpxml {self.uuid}"))

    def allocated(self):
        """{PCI address: VGPU} that Placement has given it."""
        got = placement("GET", f"/allocations/{self.uuid}")["allocations"]
        return {
            address: got[provider(address)]["resources"]["VGPU"]
            for address in GPUS
            if provider(address) in got
        }

    def console(self):
        """What its guest has said so far, of the last time that its QEMU was started."""
        path = pathlib.Path(f"/var/lib/nova/instances/{self.uuid}/console.log")
        return path.read_text(errors="replace").replace("\r", "") if path.exists() else ""

    def wait_computed(self):
        """Waits until the guest has used its vGPU once more, its programs' results verified.

        Each use leaves another mark, so one is new when its mark is. Returns (in how many places
        it found marks of former tenants, in how many its own one).
        """
        deadline = time.monotonic() + SECONDS
        while True:
            reports = list(_REPORT.finditer(self.console()))
            new = [report for report in reports if report["mark"] not in self.marks]
            if new:
                self.marks |= {report["mark"] for report in reports}
                expect_equal(new[-1]["result"], "vecadd and sgemm verified")
                return int(new[-1]["former"]), int(new[-1]["own"])
            if time.monotonic() > deadline:
                raise Failure(f"the guest has not computed:\n{self.console()[-3000:]}")
            time.sleep(1)

    def delete(self):
        """Deletes it and waits until it is gone."""
        nova("DELETE", f"/servers/{self.uuid}")
        deadline = time.monotonic() + SECONDS
        while _call("nova", _COMPUTE, "GET", f"/v2.1/servers/{self.uuid}")[0] != 404:
            if time.monotonic() > deadline:
                raise Failure(f"not deleted: {self.show()}")
            time.sleep(2)


# What cloud-guest-init says, once per vGPU that the guest gets.
_REPORT = re.compile(
    r"^tenant: has a GPU, marks of former tenants in (?P<former>\d+) of \d+ places\n"
    r"(?:(?!tenant:).*\n)*"
    r"tenant: (?P<result>.*)\n"
    r"(?:(?!tenant:).*\n)*"
    r"tenant: (?P<mark>TENT\w{4}), marks now in (?P<own>\d+) of \d+ places$",
    re.M,
)


def create(name, flavor, count=1):
    """Asks Nova for `count` servers, all or none; returns those there are, whatever their state."""
    body = {
        "name": name,
        "flavorRef": flavor,
        "imageRef": _SETTINGS["image"],
        "networks": "none",
        "min_count": count,
        "max_count": count,
        "return_reservation_id": count > 1,
    }
    made = nova("POST", "/servers", {"server": body})
    if count == 1:
        return [Server(made["server"]["id"])]
    path = f"/servers?reservation_id={made['reservation_id']}&all_tenants=1"
    return [Server(entry["id"]) for entry in nova("GET", path)["servers"]]


def console_of(made):
    """What Nova says is on a server's console."""
    path = f"/servers/{made.uuid}/action"
    return nova("POST", path, {"os-getConsoleOutput": {}})["output"]


def servers():
    """All servers there are, by name."""
    return {entry["name"]: Server(entry["id"]) for entry in nova("GET", "/servers")["servers"]}


@contextlib.contextmanager
def server(name, flavor):
    """A server that is up and gone afterwards."""
    (made,) = create(name, flavor)
    try:
        made.wait("ACTIVE")
        yield made
    finally:
        made.delete()
