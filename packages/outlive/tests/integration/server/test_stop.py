"""An engine that is told to stop answers who waits, closes its store, and ends with 0."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import pytest

ENGINE = """
import sys
from outlive.server.main import Options, run
run(Options(store=sys.argv[1], port=0), lambda url: print(url, flush=True))
"""


@contextmanager
def engine(folder):
    command = [sys.executable, "-c", ENGINE, f"sqlite:///{folder}/outlive.db"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def ask(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=30) as answer:
        return json.load(answer)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop(tmp_path, number):
    with engine(tmp_path) as (process, url):
        run = ask(f"{url}/v1/runs", {"app": "a", "workflow": "w"})["id"]
        assert (tmp_path / "outlive.db-wal").exists()
        process.send_signal(number)
        assert process.wait(30) == 0
        assert not (tmp_path / "outlive.db-wal").exists(), "the store was not closed"
    with engine(tmp_path) as (_, url):
        assert ask(f"{url}/v1/runs/{run}")["state"] == "queued"


def test_who_waits_is_answered(tmp_path):
    with engine(tmp_path) as (process, url):
        run = ask(f"{url}/v1/runs", {"app": "a", "workflow": "w"})["id"]
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as waiting:
            waiting.sendall(f"GET /v1/runs/{run}?wait=60 HTTP/1.1\r\nhost: engine\r\n\r\n".encode())
            ask(f"{url}/v1/ready")  # it came later, so the other is being waited for by now
            process.send_signal(signal.SIGTERM)
            answer = waiting.makefile("rb").read()
        assert b"200 OK" in answer
        assert b'"state":"queued"' in answer
        assert process.wait(30) == 0
