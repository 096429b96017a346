"""Single looks of a shadow and of steering, as tests take them."""

from jobwise.live.cycle import Cycle, Turn
from jobwise.live.shadow import Shadow
from jobwise.live.steer import Steer, SteerSettings
from jobwise.live.wishes import Wishes


class Shadowing(Shadow):
    """A shadow with its policy, looked at by hand."""

    def __init__(self, policy, journal=None):
        super().__init__(journal)
        self.policy, self.turn = policy, None

    def cycle(self, c, n=0):
        """(predictions, events) of a cluster as it is now."""
        self.turn = Turn(n, c, Wishes(self.policy, c, self.turn.wishes if self.turn else None))
        self.take(self.turn)
        return self.turn.predicted, self.turn.events

    @property
    def problem(self):
        return self.turn.problem


class Steering(Steer):
    """Steering with its cycle."""

    def __init__(self, slurm, policy, state, own=SteerSettings(), source=None, **more):
        super().__init__(slurm, policy.name, state, own, **more)
        self.turns = Cycle(source, policy, [self])

    def cycle(self):
        return self.turns.once()
