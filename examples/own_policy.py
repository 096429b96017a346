"""A scheduler of one's own that decides everything: three methods, decisions are data.

jobwise simulate LOG --policy examples/own_policy.py:Drain
"""

from jobwise import Start


class Drain:
    """First come, first served, but wide jobs (over half the machine) start at night only, 20:00 to 8:00."""

    name = "drain"

    def reset(self, view):
        self.half = view.cluster.processors / 2

    def ended(self, view, rows):
        pass

    def decide(self, view):
        free = view.free.sum()
        night = not 8 <= view.now / 3600 % 24 < 20
        idle = len(view.running) == 0
        for job in view.queue:
            n = view.jobs["request"][job, 0]
            if n > self.half and not (night or idle):
                continue
            if n > free:
                return
            free -= n
            yield Start(job)


if __name__ == "__main__":
    import jobwise as jw

    w = jw.lublin(jobs=2_000, procs=64, load=0.7, estimates="users")
    print(jw.simulate(w, Drain()).summary()["wait"])
