"""Numbers and tables as Markdown."""

import math
from collections.abc import Sequence

DASH = "–"
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def number(value: float, unit: str = "") -> str:
    """Return a number as the board shows it: shares to three decimals, counts with a prefix, else three digits."""
    if math.isnan(value):
        return DASH
    if unit == "share":
        return f"{value:.3f}"
    if unit in ("count", "FLOPs"):
        value = float(f"{value:.3g}") if abs(value) >= _PREFIXES[-1][0] else round(value)  # 999,600 is 1 M, not 1000 k
        for size, prefix in _PREFIXES:
            if abs(value) >= size:
                return f"{value / size:.3g} {prefix}"
        return f"{value:.0f}"
    if 0 < abs(value) < 0.0005:
        return "<0.001" if value > 0 else ">-0.001"
    decimals = next((d for bound, d in ((100, 0), (10, 1), (1, 2)) if abs(value) >= bound), 3)
    return f"{value:.{decimals}f}"


def interval(mean: float, low: float, high: float, unit: str = "") -> str:
    """Return a mean with its interval in parentheses, where it has one that the digits shown can tell from the mean."""
    shown, ends = number(mean, unit), (number(low, unit), number(high, unit))
    return shown if DASH in (shown, *ends) or ends == (shown, shown) else f"{shown} ({ends[0]}–{ends[1]})"


def escape(text: str) -> str:
    """Return ``text`` so that it stays in its cell and is shown as it is written."""
    for char in "\\|*_`<>[]&$~":
        text = text.replace(char, f"\\{char}")
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """Return ``text`` with control characters, which may steer a terminal, spelled out."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def code(text: str) -> str:
    """Return ``text`` as code that stays in its cell of a table."""
    return "`" + printable(" ".join(text.replace("`", "'").replace("|", "\\|").split())) + "`"


class Notes:
    """The notes below one table; equal ones share a letter."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> str:
        """Return the raised letter of a note; no mark for an empty one."""
        if not text:
            return ""
        if text not in self.texts:
            self.texts.append(text)
        return f"<sup>{self._letter(self.texts.index(text))}</sup>"

    def lines(self) -> list[str]:
        """Return the notes in order of their letters, one line each."""
        return [f"<sup>{self._letter(index)}</sup> {escape(text)}<br>" for index, text in enumerate(self.texts)]

    @staticmethod
    def _letter(index: int) -> str:
        letters = "abcdefghijklmnopqrstuvwxyz"
        return letters[index] if index < 26 else f"{letters[index // 26 - 1]}{letters[index % 26]}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: range) -> str:
    """Return a Markdown table; the columns of ``numbers`` are aligned right, the others left."""
    rule = ["---:" if column in numbers else "---" for column in range(len(header))]
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, rule, *rows])
