"""Plots as SVG text, made here, so that a report needs no script and no other file. Whatever is a name is escaped."""

from collections.abc import Mapping, Sequence
from html import escape

from app.harness.statistics import Rate

WIDTH = 720
LEFT = 210
RIGHT = 70
ROW = 30
_SPAN = WIDTH - LEFT - RIGHT

COLOURS = {"cited": "#2f8f4e", "uncited": "#d9a21b", "skipped": "#3a86c8", "none": "#8a8f98", "error": "#c8453a"}


def intervals(rows: Sequence[tuple[str, Rate]], title: str) -> str:
    """A rate per row: its dot, and its interval as a line, on an axis from 0 to 100%."""
    body = [_grid(len(rows), [(f"{n}%", n / 100) for n in (0, 25, 50, 75, 100)])]
    for place, (name, rate) in enumerate(rows):
        y = _y(place)
        low, high = _x(rate.low), _x(rate.high)
        body.append(_label(name, y))
        body.append(f'<line x1="{low:.1f}" y1="{y}" x2="{high:.1f}" y2="{y}" class="bar"/>')
        if rate.value is not None:
            body.append(f'<circle cx="{_x(rate.value):.1f}" cy="{y}" r="5" class="dot"/>')
        body.append(_value(f"{rate.count}/{rate.n}", y))
    return _svg(body, len(rows), title)


def shares(rows: Sequence[tuple[str, Mapping[str, int]]], order: Sequence[str], title: str) -> str:
    """A bar per row, cut into what its parts are of the whole."""
    body = [_grid(len(rows), [(f"{n}%", n / 100) for n in (0, 25, 50, 75, 100)])]
    for place, (name, counts) in enumerate(rows):
        y, total, at = _y(place), sum(counts.values()), 0
        body.append(_label(name, y))
        for part in order:
            count = counts.get(part, 0)
            if count:
                x, width = _x(at / total), count / total * _SPAN
                told = f"<title>{escape(part)}: {count} of {total}</title>"
                place_of = f'x="{x:.1f}" y="{y - 9}" width="{width:.1f}" height="18"'
                body.append(f'<rect {place_of} fill="{COLOURS[part]}">{told}</rect>')
            at += count
        body.append(_value(str(total), y))
    return _svg(body, len(rows), title)


def strips(rows: Sequence[tuple[str, Sequence[int]]], unit: str, title: str) -> str:
    """A dot for each amount of a row, its median as a line, on an axis from 0 to the largest of all."""
    most = max((value for _, values in rows for value in values), default=0) or 1
    body = [_grid(len(rows), [(f"{most * n / 4:,.0f} {unit}", n / 4) for n in range(5)])]
    for place, (name, values) in enumerate(rows):
        y = _y(place)
        body.append(_label(name, y))
        body += [f'<circle cx="{_x(value / most):.1f}" cy="{y}" r="3.5" class="faint"/>' for value in values]
        if values:
            middle = _x(sorted(values)[len(values) // 2] / most)
            body.append(f'<line x1="{middle:.1f}" y1="{y - 10}" x2="{middle:.1f}" y2="{y + 10}" class="bar"/>')
        body.append(_value(str(len(values)), y))
    return _svg(body, len(rows), title)


def _svg(body: Sequence[str], rows: int, title: str) -> str:
    height = rows * ROW + 44
    head = f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", *body, "</svg>"])


def _grid(rows: int, ticks: Sequence[tuple[str, float]]) -> str:
    bottom = rows * ROW + 14
    lines = [
        f'<line x1="{_x(at):.1f}" y1="8" x2="{_x(at):.1f}" y2="{bottom}" class="grid"/>'
        f'<text x="{_x(at):.1f}" y="{bottom + 18}" text-anchor="middle" class="tick">{escape(name)}</text>'
        for name, at in ticks
    ]
    return "\n".join(lines)


def _label(name: str, y: int) -> str:
    shown = name if len(name) <= 30 else f"{name[:29]}…"
    told = f"<title>{escape(name)}</title>"
    return f'<text x="{LEFT - 12}" y="{y + 5}" text-anchor="end" class="name">{escape(shown)}{told}</text>'


def _value(text: str, y: int) -> str:
    return f'<text x="{WIDTH - RIGHT + 12}" y="{y + 5}" class="tick">{escape(text)}</text>'


def _x(share: float) -> float:
    return LEFT + share * _SPAN


def _y(place: int) -> int:
    return place * ROW + 24
