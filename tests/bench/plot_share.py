#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Draws what `./lab bench share --json FILE` measured: three panels over blocks per kernel.

    tests/bench/plot_share.py FILE.json OUT.svg

Lines are the rig, dots two real guests in the lab, crosses and diamonds a real H200. Only the
standard library is used; `rsvg-convert OUT.svg -w 2250 -o OUT.png` makes a picture of it.
"""

import json
import math
import pathlib
import sys

# Readings of one H200, two processes, 4 s windows: docs/scheduling.md, "Real hardware".
H200_BLOCKS = (16, 64, 132, 264, 528, 2112)
H200_SLICING_RATIO = (1.000, 1.001, 1.000, 1.000, 1.000, 1.000)
H200_MPS_RATIO = (1.00, 1.89, 1.95, 1.74, 1.85, 2.01)
H200_SLICING_THROUGHPUT = (46, 46, 46, 62, 76, 93)

# Colours that can be told apart without red and green. Where lines lie on each other, the thin one
# is seen on the wide one, and two dashed ones in each other's gaps.
POLICIES = {
    "best_effort": ("#b5b5b5", "", 7.0),
    "equal_share": ("#0072b2", "", 2.6),
    "weighted": ("#7fd1b7", "", 7.0),
    "fixed_share": ("#d55e00", "11 13", 2.8),
    "latency": ("#8e1a70", "0 12 11 1", 2.8),
}
_H200 = "#111111"
_INK = "#222222"
_GRID = "#e3e3e3"
_FONT = "DejaVu Sans, Helvetica, Arial, sans-serif"

_WIDTH, _HEIGHT = 1500, 560
_TOP, _BOTTOM = 128, 478
_TICKS = (16, 32, 64, 132, 264, 528, 1056, 2112)


class Svg:
    """Elements of a picture, in the order in which they are drawn."""

    def __init__(self):
        self._parts = []

    def line(self, x1, y1, x2, y2, color, width=1.0, dash=""):
        """A straight line."""
        self._parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
            f'stroke-width="{width}"{_dash(dash)}/>'
        )

    def path(self, points, color, width, dash=""):
        """Lines through `points`."""
        data = " ".join(f"{'ML'[i > 0]}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
        self._parts.append(
            f'<path d="{data}" fill="none" stroke="{color}" stroke-width="{width}" '
            f'stroke-linejoin="round" stroke-linecap="butt"{_dash(dash)}/>'
        )

    def dot(self, x, y, color):
        """A point of the lab."""
        self._parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.6" fill="{color}" stroke="#ffffff" '
            'stroke-width="1.6"/>'
        )

    def cross(self, x, y, color, size=5.0):
        """A reading of time slicing."""
        self.line(x - size, y - size, x + size, y + size, color, 2.2)
        self.line(x - size, y + size, x + size, y - size, color, 2.2)

    def diamond(self, x, y, color, size=6.0):
        """A reading of MPS."""
        self._parts.append(
            f'<path d="M{x:.1f} {y - size:.1f} l{size} {size} l{-size} {size} l{-size} {-size} z" '
            f'fill="#ffffff" stroke="{color}" stroke-width="2"/>'
        )

    def text(self, x, y, text, size=15, anchor="start", color=_INK, weight="normal", turn=0):
        """One line of text."""
        turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{color}" font-weight="{weight}"{turned}>{text}</text>'
        )

    def finish(self):
        """The file's text."""
        body = "\n".join(self._parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
            f'width="{_WIDTH}" height="{_HEIGHT}" font-family="{_FONT}">\n'
            "<!-- SPDX-License-Identifier: GPL-2.0-only OR MIT -->\n"
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>\n{body}\n</svg>\n'
        )


def _dash(pattern):
    return f' stroke-dasharray="{pattern}"' if pattern else ""


class Panel:
    """One diagram: x is blocks per kernel, logarithmic; y linear or logarithmic."""

    def __init__(self, svg, left, right, low, high, logarithmic=False):
        self._svg = svg
        self._left, self._right = left, right
        self._low, self._high = low, high
        self._log = logarithmic

    def x(self, blocks):
        """Where a number of blocks is."""
        first, last = math.log2(_TICKS[0]), math.log2(_TICKS[-1])
        inner = self._right - self._left - 28
        return self._left + 14 + (math.log2(blocks) - first) / (last - first) * inner

    def y(self, value):
        """Where a value is; outside the range: at its border."""
        value = min(max(value, self._low), self._high)
        low, high = self._low, self._high
        if self._log:
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        return _BOTTOM - (value - low) / (high - low) * (_BOTTOM - _TOP)

    def frame(self, title, unit, ticks):
        """Axes, grid and words; `ticks` are (value, label)."""
        svg = self._svg
        for value, label in ticks:
            svg.line(self._left, self.y(value), self._right, self.y(value), _GRID)
            svg.text(self._left - 9, self.y(value) + 5, label, 14, "end")
        for blocks in _TICKS:
            svg.line(self.x(blocks), _BOTTOM, self.x(blocks), _BOTTOM + 5, _INK)
            svg.text(self.x(blocks), _BOTTOM + 22, str(blocks), 13, "middle")
        svg.line(self._left, _BOTTOM, self._right, _BOTTOM, _INK, 1.2)
        svg.line(self._left, _TOP, self._left, _BOTTOM, _INK, 1.2)
        svg.text(self._left, _TOP - 18, title, 16, weight="bold")
        svg.text((self._left + self._right) / 2, _BOTTOM + 46, "blocks per kernel", 14, "middle")
        svg.text(self._left - 56, (_TOP + _BOTTOM) / 2, unit, 14, "middle", turn=-90)

    def curve(self, points, color, width, dash=""):
        """A line through (blocks, value)."""
        self._svg.path([(self.x(b), self.y(v)) for b, v in points], color, width, dash)

    def each(self, draw, points, color):
        """A marker at every (blocks, value) within the range."""
        for blocks, value in points:
            if not self._low <= value <= self._high:
                continue
            draw(self.x(blocks), self.y(value), color)


def _points(report, part, policy, value):
    return sorted((p["blocks"], value(p)) for p in report[part] if p["policy"] == policy)


def _draw_policies(svg, panel, report, value):
    for policy, (color, dash, width) in POLICIES.items():
        panel.curve(_points(report, "rig", policy, value), color, width, dash)
    # Beside each other where they would hide each other.
    for index, (policy, (color, _, _)) in enumerate(POLICIES.items()):
        shift = 2 ** ((index - (len(POLICIES) - 1) / 2) * 0.13)
        points = [(b * shift, v) for b, v in _points(report, "lab", policy, value)]
        panel.each(svg.dot, points, color)


def _legend(svg):
    x = 70
    for policy, (color, dash, width) in POLICIES.items():
        svg.line(x, 58, x + 38, 58, color, width, dash)
        svg.text(x + 46, 63, policy, 15)
        x += 166
    svg.dot(x + 12, 58, "#555555")
    svg.text(x + 28, 63, "lab, two guests", 15)
    svg.cross(x + 192, 58, _H200)
    svg.text(x + 206, 63, "H200, time slicing", 15)
    svg.diamond(x + 390, 58, _H200)
    svg.text(x + 404, 63, "H200, MPS 66/33", 15)


def draw(report):
    """The picture of a report, as SVG."""
    svg = Svg()
    svg.text(
        70, 32, "Two tenants on one GPU, ordered 2:1 (equal_share: 1:1), launch and wait", 19,
        weight="bold",
    )  # fmt: skip
    _legend(svg)

    shares = Panel(svg, 92, 490, 0.9, 2.2)
    shares.frame(
        "share of the first to share of the second", "ratio",
        [(tenth / 10, f"{tenth / 10:.1f}") for tenth in range(10, 23, 2)],
    )  # fmt: skip
    _draw_policies(svg, shares, report, lambda p: p["ratio"])
    shares.each(svg.cross, zip(H200_BLOCKS, H200_SLICING_RATIO), _H200)
    shares.curve(list(zip(H200_BLOCKS, H200_MPS_RATIO)), _H200, 1.0, "2 4")
    shares.each(svg.diamond, zip(H200_BLOCKS, H200_MPS_RATIO), _H200)

    busy = Panel(svg, 592, 985, 0, 105)
    busy.frame(
        "throughput of both together", "% of one alone",
        [(percent, str(percent)) for percent in range(0, 101, 20)],
    )  # fmt: skip
    _draw_policies(svg, busy, report, lambda p: p["throughput_of_solo"] * 100)
    busy.curve(list(zip(H200_BLOCKS, H200_SLICING_THROUGHPUT)), _H200, 1.0, "2 4")
    busy.each(svg.cross, zip(H200_BLOCKS, H200_SLICING_THROUGHPUT), _H200)

    light = Panel(svg, 1087, 1480, 0.8, 50, logarithmic=True)
    light.frame(
        "light tenant beside a saturating one, p99", "ms from launch to end of its 1 ms",
        [(ms, str(ms)) for ms in (1, 2, 5, 10, 20, 50)],
    )  # fmt: skip
    for policy, (color, _, _) in POLICIES.items():
        median = _points(report, "rig", policy, lambda p: p["p50_us"] / 1000)
        light.curve(median, color, 1.4, "1 4")
    _draw_policies(svg, light, report, lambda p: p["p99_us"] / 1000)
    solo = report["light_solo_p99_us"] / 1000
    light.curve([(_TICKS[0], solo), (_TICKS[-1], solo)], _H200, 1.2)
    svg.text(light.x(_TICKS[-1]), light.y(solo) + 16, "alone", 13, "end")
    svg.text(light.x(_TICKS[-1]), _TOP + 4, "p50 dotted", 13, "end")
    return svg.finish()


def main():
    """The command line."""
    if len(sys.argv) != 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    report = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    pathlib.Path(sys.argv[2]).write_text(draw(report), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
