"""The tools of a chat about a cluster, asked with the library's own client: what it says, whose jobs it shows, what it refuses.

Modules: cli/mcp.py.
"""

import json
import sys
from pathlib import Path

import pytest

from jobwise.cli.mcp import Tools, server

pytest.importorskip("mcp")
pytestmark = [pytest.mark.xdist_group("sites"), pytest.mark.usefixtures("few_predictions"), pytest.mark.cli]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A running cluster's folder: three jobs wait."""
    from conftest import write_site
    from test_live import job

    folder = tmp_path_factory.mktemp("live") / "cluster"
    write_site(folder, jobs=60)
    rows = (folder / "sacct.txt").read_text().splitlines()
    now = max(int(row.split("|")[10]) for row in rows[1:]) + 900
    running = [job(9000 + k, 4, 600, now, "RUNNING", "None", nodes=f"n{k}", ran=100) for k in range(1, 5)]
    waiting = [job(9005, 4, 60, now), job(9006, 2, 30, now, user_name="u2"), job(9007, 2, 30, now, reason="JobHeldUser")]
    (folder / "squeue.json").write_text(json.dumps({"jobs": running + waiting}))
    (folder / "now.txt").write_text(f"{now}\n")
    return folder


def ask(tools, *calls):
    """The results of calls (name, arguments) of a server with these tools."""
    import asyncio

    from mcp import Client

    async def session():
        async with Client(server(tools)) as client:
            listed = await client.list_tools()
            return listed.tools, [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(session())


def read(result):
    assert not result.is_error, result.content
    return json.loads(result.content[0].text)


def test_a_client_is_told_the_tools_and_that_they_only_read(place):
    tools, _ = ask(Tools(str(place), None, None))
    assert [t.name for t in tools] == ["when", "explain", "fits", "advise", "what_if"]
    assert all(t.annotations.read_only_hint and t.description for t in tools)


def test_when_will_my_job_start(place):
    _, (every, one, new) = ask(
        Tools(str(place), None, None),
        ("when", {}),
        ("explain", {"job": 9005}),
        ("fits", {"cpus": 2, "time": "1h"}),
    )
    jobs = read(every)["jobs"]
    assert {x["job"] for x in jobs} == {9005, 9006} and all(len(x["start_80"]) == 2 for x in jobs)
    assert read(one)["jobs"][0]["job"] == 9005 and "sooner" in read(one)["jobs"][0] and read(one)["jobs"][0]["why"]
    assert read(new)["cpus"] == 2 and read(new)["start"] >= 0


def test_a_server_for_one_user_shows_no_others(place):
    words = ("when", {}), ("explain", {"job": 9006}), ("when", {"user": "u1"}), ("advise", {})
    _, (mine, one, other, advice) = ask(Tools(str(place), None, "u2"), *words)
    for out in (read(mine), read(one)):
        assert {x["user"] for x in out["jobs"]} == {"u2"} and out["cannot_start"] == []
    assert other.is_error and "the jobs of u2 alone" in other.content[0].text
    assert advice.is_error and "names all users" in advice.content[0].text


def test_a_client_hears_that_an_answer_takes_time(place, monkeypatch):
    """Without that, some give up after 10 s."""
    import asyncio

    from mcp import Client

    monkeypatch.setattr("jobwise.cli.mcp.BEAT_S", 0.01)
    heard = []

    async def progress(done, total, message):
        heard.append((done, message))

    async def session():
        async with Client(server(Tools(str(place), None, None))) as client:
            await client.call_tool("when", {}, progress_callback=progress)

    asyncio.run(session())
    assert len(heard) > 1 and heard == sorted(heard) and heard[0][1].startswith("simulating, ")


def test_wrong_questions_are_one_line(place):
    _, (gone, never, lost) = ask(
        Tools(str(place), None, None),
        ("explain", {"job": 1}),
        ("fits", {"cpus": 4000, "time": "1h"}),
        ("what_if", {"nodes": 1}),
    )
    for result, says in ((gone, "job 1 does not wait"), (never, "can hold `--ntasks=4000`"), (lost, "--site FOLDER")):
        assert result.is_error and says in result.content[0].text and "\n" not in result.content[0].text


def test_the_command_speaks_on_standard_input(place):
    """As a chat starts it: a process, spoken to by its pipes."""
    import asyncio

    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    words = ["-m", "jobwise.cli", "mcp", "--folder", str(place)]

    async def session():
        at = StdioServerParameters(command=sys.executable, args=words, cwd=str(Path(__file__).parents[2]))
        async with Client(stdio_client(at)) as client:
            return await client.call_tool("when", {"job": 9006})

    assert [x["job"] for x in read(asyncio.run(session()))["jobs"]] == [9006]
