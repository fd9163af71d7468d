# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Neither Neutron nor Cinder: a stub that answers as both would who have nothing.

Nova asks for the ports and the volumes of a server even when it has none. Every list is empty; all
else is 404. Usage: cloud_stub.py PORT, on loopback.
"""

import http.server
import json
import re
import sys

_LISTS = {
    "agents", "attachments", "extensions", "floatingips", "networks", "ports", "quotas",
    "security-groups", "subnets",
}  # fmt: skip


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):  # noqa: N802, the name is the base class's
        """Answers a list, empty."""
        path = self.path.split("?")[0]
        match = re.search(r"/([a-z-]+)(?:/detail)?(?:\.json)?$", path)
        if match and match[1] in _LISTS:
            self._answer(200, {match[1].replace("-", "_"): []})
        elif path in ("/", "/v2.0", "/v2.0/"):
            self._answer(200, {"versions": [], "resources": []})
        else:
            self._answer(404, {"NeutronError": {"type": "NotFound", "message": self.path}})

    def _answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Handler).serve_forever()
