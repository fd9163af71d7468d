# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The root that OpenStack's control plane runs from: Debian's own packages, nothing else.

`setup.py` makes it from this. The databases are made there too, empty and at the release's schema:
that takes longer than a start of the cloud, which copies them (`DATABASES`).
"""

import ast
import pathlib

PACKAGES = (
    "glance-api mariadb-server nova-api nova-conductor nova-scheduler placement-api "
    "python3-openstackclient python3-osc-placement python3-pymysql rabbitmq-server"
).split()

# In the root: MariaDB's directory as a start of the cloud copies it.
DATABASES = "var/lib/turnstile/mysql"

# In the root, while the cloud runs: what it writes, and MariaDB's socket, which no port leads to.
STATE = "/var/lab"
SOCKET = f"{STATE}/mysql.sock"

# Of MariaDB. Nothing here outlives a run, so nothing waits for the disk.
MARIADB = (
    "mariadbd --no-defaults --user=root --skip-networking --performance-schema=off "
    "--innodb-log-file-size=16M --innodb-buffer-pool-size=96M --innodb-doublewrite=0 "
    "--innodb-flush-log-at-trx-commit=0 --innodb-temp-data-file-path=ibtmp1:4M:autoextend "
    f"--skip-log-bin --max-connections=200 --socket={SOCKET}"
).split()


def database(name):
    """SQLAlchemy's address of a database."""
    return f"mysql+pymysql://lab:lab@localhost/{name}?charset=utf8mb4&unix_socket={SOCKET}"


# One cell; where its queue is, the services' own configuration says.
_CELL = "{scheme}://{username}:{password}@{hostname}:{port}/{path}"

# Bytecode of all modules is large and takes a minute; what these programs import is what the
# services import.
_SCRIPT = f"""\
set -e
mkdir -p /{DATABASES}
mariadb-install-db --no-defaults --user=root --datadir=/{DATABASES} --skip-test-db \
  --auth-root-authentication-method=normal --innodb-log-file-size=16M >/dev/null
{" ".join(MARIADB)} --datadir=/{DATABASES} &
server=$!
for i in $(seq 600); do [ -S {SOCKET} ] && break; sleep 0.1; done
for name in nova_api nova nova_cell0 placement glance; do
  echo "CREATE DATABASE $name CHARACTER SET utf8mb3;"
  echo "GRANT ALL ON $name.* TO lab@localhost IDENTIFIED BY 'lab';"
done | mariadb --no-defaults --user=root --socket={SOCKET}
cat >/tmp/nova.conf <<END
[DEFAULT]
transport_url = rabbit://guest:guest@127.0.0.1:5672/
[database]
connection = {database("nova")}
[api_database]
connection = {database("nova_api")}
END
printf '[placement_database]\\nconnection = {database("placement")}\\n' >/tmp/placement.conf
printf '[database]\\nconnection = {database("glance")}\\n' >/tmp/glance.conf
unset PYTHONDONTWRITEBYTECODE
placement-manage --config-file /tmp/placement.conf db sync
glance-manage --config-file /tmp/glance.conf db_sync
nova="nova-manage --config-file /tmp/nova.conf"
$nova api_db sync
$nova cell_v2 map_cell0 --database_connection '{database("nova_cell0")}'
$nova db sync
$nova cell_v2 create_cell --name cell1 --transport-url '{_CELL}' \
  --database_connection '{database("nova")}'
for module in nova.api.openstack.wsgi_app nova.conductor.manager nova.scheduler.manager \
    nova.scheduler.host_manager placement.deploy glance.api.v2.router glance.common.wsgi \
    glance_store._drivers.filesystem openstackclient.shell; do
  python3 -c "import $module"
done
openstack --help >/dev/null
mariadb-admin --no-defaults --user=root --socket={SOCKET} shutdown
wait $server
"""


def script():
    """Shell text that makes the databases, run in the root with the packages in it."""
    return _SCRIPT


def key_parts():
    """What the root depends on besides the function that makes it."""
    source = pathlib.Path(__file__).read_text(encoding="utf-8")
    return [ast.unparse(ast.parse(source))]
