"""A 95 % interval on a mean whose values come in clusters: tasks of one world rise and fall together, so that the world
counts and not the task. Pure arithmetic with a fixed seed: the same values always give the same interval.

Which method speaks is decided by the data alone, and told with the interval:

- `exact` (Clopper and Pearson) where every cluster is one value of 0 or 1;
- `bootstrap`: the studentised bootstrap over clusters, from 20 clusters up; where cluster sizes are uneven or a few
  clusters differ far more than the others not narrower than `t`, where they are skewed (near 0 or 1) not narrower than
  `bounded`;
- `t`: below 20 clusters, with the bias-reduced cluster-robust variance (CR2) and Satterthwaite's degrees of freedom;
- `bounded`: where neither is honest (few clusters and skewed, all alike, or a few that outweigh the others): the
  mean of the clusters and one more at the end of the range, under random weights (Gaffke's bounds). It needs
  nothing but the range, is exact for values of 0 and 1, and wide;
- none, with the reason, for fewer than three clusters.

`python -m benchmarks.coverage` counts how often they hold the truth of simulated worlds; so does, with fewer
repetitions, tests/envkit/report/test_clustered.py. Used by evaluations and comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict

from envkit.report.interval import interval as exact_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Mask = NDArray[np.bool_]
    Method = Callable[[Vector, Vector], tuple[Vector, Vector]]

__all__ = ["Estimate", "estimate", "intervals", "t_quantile"]

#: From so many clusters up the bootstrap speaks, if they count for at least so many of equal size.
BOOTSTRAP_FROM, BOOTSTRAP_EFFECTIVE = 20, 12.0
#: Fewer give no interval.
FEWEST = 3
#: Sum of cubes over (sum of squares)^1.5 of the clusters' deviations, beyond which symmetry is no longer assumed.
SKEWED_FEW, SKEWED_MANY = 0.2, 0.3
#: Below this share of equal sizes, cluster sizes are uneven.
EVEN = 0.7
#: Above this kurtosis of the clusters' deviations (a normal one has 3) a few clusters make most of the variance: draws
#: without them are too sure of themselves, and Student's t, which thinks of no such thing, is the wider one.
HEAVY = 4.0
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
    sums = np.array([[math.fsum(found) for found in by_cluster.values()]])
    sizes = np.array([[float(len(found)) for found in by_cluster.values()]])
    mean = math.fsum(values) / len(values)
    methods, lowers, uppers = intervals(sums, sizes, low=low, high=high, confidence=confidence)
    lower, upper = float(lowers[0]), float(uppers[0])
    none = math.isnan(lower)
    return Estimate(
        value=mean,
        lower=None if none else max(low, min(lower, mean)),
        upper=None if none else min(high, max(upper, mean)),
        method=methods[0],
        values=len(values),
        clusters=len(by_cluster),
    )


def intervals(
    sums: Vector, sizes: Vector, *, low: float = 0.0, high: float = 1.0, confidence: float = 0.95
) -> tuple[list[str], Vector, Vector]:
    """The intervals of many samples with as many clusters each: a row each.

    Args:
        sums, sizes: Of each cluster's values, by sample and cluster.

    Returns:
        Each sample's method, lower and upper end, not yet held within the range; NaN where there is no interval.
    """
    samples, count = sums.shape
    alpha = 1.0 - confidence
    methods = ["too few worlds"] * samples
    lower, upper = np.full(samples, np.nan), np.full(samples, np.nan)
    if count < FEWEST:
        return methods, lower, upper
    total = sizes.sum(1)
    deviations = sums - sizes * (sums.sum(1) / total)[:, None]
    squares = (deviations**2).sum(1)
    flat = squares <= 1e-18 * np.maximum(1.0, (sums**2).sum(1))
    skewness = np.where(flat, 0.0, np.abs((deviations**3).sum(1)) / np.where(flat, 1.0, squares) ** 1.5)
    effective = total**2 / (sizes**2).sum(1)
    ranged = math.isfinite(high - low)

    single = (low == 0.0 and high == 1.0) & (sizes == 1.0).all(1) & np.isin(sums, (0.0, 1.0)).all(1)
    many = ~single & ~flat & (count >= BOOTSTRAP_FROM) & (effective >= BOOTSTRAP_EFFECTIVE)
    few = ~single & ~flat & ~many & (skewness <= SKEWED_FEW) & (count < BOOTSTRAP_FROM) & (effective >= FEWEST - 1e-9)
    rest = ~single & ~many & ~few & ranged
    drawn = many & (count <= MANY)

    def speak(which: Mask, name: str, method: Method) -> None:
        """A method's ends for some rows; where they have ends already, the wider ones."""
        if which.any():
            low_end, high_end = method(sums[which], sizes[which])
            lower[which] = np.fmin(lower[which], low_end)
            upper[which] = np.fmax(upper[which], high_end)
            for row in np.flatnonzero(which) if name else ():
                methods[row] = name

    def student(some: Vector, theirs: Vector) -> tuple[Vector, Vector]:
        return _student(some, theirs, alpha)

    def bounded(some: Vector, theirs: Vector) -> tuple[Vector, Vector]:
        return _bounded(some, theirs, low, high, alpha)

    speak(single, "exact", lambda some, _: _exact(some, confidence))
    speak((many & ~drawn) | few, "t", student)
    speak(drawn, "bootstrap", lambda some, theirs: _bootstrap(some, theirs, alpha))
    tails = count * (deviations**4).sum(1) / np.where(flat, 1.0, squares) ** 2
    speak(drawn & ((effective < EVEN * count) | (tails > HEAVY)), "", student)
    # few large clusters among many small ones are few: what is true of few is asked of them
    skewed = skewness > np.where(effective < BOOTSTRAP_FROM, SKEWED_FEW, SKEWED_MANY)
    speak(drawn & skewed & ranged, "", bounded)
    speak(rest, "bounded", bounded)
    return methods, lower, upper


def _exact(sums: Vector, confidence: float) -> tuple[Vector, Vector]:
    ends = np.array([exact_interval(round(float(total)), sums.shape[1], confidence) for total in sums.sum(1)])
    return ends[:, 0], ends[:, 1]


@lru_cache(maxsize=2)
def _draws(count: int) -> Vector:
    """How often each cluster comes in each draw: a column a draw."""
    chances = np.full(count, 1.0 / count)
    drawn = np.random.default_rng(_SEED).multinomial(count, chances, size=_DRAWS).astype(float)
    return np.ascontiguousarray(drawn.T)


@lru_cache(maxsize=2)
def _weights(count: int) -> Vector:
    return np.ascontiguousarray(np.random.default_rng(_SEED).standard_exponential((2 * _DRAWS, count)).T)


def _bootstrap(sums: Vector, sizes: Vector, alpha: float) -> tuple[Vector, Vector]:
    """The studentised bootstrap: whole clusters drawn anew, each draw measured in its own standard errors."""
    drawn = _draws(sums.shape[1])
    total = sizes.sum(1)
    mean = sums.sum(1) / total
    error = np.sqrt(((sums - mean[:, None] * sizes) ** 2 / (1.0 - sizes / total[:, None])).sum(1)) / total
    totals, squared = sizes @ drawn, sizes**2 @ drawn
    means = (sums @ drawn) / totals
    squares = sums**2 @ drawn - 2.0 * means * ((sums * sizes) @ drawn) + means**2 * squared
    errors = np.sqrt(np.maximum(squares, 0.0) / (1.0 - np.minimum(squared / totals**2, 0.9))) / totals
    # a draw of clusters that are all alike measures nothing: it counts as infinitely far on its side
    away = means - mean[:, None]
    flat = errors <= 1e-9 * error[:, None]
    ratios = np.where(flat, np.sign(away) * 1e6, away / np.where(flat, 1.0, errors))
    at_low, at_high = np.quantile(ratios, [alpha / 2.0, 1.0 - alpha / 2.0], axis=1)
    return mean - at_high * error, mean - at_low * error


def _student(sums: Vector, sizes: Vector, alpha: float) -> tuple[Vector, Vector]:
    """The cluster-robust t interval. The degrees of freedom are the smaller ones of two working models: variance
    between worlds alone, and between values alone."""
    count = sums.shape[1]
    total = sizes.sum(1)
    share = sizes / total[:, None]
    mean = sums.sum(1) / total
    scale = share / np.sqrt(1.0 - share)
    variance = ((scale * (sums / sizes - mean[:, None])) ** 2).sum(1)
    freedom = np.full(len(sums), float(count - 1))
    if count <= MANY:
        diagonal = np.arange(count)
        for spread in (np.ones_like(sizes), 1.0 / sizes):
            weighted = share * spread
            middle = (share * weighted).sum(1)
            matrix = middle[:, None, None] - weighted[:, :, None] - weighted[:, None, :]
            matrix *= scale[:, :, None] * scale[:, None, :]
            matrix[:, diagonal, diagonal] += scale**2 * spread
            traces = matrix[:, diagonal, diagonal].sum(1)
            freedom = np.minimum(freedom, traces**2 / (matrix**2).sum((1, 2)))
    width = np.array([t_quantile(1.0 - alpha / 2.0, float(one)) for one in freedom]) * np.sqrt(variance)
    return mean - width, mean + width


def _bounded(sums: Vector, sizes: Vector, low: float, high: float, alpha: float) -> tuple[Vector, Vector]:
    """Gaffke's bounds: what the mean could be if one more cluster, the largest, stood at the end of the range."""
    weights = _weights(sums.shape[1] + 1)
    more = sizes.max(1)[:, None] * weights[-1]
    total, whole = sums @ weights[:-1], sizes @ weights[:-1] + more
    lower = np.quantile((total + more * low) / whole, alpha / 2.0, axis=1)
    upper = np.quantile((total + more * high) / whole, 1.0 - alpha / 2.0, axis=1)
    return lower, upper


@lru_cache(maxsize=256)
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
