# SPDX-License-Identifier: Apache-2.0
"""A job's schedule for learning rates that are known update by update.

A job has the rate as a line through points (`piecewise_linear`, at most MOST of
them). Rates that lie on few lines, or are few, are had exactly; of others a line
passes each within a tolerance, which is as small as MOST points allow.
"""
from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np
import numpy.typing as npt

__all__ = ["LEAST", "MOST", "schedule_of"]

Reals = npt.NDArray[np.float64]

MOST = 1024  # points of a job's schedule
LEAST = 1e-4  # of the highest rate: a line that errs more is refused
TOLERANCES = (1e-13, *(LEAST * 10 ** (-i / 2) for i in range(10, -1, -1)))


def schedule_of(rates: Reals) -> Dict[str, Any]:
    """`learning_rate` and `schedule` of a job's optimizer whose update i is applied
    at rates[i]; those behind the last at the last one. ValueError if no line through
    MOST points passes within LEAST of the highest rate."""
    if not np.isfinite(rates).all() or rates.min() < 0:
        at = int(np.argmin(np.where(np.isfinite(rates), rates, -np.inf)))
        raise ValueError(f"the rate of update {at} is {rates[at]}: rates are numbers "
                         "of at least 0")
    peak = float(rates.max()) or 1.0
    factors = rates / peak
    for tolerance in TOLERANCES:
        points = _points(factors, tolerance)
        if points is not None:
            return {"learning_rate": peak, "schedule": {
                "type": "piecewise_linear", "boundaries": points,
                "values": factors[points].tolist()}}
    raise ValueError(f"the rates of {len(rates)} updates are no line through {MOST} "
                     f"points, within {LEAST:g} of the highest: they change too often")


def _points(values: Reals, tolerance: float) -> Optional[List[int]]:
    """The indices of a line that passes all values; None if there are too many."""
    points = [0]
    while points[-1] < len(values) - 1:
        if len(points) == MOST:
            return None
        points.append(_reach(values, points[-1], tolerance))
    return points


def _reach(values: Reals, first: int, tolerance: float) -> int:
    """The last index that a line from `first` reaches, passing all between."""
    best, begin, count = first + 1, first + 1, 16
    low, high = -np.inf, np.inf  # of the slopes that pass those before `begin`
    while begin < len(values) and low <= high:
        there = values[begin:begin + count] - values[first]
        away = np.arange(begin, begin + len(there)) - first
        lows = np.maximum.accumulate(np.append(low, (there - tolerance) / away))
        highs = np.minimum.accumulate(np.append(high, (there + tolerance) / away))
        slopes = there / away
        passing = np.flatnonzero((lows[:-1] <= slopes) & (slopes <= highs[:-1]))
        if len(passing):
            best = begin + int(passing[-1])
        low, high = float(lows[-1]), float(highs[-1])
        begin, count = begin + count, 2 * count
    return best
