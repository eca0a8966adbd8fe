"""Hand-written SVG charts: bars with the range of their repeats, and lines over two logarithmic axes with fitted slopes."""

import math
from xml.sax.saxutils import escape

COLOURS = ("#1f5fa8", "#d9822b", "#4a9a5b", "#8a5fb0", "#6b6b6b", "#b8433f", "#2aa5a5", "#c9b037", "#d678a8", "#7a5230")
FONT = 'font-family="DejaVu Sans, Helvetica, Arial, sans-serif"'


class Svg:
    def __init__(self, width, height, title):
        self.width, self.height, self.parts = width, height, []
        self.text(16, 24, title, size=15, weight="bold")

    def add(self, element):
        self.parts.append(element)

    def text(self, x, y, text, size=12, anchor="start", weight="normal", colour="#222", turn=None):
        turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}" {FONT}{turned}>'
                 f"{escape(text)}</text>")  # fmt: skip

    def line(self, x1, y1, x2, y2, colour="#222", width=1.0, dash=""):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.add(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"{dashes}/>')

    def rect(self, x, y, width, height, colour):
        self.add(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0, width):.1f}" height="{height:.1f}" fill="{colour}"/>')

    def circle(self, x, y, radius, colour):
        self.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"/>')

    def legend(self, names, x, y):
        for n, name in enumerate(names):
            self.rect(x, y - 10, 12, 12, COLOURS[n % len(COLOURS)])
            self.text(x + 17, y, name)
            x += 30 + 7.5 * len(name)

    def write(self, path):
        with open(path, "w", encoding="utf-8") as f:
            f.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}">\n'
                    f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(self.parts) + "\n</svg>\n")  # fmt: skip


def nice_step(top, steps=6):
    """Returns a round number as the distance between gridlines."""
    raw = top / steps
    power = 10 ** math.floor(math.log10(raw))
    return next(power * f for f in (1, 2, 2.5, 5, 10) if power * f >= raw)


def number(value):
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:g}" if value >= 1 or value == 0 else f"{value:.3g}"


def bars(path, title, unit, groups, series, values, goal=None, spread="thin line: least to most of the repeats"):
    """
    Horizontal bars from zero. values[series][group] is {median, min, max} or None. A `label` in it replaces the median's number.
    The thin line on a bar is the range of its repeats.
    """
    left, right, bar, gap = 150, 90, 13, 14
    height = 90 + len(groups) * (len(series) * bar + gap)
    svg = Svg(860, height, title)
    svg.legend(series, 16, 48)
    top = max((v["max"] for per in values.values() for v in per.values() if v), default=1) * 1.02
    step, width = nice_step(top), svg.width - left - right
    bottom = height - 34
    svg.text(svg.width - 16, 48, spread, 11, "end", colour="#555")
    for n in range(int(top / step) + 1):
        x = left + n * step / top * width
        svg.line(x, 60, x, bottom, "#ddd")
        svg.text(x, bottom + 15, number(n * step), 11, "middle", colour="#555")
    svg.text(left + width / 2, bottom + 29, unit, 11, "middle", colour="#555")
    y = 66
    for group in groups:
        svg.text(left - 8, y + len(series) * bar / 2 + 4, group, 12, "end")
        for n, name in enumerate(series):
            v = values.get(name, {}).get(group)
            if v:
                length = v["median"] / top * width
                svg.rect(left, y, length, bar - 2, COLOURS[n % len(COLOURS)])
                low, high = (left + v[k] / top * width for k in ("min", "max"))
                svg.line(low, y + bar / 2 - 1, high, y + bar / 2 - 1, "#000", 1.2)
                svg.text(max(high, left + length) + 5, y + bar - 4, v.get("label", number(round(v["median"], 1))), 10, colour="#333")
            else:
                svg.text(left + 4, y + bar - 4, "not measured", 9, colour="#999")
            y += bar
        y += gap
    if goal:
        x = left + goal / top * width
        svg.line(x, 58, x, bottom, "#b8433f", 1.4, "5,3")
    svg.line(left, 60, left, bottom)
    svg.write(path)


def slope(points):
    """Returns the exponent with which y grows with x: least squares of log y over log x."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len(logs) < 2:
        return None
    mx, my = (sum(p[i] for p in logs) / len(logs) for i in (0, 1))
    return sum((x - mx) * (y - my) for x, y in logs) / sum((x - mx) ** 2 for x, _ in logs)


def ticks(first, last):
    """Returns round values for an axis: the powers of ten, and if these are few, also 2 and 5 times each power."""
    steps = (1, 2, 5) if last - first <= 2 else (1,)
    return [step * 10**power for power in range(first, last + 1) for step in steps if power < last or step == 1]


def growth(path, title, x_label, y_label, lines):
    """Two logarithmic axes. lines: {name: [(x, y)]}. The legend shows the fitted slope of each line."""
    svg = Svg(640, 430, title)
    left, right, top, bottom = 80, 30, 66, 360
    xs, ys = ([p[i] for points in lines.values() for p in points] for i in (0, 1))
    x0, x1 = math.floor(math.log10(min(xs))), math.ceil(math.log10(max(xs)))
    y0, y1 = math.floor(math.log10(min(ys))), max(math.ceil(math.log10(max(ys))), math.floor(math.log10(min(ys))) + 1)

    def at(x, y):
        return (left + (math.log10(x) - x0) / (x1 - x0) * (svg.width - left - right), bottom - (math.log10(y) - y0) / (y1 - y0) * (bottom - top))

    for value in ticks(x0, x1):
        x, _ = at(value, 10**y0)
        svg.line(x, top, x, bottom, "#ddd")
        svg.text(x, bottom + 16, number(value), 11, "middle", colour="#555")
    for value in ticks(y0, y1):
        _, y = at(10**x0, value)
        svg.line(left, y, svg.width - right, y, "#ddd")
        svg.text(left - 6, y + 4, number(value), 11, "end", colour="#555")
    svg.text((left + svg.width - right) / 2, bottom + 36, f"{x_label}, logarithmic", 12, "middle", colour="#555")
    svg.text(18, (top + bottom) / 2, f"{y_label}, logarithmic", 12, "middle", colour="#555", turn=-90)
    names = []
    for n, (name, points) in enumerate(lines.items()):
        colour, fitted = COLOURS[n % len(COLOURS)], slope(points)
        names.append(f"{name}, slope {fitted:.2f}" if fitted is not None else name)
        points = sorted(points)
        for a, b in zip(points, points[1:]):
            svg.line(*at(*a), *at(*b), colour, 1.6)
        for p in points:
            svg.circle(*at(*p), 4, colour)
    svg.legend(names, 16, 48)
    svg.text(left, bottom + 54, "slope: the exponent of growth, fitted; 1 is in proportion to the size, 0 the same at all sizes", 11, colour="#555")
    svg.write(path)


def sizes(path, title, x_label, y_label, lines):
    """Two linear axes from zero. lines: {name: [(x, y)]}. The last point of each line shows its value."""
    svg = Svg(640, 360, title)
    left, right, top, bottom = 70, 60, 66, 300
    x_top, y_top = (1.05 * max(p[i] for points in lines.values() for p in points) for i in (0, 1))

    def at(x, y):
        return left + x / x_top * (svg.width - left - right), bottom - y / y_top * (bottom - top)

    for n in range(int(x_top / nice_step(x_top)) + 1):
        x, _ = at(n * nice_step(x_top), 0)
        svg.text(x, bottom + 16, number(n * nice_step(x_top)), 11, "middle", colour="#555")
    for n in range(int(y_top / nice_step(y_top)) + 1):
        _, y = at(0, n * nice_step(y_top))
        svg.line(left, y, svg.width - right, y, "#ddd")
        svg.text(left - 6, y + 4, number(n * nice_step(y_top)), 11, "end", colour="#555")
    svg.text((left + svg.width - right) / 2, bottom + 36, x_label, 12, "middle", colour="#555")
    svg.text(18, (top + bottom) / 2, y_label, 12, "middle", colour="#555", turn=-90)
    for n, points in enumerate(lines.values()):
        colour = COLOURS[n % len(COLOURS)]
        for a, b in zip(points, points[1:]):
            svg.line(*at(*a), *at(*b), colour, 1.6)
        for p in points:
            svg.circle(*at(*p), 4, colour)
        x, y = at(*points[-1])
        svg.text(x + 8, y + 4, number(points[-1][1]), 12, colour=colour)
    svg.legend(list(lines), 16, 48)
    svg.line(left, bottom, svg.width - right, bottom)
    svg.write(path)
