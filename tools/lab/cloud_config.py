# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Configuration of the small cloud's services, of nova-compute in L1 and of the client."""

import json
import re

from cloud_root import STATE, database
from errors import LabError

# noauth2 takes USER:PROJECT for a token; who is called admin is one.
TOKEN = "admin:admin"

# A guest of a guest boots in half a minute, on a busy machine in minutes.
_PATIENCE_S = 600


def _ini(sections):
    lines = []
    for name, options in sections.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in options.items()), ""]
    return "\n".join(lines)


def _clients(host, ports):
    """Sections of nova.conf that say where the other services are, seen from where `host` is L0."""
    token = {"auth_type": "admin_token", "token": TOKEN}
    urls = {name: f"http://{host}:{ports[name]}" for name in ("placement", "glance", "stub")}
    return {
        "placement": {**token, "endpoint": urls["placement"]},
        "glance": {"api_servers": urls["glance"]},
        "neutron": {
            **token,
            "endpoint": urls["stub"],
            "endpoint_override": urls["stub"],
        },
        "cinder": {
            **token,
            "endpoint": urls["stub"],
            "endpoint_template": f"{urls['stub']}/v3/%(project_id)s",
        },
    }


def _rpc(host, ports):
    return {
        "transport_url": f"rabbit://guest:guest@{host}:{ports['amqp']}/",
        # Emulated computers answer late, and are no less alive.
        "rpc_response_timeout": _PATIENCE_S,
    }


_RABBIT = {"heartbeat_timeout_threshold": 0, "amqp_auto_delete": "true"}


def nova(ports):
    """nova.conf of the API, the conductor and the scheduler."""
    return _ini(
        {
            "DEFAULT": {
                **_rpc("127.0.0.1", ports),
                "my_ip": "127.0.0.1",
                "host": "control",
                "state_path": f"{STATE}/nova",
                "service_down_time": _PATIENCE_S,
                # There is one compute host.
                "allow_resize_to_same_host": "true",
                "osapi_compute_listen": "127.0.0.1",
                "osapi_compute_listen_port": ports["nova"],
                "osapi_compute_workers": 1,
                "enabled_apis": "osapi_compute",
            },
            "oslo_messaging_rabbit": _RABBIT,
            "oslo_concurrency": {"lock_path": f"{STATE}/nova"},
            "api": {"auth_strategy": "noauth2"},
            "wsgi": {"api_paste_config": f"{STATE}/etc/api-paste.ini"},
            "api_database": {"connection": database("nova_api")},
            "database": {"connection": database("nova")},
            "conductor": {"workers": 1},
            "scheduler": {"workers": 1, "discover_hosts_in_cells_interval": 5},
            "filter_scheduler": {"track_instance_changes": "false"},
            "quota": {"cores": -1, "ram": -1, "instances": -1},
            "oslo_policy": {"policy_file": f"{STATE}/etc/nova-policy.yaml"},
            **_clients("127.0.0.1", ports),
        }
    )


def nova_paste(text):
    """Nova's api-paste.ini made of Debian's: with noauth_token.py behind noauth2."""
    changed = re.sub(r"^(noauth2 = .* noauth2) ", r"\1 lab_token ", text, flags=re.M)
    if changed == text:
        raise LabError("the lab does not understand the api-paste.ini of this Nova")
    factory = "paste.filter_factory = noauth_token:filter_factory"
    return f"{changed}\n[filter:lab_token]\n{factory}\n"


def nova_policy(ports):
    """Nova's policy: noauth2 makes an administrator, but gives him no role, as Keystone would."""
    del ports
    return '"context_is_admin": "is_admin:True"\n'


def placement(ports):
    """placement.conf."""
    del ports
    return _ini(
        {
            "api": {"auth_strategy": "noauth2"},
            "placement_database": {"connection": database("placement")},
        }
    )


def glance(ports):
    """glance-api.conf: images are files, and everybody may do everything."""
    return _ini(
        {
            "DEFAULT": {
                "bind_host": "127.0.0.1",
                "bind_port": ports["glance"],
                "workers": 1,
                "enabled_backends": "file:file",
                "enabled_import_methods": "[glance-direct]",
                "node_staging_uri": f"file://{STATE}/glance/staging",
                "use_stderr": "true",
            },
            "database": {"connection": database("glance")},
            "glance_store": {"default_backend": "file"},
            "file": {"filesystem_store_datadir": f"{STATE}/glance/images"},
            "os_glance_staging_store": {"filesystem_store_datadir": f"{STATE}/glance/staging"},
            "os_glance_tasks_store": {"filesystem_store_datadir": f"{STATE}/glance/tasks"},
            "oslo_policy": {"policy_file": f"{STATE}/etc/glance-policy.yaml"},
            "paste_deploy": {"config_file": "/etc/glance/glance-api-paste.ini"},
        }
    )


# Without Keystone nobody has a role; who may do what is what Keystone would be for.
_GLANCE_ACTIONS = (
    "default add_image delete_image get_image get_images modify_image publicize_image "
    "download_image upload_image set_image_location delete_image_location get_image_location"
).split()


def glance_policy(ports):
    """Glance's policy: allowed."""
    del ports
    return "".join(f'"{action}": "@"\n' for action in _GLANCE_ACTIONS)


def rabbitmq(ports):
    """rabbitmq.conf."""
    return (
        f"listeners.tcp.1 = 127.0.0.1:{ports['amqp']}\n"
        "log.console = true\nlog.console.level = warning\nlog.file = false\n"
        # OpenStack's queues are transient, which RabbitMQ 4 advises against.
        "deprecated_features.permit.transient_nonexcl_queues = true\n"
    )


def compute(ports, gpus):
    """nova.conf of nova-compute in L1, to which L0 is 10.0.2.2.

    `gpus`: [(PCI address, type id)], one type for each GPU.
    """
    types = dict.fromkeys(type_id for _, type_id in gpus)
    sections = {
        "DEFAULT": {
            **_rpc("10.0.2.2", ports),
            "my_ip": "10.0.2.15",
            "state_path": "/var/lib/nova",
            "instances_path": "/var/lib/nova/instances",
            "compute_driver": "libvirt.LibvirtDriver",
            "resume_guests_state_on_host_boot": "true",
            # Two servers that start at once could be given the same vGPU (docs/openstack.md).
            "max_concurrent_builds": 1,
            # The lab's guests know no power button.
            "shutdown_timeout": 0,
            "reserved_host_memory_mb": 0,
            "resize_confirm_window": 0,
            "allow_resize_to_same_host": "true",
            "use_stderr": "true",
        },
        "oslo_messaging_rabbit": _RABBIT,
        "oslo_concurrency": {"lock_path": "/var/lib/nova/tmp"},
        "workarounds": {"skip_cpu_compare_on_dest": "true", "skip_cpu_compare_at_startup": "true"},
        "libvirt": {
            "virt_type": "kvm",
            "cpu_mode": "host-passthrough",
            "images_type": "raw",
            "use_virtio_for_bridges": "true",
            "swtpm_enabled": "false",
        },
        "filter_scheduler": {"track_instance_changes": "false"},
        "vnc": {"enabled": "false"},
        "spice": {"enabled": "false"},
        "devices": {"enabled_mdev_types": ",".join(types)},
        **_clients("10.0.2.2", ports),
    }
    for type_id in types:
        addresses = ",".join(address for address, its_type in gpus if its_type == type_id)
        sections[f"mdev_{type_id}"] = {"device_addresses": addresses}
    return _ini(sections)


def clouds(ports):
    """clouds.yaml of the client (JSON is YAML)."""
    urls = {name: f"http://127.0.0.1:{ports[name]}" for name in ("nova", "placement", "glance")}
    cloud = {
        "auth_type": "admin_token",
        "auth": {"endpoint": urls["placement"]},
        "token": TOKEN,
        "compute_endpoint_override": f"{urls['nova']}/v2.1",
        "image_endpoint_override": urls["glance"],
        "placement_endpoint_override": urls["placement"],
        "network_endpoint_override": f"http://127.0.0.1:{ports['stub']}",
        "compute_default_microversion": "2.96",
        "placement_api_version": "1.39",
    }
    return json.dumps({"clouds": {"turnstile": cloud}}, indent=2) + "\n"
