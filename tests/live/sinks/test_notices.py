"""Notices of starts and of long queues: who is sent what, how often, by apprise to a real web hook, and what a file must be.

Modules: live/sinks/notices.py.
"""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from types import SimpleNamespace

import pytest
from conftest import in_docs

from jobwise.errors import InputError
from jobwise.live.sinks.notices import MOST, Notice, Notices, by_apprise, read_notices


def turn(*jobs):
    """A look with jobs (number, user, s until it starts, s that it has waited)."""
    rows = [{"job": j, "user": u, "start": s, "start_80": (s / 2, 2 * s), "waited": w} for j, u, s, w in jobs]
    return SimpleNamespace(predicted=SimpleNamespace(rows=lambda: rows))


def sent(notices, *turns):
    out = []
    sink = Notices(notices, lambda to, title, text: out.append((to, text)))
    for t in turns:
        sink.take(t)
    return out


def test_a_job_is_announced_once_to_its_own_user():
    """Job 1 is an hour away, then 8 minutes, then 4; job 2 is another user's."""
    ann = Notice("a:", "ann", 600.0, 0.0)
    looks = (turn((1, "ann", 3600.0, 0), (2, "bob", 60.0, 0)), turn((1, "ann", 480.0, 0)), turn((1, "ann", 240.0, 0)))
    assert sent([ann], *looks) == [("a:", "job 1 starts within 10 minutes (80 %: in 4 to 16 minutes)")]


def test_a_long_queue_is_announced_when_it_becomes_long():
    wish = Notice("q:", "", 0.0, 3600.0)
    short, long_ = turn((1, "a", 1.0, 100.0)), turn((1, "a", 1.0, 7200.0), (2, "a", 1.0, 9000.0))
    out = sent([wish], short, long_, long_, short, long_)
    assert [to for to, _ in out] == ["q:", "q:"]
    assert out[0][1] == "the queue's median wait passed 1 h: 2 jobs wait, 2.2 h in the median"


def test_nobody_gets_more_than_a_few_messages_of_a_look():
    out = sent([Notice("a:", "ann", 600.0, 0.0)], turn(*[(k, "ann", 60.0, 0) for k in range(100)]))
    assert len(out) == MOST and out[-1][1] == "and 81 more jobs"


def test_a_message_that_is_not_taken_is_said_and_does_not_stop_the_others():
    out = []

    def send(to, title, text):
        if to == "bad:":
            raise InputError("a notice: bad: the message was not taken")
        out.append(to)

    sink = Notices([Notice("bad:", "ann", 600.0, 0.0), Notice("good:", "ann", 600.0, 0.0)], send)
    with pytest.raises(InputError, match="not taken"):
        sink.take(turn((1, "ann", 60.0, 0)))
    assert out == ["good:"]


def test_apprise_posts_to_a_web_hook():
    pytest.importorskip("apprise")
    posted = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words):
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    Thread(target=server.serve_forever, daemon=True).start()
    by_apprise(f"json://127.0.0.1:{server.server_port}/hook", "jobwise", "job 3100 starts within 10 minutes")
    server.shutdown()
    server.server_close()
    assert posted[0]["message"] == "job 3100 starts within 10 minutes" and posted[0]["title"] == "jobwise"
    with pytest.raises(InputError, match="no address that apprise knows") as error:
        by_apprise("nonsense://ann:secret@x", "t", "x")
    assert "secret" not in str(error.value)


def file(tmp_path, text, mode=0o600):
    path = tmp_path / "notices.toml"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_the_example_is_read(tmp_path):
    ann, queue = read_notices(file(tmp_path, in_docs("systems/live.md", "toml", "notice")))
    assert (ann.user, ann.within, queue.median) == ("ann", 600.0, 21_600.0)


@pytest.mark.parametrize(
    "text, why",
    [
        ("", r"a table \[\[notice\]\]"),
        ("[[notice]]\nto='a:'\n", "one of them"),
        ("[[notice]]\nto='a:'\nstarts_within='10m'\nmedian_wait='1h'\n", "one of them"),
        ("[[notice]]\nto='a:'\nstarts_within='10m'\n", "name the user"),
        ("[[notice]]\nto='a:'\nmedian_wait='soon'\n", "a time such as 10m"),
        ("[[notice]]\nmedian_wait='1h'\n", "an address"),
        ("[[notice]]\nto='a:'\nwhen='1h'\n", "when: to, user"),
        ("[[notice]\n", "notices.toml: "),
    ],
)
def test_bad_files_are_one_line(tmp_path, text, why):
    with pytest.raises(InputError, match=why):
        read_notices(file(tmp_path, text))


def test_a_file_that_others_may_read_is_refused(tmp_path):
    with pytest.raises(InputError, match="chmod 600"):
        read_notices(file(tmp_path, in_docs("systems/live.md", "toml", "notice"), 0o644))
    with pytest.raises(InputError, match="No such file"):
        read_notices(str(tmp_path / "none.toml"))
