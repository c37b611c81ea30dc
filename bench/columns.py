# SPDX-License-Identifier: Apache-2.0
"""Figures and tables as bench/run and bench/gpu print them."""


def figure_text(figure, digits=3):
    """Large ones by thousands, others to so many digits; "-" for none."""
    if figure is None:
        return "-"
    return f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.{digits}g}"


def columns(lines, right):
    """Lines of texts, aligned; `right`: the columns that stand to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(
        text.rjust(width) if i in right else text.ljust(width)
        for i, (text, width) in enumerate(zip(line, widths))).rstrip()
        for line in lines)
