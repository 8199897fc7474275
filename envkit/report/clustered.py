"""A 95 % interval on a mean whose values come in clusters: tasks of one world rise and fall together, so that the world
counts and not the task. Pure arithmetic with a fixed seed: the same values always give the same interval.

Which method speaks is decided by the data alone, and told with the interval:

- `exact` (Clopper and Pearson) where every cluster is one value of 0 or 1;
- `bootstrap`: the studentised bootstrap over clusters, from 20 clusters up; where cluster sizes are uneven not narrower
  than `t`, where the clusters are skewed (near 0 or 1) not narrower than `bounded`;
- `t`: below 20 clusters, with the bias-reduced cluster-robust variance (CR2) and Satterthwaite's degrees of freedom;
- `bounded`: where neither is honest (few clusters and skewed, all alike, or a few that outweigh the others): the
  mean of the clusters and one more at the end of the range, under random weights (Gaffke's bounds). It needs
  nothing but the range, is exact for values of 0 and 1, and wide;
- none, with the reason, for fewer than three clusters.

tests/envkit/report/test_clustered.py holds the coverage against simulated worlds. Used by evaluations and comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict

from envkit.report.interval import interval as exact_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["Estimate", "estimate", "t_quantile"]

#: From so many clusters up the bootstrap speaks, if they count for at least so many of equal size.
BOOTSTRAP_FROM, BOOTSTRAP_EFFECTIVE = 20, 12.0
#: Fewer give no interval.
FEWEST = 3
#: Sum of cubes over (sum of squares)^1.5 of the clusters' deviations, beyond which symmetry is no longer assumed.
SKEWED_FEW, SKEWED_MANY = 0.2, 0.3
#: Below this share of equal sizes, cluster sizes are uneven.
EVEN = 0.7
#: Beyond so many clusters all methods agree, and the cheapest speaks.
MANY = 2000
_DRAWS, _SEED = 2000, 20260101


class Estimate(BaseModel):
    """A mean and what the clusters say about the mean behind it.

    Attributes:
        value: None where there is no value at all.
        lower, upper: The interval; None where `method` is none of the module's.
        method: Which method spoke, or `too few worlds`.
        values, clusters: How many there were.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float | None
    lower: float | None = None
    upper: float | None = None
    method: str = "too few worlds"
    values: int = 0
    clusters: int = 0

    @property
    def has_interval(self) -> bool:
        return self.lower is not None


def estimate(
    values: Sequence[float],
    clusters: Sequence[str],
    *,
    low: float = 0.0,
    high: float = 1.0,
    confidence: float = 0.95,
) -> Estimate:
    """The mean of `values` with its interval.

    Args:
        clusters: Which cluster each value belongs to.
        low, high: The range that values can take; infinite where there is none (then nothing is said where only the
            range could help).
        confidence: Two-sided, in (0, 1).

    Raises:
        ValueError: The lists differ in length, or a value is outside the range.
    """
    if len(values) != len(clusters):
        raise ValueError(f"{len(values)} values, but {len(clusters)} clusters")
    if any(not low <= value <= high for value in values):
        raise ValueError(f"a value is outside {low:g} to {high:g}")
    if not values:
        return Estimate(value=None)
    by_cluster: dict[str, list[float]] = {}
    for value, cluster in zip(values, clusters, strict=True):
        by_cluster.setdefault(cluster, []).append(value)
    sums = np.array([math.fsum(found) for found in by_cluster.values()])
    sizes = np.array([float(len(found)) for found in by_cluster.values()])
    mean = math.fsum(values) / len(values)
    method, lower, upper = "too few worlds", math.nan, math.nan
    if len(sums) >= FEWEST:
        method, lower, upper = _interval(sums, sizes, low, high, 1.0 - confidence)
    none = math.isnan(lower)
    return Estimate(
        value=mean,
        lower=None if none else max(low, min(lower, mean)),
        upper=None if none else min(high, max(upper, mean)),
        method=method,
        values=len(values),
        clusters=len(sums),
    )


def _interval(sums: Vector, sizes: Vector, low: float, high: float, alpha: float) -> tuple[str, float, float]:
    count = len(sums)
    deviations = sums - sizes * (sums.sum() / sizes.sum())
    squares = float((deviations**2).sum())
    flat = squares <= 1e-18 * max(1.0, float((sums**2).sum()))
    skewness = 0.0 if flat else abs(float((deviations**3).sum())) / squares**1.5
    effective = float(sizes.sum() ** 2 / (sizes**2).sum())
    if low == 0.0 and high == 1.0 and (sizes == 1.0).all() and np.isin(sums, (0.0, 1.0)).all():
        return "exact", *exact_interval(round(sums.sum()), count, 1.0 - alpha)
    many = count >= BOOTSTRAP_FROM and effective >= BOOTSTRAP_EFFECTIVE
    if many and not flat:
        if count > MANY:
            return "t", *_student(sums, sizes, alpha)
        lower, upper = _bootstrap(sums, sizes, alpha)
        if effective < EVEN * count:
            lower, upper = _hull((lower, upper), _student(sums, sizes, alpha))
        if skewness > SKEWED_MANY and math.isfinite(high - low):
            lower, upper = _hull((lower, upper), _bounded(sums, sizes, low, high, alpha))
        return "bootstrap", lower, upper
    if not flat and skewness <= SKEWED_FEW and count < BOOTSTRAP_FROM and effective >= FEWEST - 1e-9:
        return "t", *_student(sums, sizes, alpha)
    if math.isfinite(high - low):
        return "bounded", *_bounded(sums, sizes, low, high, alpha)
    return "too few worlds", math.nan, math.nan


def _hull(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    return min(first[0], second[0]), max(first[1], second[1])


def _bootstrap(sums: Vector, sizes: Vector, alpha: float) -> tuple[float, float]:
    """The studentised bootstrap: whole clusters drawn anew, each draw measured in its own standard errors."""
    count, total = len(sums), sizes.sum()
    mean = sums.sum() / total
    error = math.sqrt(((sums - mean * sizes) ** 2 / (1.0 - sizes / total)).sum()) / total
    drawn = np.random.default_rng(_SEED).multinomial(count, np.full(count, 1.0 / count), size=_DRAWS).astype(float)
    totals, squared = drawn @ sizes, drawn @ sizes**2
    means = (drawn @ sums) / totals
    squares = drawn @ sums**2 - 2.0 * means * (drawn @ (sums * sizes)) + means**2 * squared
    errors = np.sqrt(np.maximum(squares, 0.0) / (1.0 - np.minimum(squared / totals**2, 0.9))) / totals
    # a draw of clusters that are all alike measures nothing: it counts as infinitely far on its side
    far = np.sign(means - mean) * 1e6
    flat = errors <= 1e-9 * error
    ratios = np.where(flat, far, (means - mean) / np.where(flat, 1.0, errors))
    at_low, at_high = np.quantile(ratios, [alpha / 2.0, 1.0 - alpha / 2.0])
    return mean - float(at_high) * error, mean - float(at_low) * error


def _student(sums: Vector, sizes: Vector, alpha: float) -> tuple[float, float]:
    """The cluster-robust t interval. The degrees of freedom are the smaller ones of two working models: variance
    between worlds alone, and between values alone."""
    total = sizes.sum()
    share = sizes / total
    mean = sums.sum() / total
    scale = share / np.sqrt(1.0 - share)
    variance = float(((scale * (sums / sizes - mean)) ** 2).sum())
    freedom = float(len(sums) - 1)
    if len(sums) <= MANY:
        for spread in (np.ones_like(sizes), 1.0 / sizes):
            weighted = share * spread
            middle = float((share * weighted).sum())
            matrix = np.outer(scale, scale) * (middle - weighted[:, None] - weighted[None, :])
            matrix[np.diag_indices_from(matrix)] += scale**2 * spread
            freedom = min(freedom, float(np.trace(matrix) ** 2 / (matrix**2).sum()))
    width = t_quantile(1.0 - alpha / 2.0, freedom) * math.sqrt(variance)
    return mean - width, mean + width


def _bounded(sums: Vector, sizes: Vector, low: float, high: float, alpha: float) -> tuple[float, float]:
    """Gaffke's bounds: what the mean could be if one more cluster, the largest, stood at the end of the range."""
    weights = np.random.default_rng(_SEED).standard_exponential((2 * _DRAWS, len(sums) + 1))
    more = weights[:, -1] * sizes.max()
    total, whole = weights[:, :-1] @ sums, weights[:, :-1] @ sizes + more
    lower = np.quantile((total + more * low) / whole, alpha / 2.0)
    upper = np.quantile((total + more * high) / whole, 1.0 - alpha / 2.0)
    return float(lower), float(upper)


def t_quantile(p: float, freedom: float) -> float:
    """The quantile of Student's t for p above one half; degrees of freedom need not be whole."""
    low, high = 0.0, 2.0
    while _t_above(high, freedom) > 1.0 - p:
        low, high = high, high * 2.0
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _t_above(middle, freedom) > 1.0 - p else (low, middle)
    return (low + high) / 2.0


def _t_above(t: float, freedom: float) -> float:
    """The probability that Student's t is above a positive number: half the incomplete beta function."""
    x, a, b = freedom / (freedom + t * t), freedom / 2.0, 0.5
    if x > (a + 1.0) / (a + b + 2.0):
        return 0.5 - 0.5 * _beta(1.0 - x, b, a)
    return 0.5 * _beta(x, a, b)


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function where its continued fraction converges quickly (Lentz's method)."""
    if x <= 0.0:
        return 0.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    tiny = 1e-300
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0) or tiny)
    result = d
    for m in range(1, 500):
        for part in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / (1.0 + part * d or tiny)
            c = 1.0 + part / c or tiny
            result *= c * d
        if abs(c * d - 1.0) < 1e-14:
            break
    return front * result / a
