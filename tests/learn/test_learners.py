"""Learners: returns and losses on numbers by hand, networks with and without torch, the task every learner must solve.

Modules: learn/agent.py, learn/losses.py, learn/networks.py, learn/returns.py, learn/settings.py, learn/workers.py,
policies/networks.py.
"""

import numpy as np
import pytest
import torch

from jobwise.cluster import pool
from jobwise.learn import losses, returns
from jobwise.learn.agent import Agent
from jobwise.learn.collect import collect
from jobwise.learn.learners import LEARNERS
from jobwise.learn.networks import Seen, actor, critic, parameters, weights
from jobwise.learn.settings import ALONE, PARALLEL, Settings, check_learner
from jobwise.learn.workers import Group, Replicas
from jobwise.policies.networks import Forward
from jobwise.testing import Identity
from jobwise.worlds.window import encoders

pytestmark = pytest.mark.xdist_group("learning")  # one worker compiles the kernels of choices, not both


def test_the_names_of_learners_are_those_of_the_settings():
    assert tuple(LEARNERS) == ALONE


def test_returns_by_hand():
    assert returns.discounted(np.array([1.0, 2.0, 4.0]), 0.5).tolist() == [3.0, 4.0, 4.0]
    r, v, last = np.array([[1.0], [2.0], [3.0]]), np.array([[0.5], [1.0], [2.0]]), np.array([4.0])
    advantage, target = returns.gae(r, v, np.zeros((3, 1)), last, 0.5, 0.5)
    # d2 = 3 + 2 - 2 = 3; d1 = 2 + 1 - 1 = 2, A1 = 2 + 0.25 * 3; d0 = 1 + 0.5 - 0.5 = 1, A0 = 1 + 0.25 * 2.75
    assert advantage[:, 0].tolist() == [1.6875, 2.75, 3.0]
    assert target[:, 0].tolist() == [2.1875, 3.75, 5.0]
    over = np.array([[0.0], [1.0], [0.0]])
    advantage, _ = returns.gae(r, v, over, last, 0.5, 0.5)
    assert advantage[:, 0].tolist() == [1.25, 1.0, 3.0]
    x = returns.standardised(np.array([1.0, 3.0]))
    assert x.tolist() == pytest.approx([-1.0, 1.0])
    assert returns.standardised(np.array([2.0, 4.0, 6.0, 12.0])).std() == pytest.approx(1.0)
    assert returns.standardised(np.ones(4)).tolist() == [0, 0, 0, 0]


def test_time_baseline_by_hand():
    g = np.array([[1.0, 3.0], [5.0, 7.0], [9.0, 100.0]])  # the second run is over after two steps
    assert returns.time_baseline(g, np.array([3, 2])).tolist() == [2.0, 6.0, 9.0]


def test_losses_by_hand():
    logp, old = torch.log(torch.tensor([0.5, 0.2])), torch.log(torch.tensor([0.25, 0.4]))
    assert losses.policy_gradient(logp, torch.tensor([2.0, -1.0])).item() == pytest.approx(-(2 * np.log(0.5) - np.log(0.2)) / 2)
    assert losses.policy_gradient(torch.tensor([-50.0]), torch.tensor([1.0])).item() == pytest.approx(18.42)
    # ratios 2 and 0.5; advantages 1 and -1, clip 0.2: min(2, 1.2) = 1.2 and min(-0.5, -0.8) = -0.8
    assert losses.clipped(logp, old, torch.tensor([1.0, -1.0]), 0.2).item() == pytest.approx(-(1.2 - 0.8) / 2)
    # ratios 2 and 0.5; advantages 3 and 5: min(6, 1.2 * 3) and min(2.5, 0.8 * 5)
    assert losses.clipped(logp, old, torch.tensor([3.0, 5.0]), 0.2).item() == pytest.approx(-(3.6 + 2.5) / 2)
    assert losses.squared(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 0.0])).item() == 5.0
    p = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]).log()
    assert losses.entropy(p).item() == pytest.approx(np.log(2) / 2)


@pytest.mark.parametrize(
    ("kind", "encoder", "hidden"), [("perjob", "rls", [32, 16, 8]), ("rows", "sem", [20, 10]), ("mlp", "rls", [16])]
)
def test_networks_are_the_same_without_torch(kind, encoder, hidden):
    e = encoders.make(encoder, pool(64), None, 12)
    first = {"perjob": e.shape[1], "rows": e.shape[0], "mlp": e.shape[0] * e.shape[1]}[kind]
    spec = {"kind": kind, "sizes": [first, *hidden, 1 if kind == "perjob" else 12]}
    torch.manual_seed(0)
    net = actor(spec)
    forward = Forward(spec, weights(net))
    assert forward.parameters == parameters(net)
    x = np.random.default_rng(0).random((5, *e.shape)).astype(np.float32)
    counts = np.array([1, 12, 3, 7, 2])
    there = np.arange(12) < counts[:, None]
    seen = Seen(torch.from_numpy(x[there] if kind == "perjob" else x), torch.from_numpy(counts))
    theirs = net(seen).detach().numpy()
    mine = np.full((5, 12), -np.inf, np.float32)
    mine[there] = forward(x[there]) if kind == "perjob" else forward(x)[there]
    assert np.allclose(mine[:, : theirs.shape[1]], theirs, atol=1e-5)


def test_padding_is_not_computed():
    """A job more in one window changes nothing for the others, and values see the jobs that are there."""
    spec = {"kind": "perjob", "sizes": [8, 4, 1]}
    torch.manual_seed(0)
    net, pooled, window = actor(spec), critic(spec, (6, 8), "pooled"), critic(spec, (6, 8), "window")
    x = torch.rand(5, 8)
    short, long = Seen(x[:3], torch.tensor([1, 2])), Seen(x, torch.tensor([1, 2, 2]))
    for part in (net, pooled, window):
        assert torch.allclose(part(short), part(long)[:2], atol=1e-6)


@pytest.mark.parametrize("network", ["perjob", "mlp", "rows"])
@pytest.mark.parametrize(
    "settings",
    [
        {"learner": "reinforce", "steps": 10, "actor_lr": 0.02, "gamma": 0.0},
        {"learner": "reinforce", "baseline": "time", "actor_lr": 0.02, "gamma": 0.0},
        {"learner": "actor_critic", "steps": 16, "actor_lr": 0.02, "critic_lr": 0.01, "gamma": 0.0},
        {"learner": "ppo", "steps": 32, "actor_lr": 0.01, "critic_lr": 0.01, "gamma": 0.0},
        {"learner": "one_step_ac", "steps": 1, "actor_lr": 0.02, "critic_lr": 0.01, "gamma": 0.0},
        {"learner": "dqn", "steps": 10, "actor_lr": 0.02, "gamma": 0.0, "explore_decay": 0.99, "target_every": 10},
        {"learner": "a3c", "steps": 16, "actor_lr": 0.02, "critic_lr": 0.01, "gamma": 0.0},
        {"learner": "a3c_ppo", "steps": 16, "actor_lr": 0.01, "critic_lr": 0.01, "gamma": 0.0},
    ],
    ids=lambda s: f"{s['learner']}-{s.get('baseline', '')}",
)
def test_every_learner_solves_the_identity_task(network, settings):
    window = 6 if network == "perjob" else 3
    if network == "rows":
        encoder = encoders.make("sem", pool(8), None, window, largest=1)
    else:
        encoder = encoders.make("rls", pool(8), None, window)
    first = {"perjob": 8, "mlp": 8 * window, "rows": encoder.shape[0]}[network]
    spec = {"kind": network, "sizes": [first, 32, 1 if network == "perjob" else window]}
    agent = Agent(spec, encoder, Settings(**settings), seed=1)
    game = Identity(encoder, 32, seed=0)
    steps = None if settings.get("baseline") == "time" else settings["steps"]
    right = 0.0
    if settings["learner"] in PARALLEL:
        workers = Replicas(agent, Group([Identity(encoder, 8, seed=k) for k in range(4)]), 0)
    for update in range(800 if settings.get("steps") != 1 else 4000):
        if settings["learner"] in PARALLEL:
            _, done = workers.update(settings["learner"], steps)
            right = 0.9 * right + 0.1 * np.mean([r.rewards.mean() for r in done])
            if right > 0.8:
                break
            continue
        if steps is None:
            game.reset(seed=[update] * 32)
        rollout = collect(game, agent, steps)
        LEARNERS[settings["learner"]](agent, rollout)
        right = 0.9 * right + 0.1 * rollout.rewards.sum() / rollout.there.sum()
        if right > 0.8:
            break
    assert right > 0.8


def test_dqn_by_hand(tmp_path):
    """The loss is that of the chosen action's value against r + gamma max Q' of the network as it was; exploration falls."""
    encoder = encoders.make("sem", pool(8), None, 3, largest=1)
    spec = {"kind": "rows", "sizes": [encoder.shape[0], 4, 3]}
    k = Settings(
        learner="dqn", steps=4, gamma=0.5, optimiser="sgd", actor_lr=0.1, max_norm=1e9, target_every=2, explore_least=0.9
    )
    agent, game = Agent(spec, encoder, k, seed=0), Identity(encoder, 5, seed=0)
    rollout = collect(game, agent, 4)
    obs = rollout.seen(np.arange(20), False, torch.device("cpu"))
    q = agent.actor(obs).detach().numpy()
    after = np.concatenate([q.max(axis=1).reshape(4, 5)[1:], rollout.last_values[None]])
    agent.rescale(rollout.rewards)  # the unit that the learner will have
    again = Agent(spec, encoder, k, seed=0)
    LEARNERS["dqn"](again, rollout)
    target = (rollout.rewards / again.unit + 0.5 * (1 - rollout.over) * after).reshape(-1)
    error = target - q[np.arange(20), rollout.actions]
    loss = np.where(np.abs(error) < 1, 0.5 * error**2, np.abs(error) - 0.5).mean()
    fresh = Agent(spec, encoder, k, seed=0)
    assert LEARNERS["dqn"](fresh, rollout)["loss"] == pytest.approx(loss, rel=1e-4)
    assert fresh.explore == pytest.approx(0.995) and fresh.updates == 1
    kept = [p.clone() for p in fresh.target.parameters()]
    assert not all(torch.equal(a, b) for a, b in zip(kept, fresh.actor.parameters(), strict=True))
    state = fresh.state()
    LEARNERS["dqn"](fresh, rollout)  # the second update: the target network is the present one
    assert all(torch.equal(a, b) for a, b in zip(fresh.target.parameters(), fresh.actor.parameters(), strict=True))
    for _ in range(40):
        LEARNERS["dqn"](fresh, rollout)
    assert fresh.explore == 0.9
    fresh.restore(state)
    assert fresh.updates == 1 and all(torch.equal(a, b) for a, b in zip(fresh.target.parameters(), kept, strict=True))
    for wrong in (
        {"learner": "ppo", "explore": 0.5},
        {"learner": "dqn", "explore": 2.0},
        {"learner": "dqn", "critic_first": 1},
    ):
        with pytest.raises(ValueError):
            check_learner(wrong)


def test_one_step_actor_critic_by_hand():
    """Sutton and Barto's update of one choice, with plain gradient steps."""
    encoder = encoders.make("rls", pool(8), None, 6)
    k = Settings(
        learner="one_step_ac", steps=1, gamma=0.5, optimiser="sgd", actor_lr=0.1, critic_lr=0.2, entropy=0.0, max_norm=1e9
    )
    agent, game = Agent({"kind": "perjob", "sizes": [8, 1]}, encoder, k, seed=2), Identity(encoder, 1, seed=3)
    agent.discount = np.array([0.25])  # two steps have been made
    rollout = collect(game, agent, 1)
    before = [p.detach().clone() for p in (*agent.actor.parameters(), *agent.critic.parameters())]
    seen = rollout.seen(np.arange(1), True, agent.device)
    logp = torch.log_softmax(agent.actor(seen), dim=-1)[0, int(rollout.actions[0])]
    grads = [*torch.autograd.grad(logp, list(agent.actor.parameters()))]
    grads += [*torch.autograd.grad(agent.critic(seen)[0], list(agent.critic.parameters()))]
    LEARNERS["one_step_ac"](agent, rollout)
    after = 0.5 * (1 - rollout.over[0, 0]) * rollout.last_values[0]
    delta = 0.25 * (rollout.rewards[0, 0] / agent.unit + after - rollout.values[0, 0])
    rates = [0.1] * 2 + [0.2] * (len(grads) - 2)
    now = (*agent.actor.parameters(), *agent.critic.parameters())
    for old, new, g, rate in zip(before, now, grads, rates, strict=True):
        assert torch.allclose(new, old + rate * delta * g, atol=1e-6)
    assert agent.discount[0] == (1.0 if rollout.over[0, 0] else 0.125)


def test_workers_are_late_and_the_same_every_time():
    """A worker follows gradients of the networks that it fetched, K - 1 updates ago."""
    encoder = encoders.make("rls", pool(8), None, 6)

    def learnt(turns):
        agent = Agent({"kind": "perjob", "sizes": [8, 4, 1]}, encoder, Settings(learner="a3c", steps=4), seed=1)
        workers = Replicas(agent, Group([Identity(encoder, 8, seed=k) for k in range(3)]), 0)
        copies = [c.weights() for c in workers.copies]
        for _ in range(turns):
            workers.update("a3c", 4)
        return agent.weights(), copies, [c.weights() for c in workers.copies]

    (one, _, _), (two, begun, copies) = learnt(3), learnt(3)
    assert all(np.array_equal(one[k], two[k]) for k in one)
    assert all(np.array_equal(begun[0][k], begun[2][k]) for k in one)
    assert not all(np.array_equal(copies[0][k], copies[1][k]) for k in one)  # the first knows less than the last
    assert all(np.array_equal(copies[2][k], two[k]) for k in one)


def test_expected_cost_by_hand():
    every = torch.log(torch.tensor([[0.25, 0.75], [1.0, 0.0]]))
    assert losses.expected(every, torch.tensor([[1.0, 0.0], [0.5, 0.0]])).item() == pytest.approx((0.25 + 0.5) / 2)


def test_a_loss_that_is_no_number_is_noticed():
    encoder = encoders.make("rls", pool(8), None, 6)
    agent = Agent({"kind": "perjob", "sizes": [8, 4, 1]}, encoder, Settings(steps=4), seed=0)
    with torch.no_grad():
        agent.actor.net[0].weight[:] = float("nan")
    with pytest.raises(FloatingPointError):
        LEARNERS["ppo"](agent, collect(Identity(encoder, 4), agent, 4))


def test_an_agent_goes_on_from_its_state():
    encoder = encoders.make("rls", pool(8), None, 6)

    def learn(agent, game, times):
        for _ in range(times):
            LEARNERS["ppo"](agent, collect(game, agent, 8))

    one = Agent({"kind": "perjob", "sizes": [8, 4, 1]}, encoder, Settings(steps=8), seed=0)
    other = Agent({"kind": "perjob", "sizes": [8, 4, 1]}, encoder, Settings(steps=8), seed=5)
    learn(one, Identity(encoder, 4, seed=1), 3)
    other.restore(one.state())
    for agent in (one, other):
        learn(agent, Identity(encoder, 4, seed=2), 3)
    assert all(np.array_equal(a, b) for a, b in zip(one.weights().values(), other.weights().values(), strict=True))
