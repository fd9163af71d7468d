# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Errors the lab reports to its user."""


class LabError(Exception):
    """Something the user can act on.

    The text is the whole message: what failed, why, and what to do. `exit_status` becomes the
    lab's.
    """

    def __init__(self, message, exit_status=1):
        super().__init__(message)
        self.exit_status = exit_status
