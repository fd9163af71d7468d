# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""turnstile-exporter, the dashboard and turnstile-smi's metrics against Debian's Prometheus.

In the package box, with the programs of the packages (PROGRAMS: a folder with usr/) and the captured
host of tests/unit/smi/data.
"""

import contextlib
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

sys.path[:0] = ["/tests/boot", "/tests/unit/smi"]

import tree
from tap import Failure, expect, expect_equal, main, test, wait_for

_PROGRAMS = pathlib.Path(os.environ["PROGRAMS"])
_EXPORTER = _PROGRAMS / "usr/bin/turnstile-exporter"
_SMI = _PROGRAMS / "usr/bin/turnstile-smi"
_DASHBOARD = _PROGRAMS / "usr/share/turnstile/turnstile-grafana.json"
_GUIDE = pathlib.Path("/docs/turnstile-smi.md")
# The vGPU on which ts104-run computes, and what second.tree says of its GR time 2.75 s later.
_UUID = "6c1f0d0e-2f5a-4b0e-9a53-1d2f6d1b7a02"
_BOX = ("12", "13")


@contextlib.contextmanager
def _host(*listings):
    """A folder with these listings of data/, one over the other."""
    with tempfile.TemporaryDirectory() as root:
        for name in listings:
            tree.unpack(root, tree.entries(name))
        yield root


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def _exporter(root):
    """Yields the address of an exporter that looks below `root`."""
    address = f"127.0.0.1:{_free_port()}"
    child = subprocess.Popen(
        [_EXPORTER, "--listen", address, "--root", root], stderr=subprocess.PIPE, text=True
    )
    try:
        expect_equal(child.stderr.readline(), f"turnstile-exporter: http://{address}/metrics\n")
        yield address
    finally:
        child.terminate()
        expect_equal(child.wait(20), 0)


def _get(address, path="/metrics"):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
        return answer.read().decode()


def _samples(text):
    """{name with labels, in their order: value} of metrics text."""
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#"]
    return {name.removesuffix("{}"): float(value) for name, value in lines}


def _smi(root):
    return subprocess.run(
        [_SMI, "--root", root, "metrics"], capture_output=True, text=True, check=True
    ).stdout


@test("box", _BOX)
def exporter_serves_what_smi_prints():
    with _host("first.tree") as root, _exporter(root) as address:
        served = {k: v for k, v in _samples(_get(address)).items() if k.startswith("turnstile_")}
        expect_equal(served.pop("turnstile_driver_up"), 1)
        expect_equal(served, _samples(_smi(root)))


@test("box", _BOX)
def exporter_reads_the_host_anew_for_each_scrape():
    with _host("first.tree") as root, _exporter(root) as address:
        tree.unpack(root, {f"/sys/bus/mdev/devices/{_UUID}/turnstile/weight": ("=", "77\n")})
        weights = [v for k, v in _samples(_get(address)).items() if "_weight" in k and _UUID in k]
        expect_equal(weights, [77])


@test("box", _BOX)
def host_without_the_driver_is_up_0_and_nothing_else():
    with tempfile.TemporaryDirectory() as root, _exporter(root) as address:
        lines = [line for line in _get(address).splitlines() if line.startswith("turnstile_")]
        expect_equal(lines, ["turnstile_driver_up 0"])


@test("box", _BOX)
def promtool_has_nothing_against_the_metrics():
    with _host("first.tree") as root, _exporter(root) as address:
        ours = [line for line in _get(address).splitlines() if "exposer_" not in line]
        result = subprocess.run(
            ["promtool", "check", "metrics"], input="\n".join([*ours, ""]), capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        expect_equal((result.returncode, result.stdout + result.stderr), (0, ""))


@test("box", _BOX)
def address_that_is_taken_or_is_none_is_refused():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        expect_equal(
            _refusal(taken),
            (1, f"turnstile-exporter: cannot listen on {taken}: the port is taken, or the address is "
                "not one of this host\n"),
        )  # fmt: skip
    for wrong in ("9836", "host:0", "host:65536", "::1:9836", "host:", "host:http"):
        status, text = _refusal(wrong)
        expect_equal(status, 2)
        expect(f"'{wrong}' is no address" in text and text.count("\n") == 1, text)


def _refusal(address):
    result = subprocess.run(
        [_EXPORTER, "--listen", address], capture_output=True, text=True, check=False, timeout=60
    )
    return result.returncode, result.stderr


@contextlib.contextmanager
def _openmetrics(root):
    """Serves what turnstile-smi prints as OpenMetrics; yields the address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            text = _smi(root).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/openmetrics-text; version=1.0.0")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


@contextlib.contextmanager
def _prometheus(**targets):
    """A Prometheus that scrapes these jobs every second; yields a function that queries it."""
    with tempfile.TemporaryDirectory() as folder:
        config = "global: {scrape_interval: 1s}\nscrape_configs:\n" + "".join(
            f"- {{job_name: {job}, static_configs: [{{targets: ['{target}']}}]}}\n"
            for job, target in targets.items()
        )
        path = pathlib.Path(folder) / "prometheus.yml"
        path.write_text(config, encoding="utf-8")
        address = f"127.0.0.1:{_free_port()}"
        log = open(f"{folder}/log", "wb")
        child = subprocess.Popen(
            ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address={address}", "--web.enable-lifecycle"],
            stdout=log, stderr=log,
        )  # fmt: skip

        def query(expression):
            answer = json.loads(
                _get(address, "/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
            )
            expect_equal(answer["status"], "success")
            return answer["data"]["result"]

        def ready():
            try:
                return all(query(f'up{{job="{job}"}} == 1') for job in targets)
            except OSError:
                return False

        try:
            wait_for(ready, 120, "Prometheus does not have all targets up")
            yield query
        except Failure as failure:
            text = pathlib.Path(f"{folder}/log").read_text(encoding="utf-8")
            raise Failure(f"{failure}\n{text[-2000:]}") from None
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(60)
            log.close()


@test("box", _BOX)
def prometheus_takes_exporter_and_openmetrics_and_has_the_same():
    with (
        _host("first.tree") as root,
        _exporter(root) as address,
        _openmetrics(root) as other,
        _prometheus(exporter=address, smi=other) as query,
    ):
        for name in ("turnstile_vgpu_engine_run_seconds_total", "turnstile_vgpu_pinned_bytes"):
            values = [
                sorted(float(r["value"][1]) for r in query(f'{name}{{job="{job}"}}'))
                for job in ("exporter", "smi")
            ]
            expect(values[0] and values[0] == values[1], f"{name}: {values}")
        labels = query(f'turnstile_vgpu_open{{job="smi",mdev_uuid="{_UUID}"}}')[0]["metric"]
        expect_equal(labels["mdev_type"], "turnstile-ts104_v8")


def _expressions(instance):
    """{title: [expressions]} of the dashboard's panels, its variables filled in."""
    dashboard = json.loads(_DASHBOARD.read_text(encoding="utf-8"))
    filled = {"$__rate_interval": "1m", "$instance": re.escape(instance), "$gpu": ".+"}
    found = {}
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            text = target["expr"]
            for name, value in filled.items():
                text = text.replace(name, value.replace("\\", "\\\\"))
            expect("$" not in text, f"{panel['title']} has a variable that nobody fills: {text}")
            found.setdefault(panel["title"], []).append(text)
    return found


@test("box", _BOX)
def every_panel_of_the_dashboard_has_data():
    with _host("first.tree") as root, _exporter(root) as address:
        with _prometheus(exporter=address) as query:
            time.sleep(3)
            tree.unpack(root, tree.entries("second.tree"))
            panels = _expressions(address)
            expect_equal(len(panels), 18)

            def empty():
                return [t for t, es in panels.items() for e in es if not query(e)]

            wait_for(lambda: not empty(), 60, f"panels without data: {empty()}")

            def busy():
                (rate,) = [
                    float(r["value"][1])
                    for r in query(panels["Compute engine by vGPU"][0])
                    if r["metric"]["mdev_uuid"] == _UUID
                ]
                return rate

            wait_for(lambda: 0 < busy() <= 1, 60, f"rate of GR time is {busy()}")


@test("box", _BOX)
def promtool_accepts_the_configuration_of_the_guide():
    block = re.search(r"^```yaml\n(scrape_configs:.*?)^```$", _GUIDE.read_text(), re.S | re.M)
    expect(block, f"{_GUIDE.name} has no scrape configuration")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "prometheus.yml"
        path.write_text(block[1], encoding="utf-8")
        result = subprocess.run(
            ["promtool", "check", "config", path], capture_output=True, text=True, check=False
        )
        expect_equal(result.returncode, 0)


if __name__ == "__main__":
    main()
