"""The state of a page as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeHistogramMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from jobwise.live.sinks.page.state import WAITS_S, State, Waits


def exposition(state: State | None, private: bool = False, accept: str = "") -> tuple[bytes, str]:
    """(the text that Prometheus scrapes, its type: OpenMetrics for who accepts it). No user is named. `private`: without the
    times of jobs that wait, among which one may put as many as it takes to read another's."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(state, private))
    encode, kind = choose_encoder(accept)
    return encode(registry), kind


class _Collector:
    """Yields the metrics of one state."""

    def __init__(self, state: State | None, private: bool):
        self.state, self.private = state, private

    def collect(self) -> Iterator[Metric]:
        """Yield the families of metrics, each with its samples."""
        s = self.state
        yield _gauge("up", "Slurm answered in the last cycle.", {"": float(s is not None and s.answers)})
        if s is None:
            return
        yield _gauge("cycle_timestamp_seconds", "When the last cycle was.", {"": s.time})
        yield _gauge("cycle_seconds", "What the last cycle took.", {"": s.seconds})
        yield _gauge(
            "cycle_failed",
            "In the last cycle the policy, a log or the page failed, not Slurm.",
            {"": float(bool(s.answers and s.problem))},
        )
        yield _gauge("jobs", "Jobs.", {"waiting": s.waiting, "held": s.held, "running": s.running}, "state")
        yield _gauge("cpus", "CPUs.", {"used": s.used, "all": s.cpus}, "state")
        passes = {k: s.slurm[f"{k}_s"] for k in ("main", "backfill") if f"{k}_s" in s.slurm}
        if passes:
            yield _gauge("slurm_pass_seconds", "Slurm's last passes, by sdiag.", passes, "pass")
        if "backfill_depth" in s.slurm:
            yield _gauge("slurm_backfill_depth", "Jobs that the last backfill pass looked at.", {"": s.slurm["backfill_depth"]})
        if s.jobs and not self.private:
            for name, text, values in (
                ("expected_start_seconds", "Expected starts of waiting jobs, from now.", [x.start for x in s.jobs]),
                ("waited_seconds", "How long jobs have waited so far.", [x.waited for x in s.jobs]),
            ):
                yield _gauge(name, text, {q: float(np.quantile(values, float(q))) for q in ("0.5", "0.9")}, "level")
        if s.waits:
            yield _histogram("wait_seconds", "Waits of jobs that started within a day.", s.waits)
        if s.score and s.score.error is not None:
            error = {"jobwise": s.score.error} | ({} if s.score.slurm_error is None else {"slurm": s.score.slurm_error})
            yield _gauge("start_error_seconds", "Median error of predicted starts, last day.", error, "by")
            cover = {"80": s.score.cover80 or 0.0, "90": s.score.cover90 or 0.0}
            yield _gauge("start_cover", "Share of starts within the interval, last day.", cover, "interval")
        if s.steering:
            yield _gauge("steer_changed", "Site factors that the last cycle changed.", {"": s.steering.changed})


def _gauge(name: str, text: str, values: dict[str, float], label: str = "") -> GaugeMetricFamily:
    """A family of gauges, by the values of a label."""
    family = GaugeMetricFamily(f"jobwise_{name}", text, labels=[label] if label else [])
    for key, value in values.items():
        family.add_metric([key] if label else [], value)
    return family


def _histogram(name: str, text: str, waits: list[Waits]) -> GaugeHistogramMetricFamily:
    """A family of histograms, by partition and QOS: of one moment, so that counts may fall."""
    family = GaugeHistogramMetricFamily(f"jobwise_{name}", text, labels=["partition", "qos"])
    for x in waits:
        below = np.cumsum(x.counts).tolist()
        buckets = [(f"{le:g}", float(n)) for le, n in zip((*WAITS_S, np.inf), below, strict=True)]
        family.add_metric([x.partition, x.qos], [(le.replace("inf", "+Inf"), n) for le, n in buckets], x.seconds)
    family.samples = [x for x in family.samples if x.value is not None]
    return family
