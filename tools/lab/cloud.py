# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A small real OpenStack on this machine's loopback: what `./lab cloud` and the suite `nova` use.

Nova's API, conductor and scheduler, Placement, Glance, RabbitMQ and MariaDB, each Debian's, run
natively, from a root of the cache; nova-compute runs in L1. There is no Keystone (`noauth2`), and
Neutron and Cinder are a stub (cloud_stub.py): servers have no network and no volumes.
"""

import dataclasses
import http.client
import json
import os
import pathlib
import shlex
import shutil
import socket
import stat
import subprocess
import time

import cloud_config
import cloud_root
import process
from errors import LabError
from progress import Progress

_HERE = pathlib.Path(__file__).parent
_PORTS = ("amqp", "epmd", "erlang", "nova", "placement", "glance", "stub")

# Those of a group start together, after those of the one before.
_GROUPS = (
    ("mariadb", "rabbitmq", "stub"),
    ("nova", "nova-conductor", "nova-scheduler", "glance", "placement"),
)

# Of a service, until it answers: the machine may be busy.
_START_SECONDS = 300

# Programs of the services. @NAME@ is a port. uwsgi closes a connection after each answer; a client
# that is not told so may send its next request into one that is being closed.
_RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"
_UWSGI = (
    "uwsgi --plugins python3 --master --die-on-term --need-app --lazy-apps --enable-threads "
    "--processes {processes} --threads {threads} --buffer-size 65535 --listen 64 "
    "--disable-logging --add-header Connection:close "
    "--http-socket 127.0.0.1:@{name}@ --wsgi-file {application}"
)


@dataclasses.dataclass(frozen=True)
class _Service:
    """How one is started, and what tells that it is up: a port that answers, a socket, or Nova."""

    title: str
    argv: list
    weight: float
    http: str = ""
    tcp: str = ""
    socket: str = ""
    binary: str = ""
    env: dict = dataclasses.field(default_factory=dict)


def _services():
    state = cloud_root.STATE
    config = f"{state}/etc"
    rabbit = {
        "HOME": f"{state}/rabbitmq",
        "RABBITMQ_NODENAME": "turnstile@localhost",
        "RABBITMQ_MNESIA_BASE": f"{state}/rabbitmq",
        "RABBITMQ_LOG_BASE": f"{state}/rabbitmq",
        "RABBITMQ_PID_FILE": f"{state}/rabbitmq/pid",
        "RABBITMQ_CONFIG_FILE": f"{config}/rabbitmq.conf",
        "RABBITMQ_ENABLED_PLUGINS_FILE": f"{state}/rabbitmq/plugins",
        "RABBITMQ_FEATURE_FLAGS_FILE": f"{state}/rabbitmq/feature_flags",
        "RABBITMQ_DIST_PORT": "@erlang@",
        "ERL_EPMD_PORT": "@epmd@",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none "
        "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    nova = ["--config-file", f"{config}/nova.conf"]
    placement = _UWSGI.format(
        name="placement", processes=1, threads=4, application="/usr/bin/placement-api"
    )
    return {
        "mariadb": _Service(
            "MariaDB",
            [*cloud_root.MARIADB, f"--datadir={state}/mysql"],
            2,
            socket="mysql.sock",
        ),
        "rabbitmq": _Service("RabbitMQ", [_RABBITMQ], 8, tcp="amqp", env=rabbit),
        "stub": _Service(
            "stub of Neutron and Cinder",
            ["python3", f"{state}/cloud_stub.py", "@stub@"],
            1,
            http="stub",
        ),
        "placement": _Service(
            "Placement",
            placement.split(),
            4,
            http="placement",
            env={"OS_PLACEMENT_CONFIG_DIR": config},
        ),
        "glance": _Service(
            "Glance",
            ["glance-api", "--config-file", f"{config}/glance-api.conf"],
            4,
            http="glance",
        ),
        "nova-conductor": _Service(
            "Nova's conductor", ["nova-conductor", *nova], 3, binary="nova-conductor"
        ),
        "nova-scheduler": _Service(
            "Nova's scheduler", ["nova-scheduler", *nova], 3, binary="nova-scheduler"
        ),
        "nova": _Service(
            "Nova's API", ["nova-api", *nova], 6, http="nova", env={"PYTHONPATH": state}
        ),
    }


class Cloud:
    """The control plane: `with Cloud(lab, directory) as cloud` is up, and gone afterwards.

    `directory` is of this run; all that the services write is below it, their logs in logs/. Not
    for several threads.
    """

    def __init__(self, lab, directory):
        self._root = lab.cloud
        self._dir = pathlib.Path(directory)
        self._children = {}
        self.ports = {}

    def __enter__(self):
        try:
            self._prepare()
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_):
        self._stop()

    # Start and end.

    def _prepare(self):
        for name in ("etc", "logs", "nova", "rabbitmq", "glance/images", "glance/staging"):
            (self._dir / name).mkdir(parents=True)
        shutil.copytree(self._root / cloud_root.DATABASES, self._dir / "mysql")
        for name in ("cloud_stub.py", "noauth_token.py"):
            shutil.copy(_HERE / name, self._dir)
        paste = (self._root / "etc/nova/api-paste.ini").read_text(encoding="utf-8")
        (self._dir / "etc/api-paste.ini").write_text(
            cloud_config.nova_paste(paste), encoding="utf-8"
        )
        (self._dir / "rabbitmq/plugins").write_text("[].\n", encoding="ascii")
        self.ports = _free_ports(_PORTS)
        for name, text in {
            "nova.conf": cloud_config.nova,
            "nova-policy.yaml": cloud_config.nova_policy,
            "placement.conf": cloud_config.placement,
            "glance-api.conf": cloud_config.glance,
            "glance-policy.yaml": cloud_config.glance_policy,
            "rabbitmq.conf": cloud_config.rabbitmq,
            "clouds.yaml": cloud_config.clouds,
        }.items():
            (self._dir / "etc" / name).write_text(text(self.ports), encoding="utf-8")

    def _start(self):
        """Starts them in groups: those of one do not need each other."""
        services = _services()
        progress = Progress(sum(service.weight for service in services.values()))
        try:
            for group in _GROUPS:
                for name in group:
                    self._children[name] = self._launch(name, services[name])
                for name in group:
                    progress.step(services[name].title, services[name].weight)
                    self._wait(name, services[name])
                    progress.step_done("up")
        finally:
            progress.close()

    def _launch(self, name, service):
        def filled(text):
            for port, number in self.ports.items():
                text = text.replace(f"@{port}@", str(number))
            return text

        env = {key: filled(value) for key, value in service.env.items()}
        with open(self._dir / "logs" / f"{name}.log", "ab") as log:
            return process.start(
                process.in_root(
                    self._root,
                    [filled(word) for word in service.argv],
                    [(self._dir, cloud_root.STATE)],
                ),
                env=process.root_env(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _wait(self, name, service):
        deadline = time.monotonic() + _START_SECONDS
        while True:
            self.check()
            if self._is_up(service):
                return
            if time.monotonic() > deadline:
                raise LabError(
                    f"{service.title} does not answer after {_START_SECONDS} s.{self._hint(name)}"
                )
            time.sleep(0.2)

    def _is_up(self, service):
        if service.socket:
            path = self._dir / service.socket
            return path.exists() and stat.S_ISSOCK(path.stat().st_mode)
        if service.tcp:
            return _connects(self.ports[service.tcp])
        if service.http:
            return _answers(self.ports[service.http])
        return service.binary in self.binaries_up()

    def binaries_up(self):
        """Nova's services that have lately said they are there: ["nova-compute", …]."""
        services = self.ask("nova", "GET", "/v2.1/os-services")["services"]
        return [entry["binary"] for entry in services if entry["state"] == "up"]

    def check(self):
        """Raises LabError with the end of its log when a service has ended."""
        for name, child in self._children.items():
            if child.poll() is not None:
                raise LabError(
                    f"{name} ended with status {child.returncode}.{self._hint(name)}"
                )

    def _hint(self, name):
        path = self._dir / "logs" / f"{name}.log"
        lines = path.read_text(errors="replace").splitlines()[-25:] if path.exists() else []
        return f"\nThe end of {path}:\n  " + "\n  ".join(lines)

    def _stop(self):
        for child in reversed(self._children.values()):
            process.stop(child)
        self._children = {}

    # Use.

    @property
    def logs(self):
        """The directory of the services' logs."""
        return self._dir / "logs"

    def compute_config(self, gpus):
        """nova.conf for L1; `gpus` as of cloud_config.compute()."""
        return cloud_config.compute(self.ports, gpus)

    def request(self, service, method, path, body=None, version=""):
        """(status, JSON) of a call to "nova", "placement", "glance"; None where there is no JSON.

        `version`: the microversion of Nova or Placement.
        """
        headers = {"X-Auth-Token": cloud_config.TOKEN, "Accept": "application/json"}
        if version:
            kind = "compute" if service == "nova" else service
            headers["OpenStack-API-Version"] = f"{kind} {version}"
        data = None
        if isinstance(body, bytes):
            data = body
            headers["Content-Type"] = "application/octet-stream"
        elif body is not None:
            data = json.dumps(body)
            headers["Content-Type"] = "application/json"
        port = self.ports[service]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_START_SECONDS)
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, None

    def ask(self, service, method, path, body=None, version=""):
        """The JSON of a call; raises LabError when the service refuses."""
        status, value = self.request(service, method, path, body, version)
        if status >= 300:
            raise LabError(f"{service}: {method} {path}: status {status}: {value}")
        return value

    def write_client(self, path):
        """Writes a program that is `openstack` for this cloud; files are of where it is called."""
        config = f"{cloud_root.STATE}/etc/clouds.yaml"
        argv = ["env", "OS_CLOUD=turnstile", f"OS_CLIENT_CONFIG_FILE={config}", "openstack"]
        binds = [(self._dir, cloud_root.STATE), ("@here@", "/run/here")]
        words = process.in_root(self._root, [*argv, "@arguments@"], binds, cwd="/run/here")
        text = shlex.join(words).replace("@arguments@", '"$@"').replace("@here@", '"$PWD"')
        environment = shlex.join(f"{key}={value}" for key, value in process.root_env().items())
        path.write_text(f"#!/bin/sh\nexec env -i {environment} {text}\n", encoding="utf-8")
        path.chmod(0o755)


def _free_ports(names):
    """{name: port} of loopback, all different and free now."""
    sockets = {}
    try:
        for name in names:
            sockets[name] = socket.socket()
            sockets[name].bind(("127.0.0.1", 0))
        return {name: entry.getsockname()[1] for name, entry in sockets.items()}
    finally:
        for entry in sockets.values():
            entry.close()


def _connects(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 2):
            return True
    except OSError:
        return False


def _answers(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
