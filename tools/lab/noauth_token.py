# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A filter for nova-api behind noauth2: the request's token is one for Glance and Neutron as well.

noauth2 makes a context of the token and drops it, and Nova's clients of the other services refuse
to work without one, though these, here, look at none.
"""


class _Filter:
    def __init__(self, application):
        self._application = application

    def __call__(self, environ, start_response):
        context = environ.get("nova.context")
        if context is not None:
            context.auth_token = environ.get("HTTP_X_AUTH_TOKEN")
        return self._application(environ, start_response)


def filter_factory(global_conf, **local_conf):
    """For paste; nothing can be set."""
    del global_conf, local_conf
    return _Filter
