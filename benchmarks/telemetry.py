"""Speed of the world of buffers, of reading a Prometheus, and of forecasting.

python -m benchmarks.telemetry      writes benchmarks/TELEMETRY.md; nothing in it is typed by hand
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gymnasium
import numpy as np

import jobwise as jw
from jobwise.report.sections import made
from jobwise.telemetry.forecasts import forecast_all
from jobwise.telemetry.prometheus import Prometheus
from jobwise.telemetry.table import table

HERE = Path(__file__).parent
NODES, METRICS, STEP_S, DAY = 1000, 10, 60.0, 86_400.0


def decisions(threads: int = 2, envs: int = 1024, steps: int = 300) -> list[list[str]]:
    """Choices per second of both worlds, with the published encoders and ours."""
    rows = []
    a, b = [jw.distances(seed=k) for k in range(256)], [jw.affinities(seed=k) for k in range(256)]
    for name, sets, how in (
        ("A, `distance`", a, {"encoder": "distance", "places": 2}),
        ("B, `affinity`", b, {"encoder": "affinity"}),
        ("A, `nodes`", a, {"encoder": "nodes", "places": 2, "masked": True, "ask_always": False}),
        ("B, `nodes`", b, {"encoder": "nodes", "masked": True, "ask_always": False}),
    ):
        env = gymnasium.make_vec("jobwise/Nodes-v0", num_envs=envs, workload=sets, threads=threads, copy=False, **how)
        env.reset(seed=0)
        rng, best = np.random.default_rng(0), 0.0
        actions = rng.integers(0, env.single_action_space.n, (50, envs))
        for _ in range(5):
            begin = time.perf_counter()
            for k in range(steps):
                env.step(actions[k % 50])
            best = max(best, steps * envs / (time.perf_counter() - begin))
        rows.append([name, f"{best:,.0f}"])
    return rows


def prometheus() -> tuple[int, float]:
    """(samples, s) of a day of 1,000 nodes and 10 metrics, every minute, from a server that has its answers ready."""
    t = np.arange(0, DAY, STEP_S)
    rng, parts = np.random.default_rng(0), []
    for n in range(NODES):
        values = ",".join(f'[{a:.0f},"{x:.4f}"]' for a, x in zip(t, rng.random(len(t)), strict=True))
        parts.append(f'{{"metric":{{"__name__":"NAME","instance":"node{n}"}},"values":[{values}]}}')
    body = f'{{"status":"success","data":{{"resultType":"matrix","result":[{",".join(parts)}]}}}}'

    class Server(BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.split("query=")[1].split("&")[0]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.replace("NAME", name).encode())

        def log_message(self, *told):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    begin = time.perf_counter()
    found = Prometheus(f"http://127.0.0.1:{server.server_address[1]}").read([f"m{k}" for k in range(METRICS)], 0.0, DAY, STEP_S)
    took = time.perf_counter() - begin
    server.shutdown()
    return len(found), took


def forecasts(series: int, samples: int) -> tuple[int, float]:
    """(samples, s) of forecasting so many series, with the models of the command."""
    rng = np.random.default_rng(0)
    t = np.arange(samples)
    values = 10 + 3 * np.sin(2 * np.pi * t / 288) + np.cumsum(rng.normal(0, 0.1, (series, samples)), axis=1)
    values += rng.normal(0, 0.5, (series, samples))
    whole = table(
        "made", np.tile(t * 300.0, series), np.repeat(np.arange(series), samples), np.zeros(series * samples, int),
        values.ravel(), [f"n{k}" for k in range(series)], ["load"],
    )  # fmt: skip
    begin = time.perf_counter()
    forecast_all(whole, ["persistence", "seasonal", "ewma", "holt-winters", "ridge", "boosted"], (1, 6, 12, 36))
    return len(whole), time.perf_counter() - begin


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=2500)
    count = parser.parse_args().series
    world = decisions()
    read, took = prometheus()
    told, long = forecasts(count, 4000)
    page = f"""# Telemetry

Made by {made("python -m benchmarks.telemetry")}; do not edit. 2 cores.

Choices per second of 1,024 simulations side by side, 2 threads, random actions, the best of five:

| world, encoder | choices/s |
|---|---|
{chr(10).join(f"| {a} | {b} |" for a, b in world)}

* A Prometheus of {NODES:,} nodes and {METRICS} metrics, a day, every {STEP_S:g} s: {read:,} samples read into the table
  in {took:.0f} s (the server runs in the same process, its answers ready).
* Forecasts of {count:,} series of 4,000 samples, four horizons, five models and their leader, intervals: {told:,} samples in
  {long / 60:.1f} min, {told / long:,.0f} samples/s.
"""
    (HERE / "TELEMETRY.md").write_text(page)
    print(page)
    print(json.dumps({"choices": world, "prometheus_s": took, "forecast_s": long}))


if __name__ == "__main__":
    main()
