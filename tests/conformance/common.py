"""What every file of the conformance suite shares: the world it runs in,
channels and sessions as any client makes them, and the runner.

A file is run as `python seed_NNN.py WORLD`, where WORLD is a JSON file that
the test which started the product wrote:

    binary    the program
    dataDir   what `--data-dir` was: credentials are in its `client` directory
    address   HOST:PORT of the server
    socket    the node's Unix socket; empty where there is none
    image     an image that runs the shell script in its variable SCRIPT
    scratch   a directory for the test
    nodes     "strata" or "published": who runs instances

Every case is a function with `@case("the row of the document")`. The runner
prints `ok NAME` or `FAILED NAME` with the reason for each, and exits with 1
when one failed. Cases run four at once, so each owns what it names.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import traceback
import uuid

import grpc
import requests

import published

TIMEOUT = 60
CASES = []
CODE = grpc.StatusCode


def case(row, nodes=("strata", "published"), alone=False):
    """A case of the suite: one row of the document. `alone`: nothing else runs
    beside it; `nodes`: with which nodes it means something."""

    def register(function):
        CASES.append((function, row, nodes, alone))
        return function

    return register


class World:
    """The product as it was started, from outside."""

    def __init__(self, path):
        facts = json.loads(pathlib.Path(path).read_text())
        self.binary, self.address = facts["binary"], facts["address"]
        self.data_dir = pathlib.Path(facts["dataDir"])
        self.socket, self.image = facts.get("socket", ""), facts.get("image", "")
        self.scratch = pathlib.Path(facts["scratch"])
        self.nodes = facts.get("nodes", "strata")
        self.facts = facts
        self.lock = threading.Lock()

    def strata(self, *words, check=True):
        """Runs the CLI as an admin beside the server."""
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self.scratch),
            "STRATA_DATA_DIR": str(self.data_dir),
        }
        done = subprocess.run(
            [self.binary, *words], env=environment, capture_output=True, text=True, timeout=TIMEOUT
        )
        if check and done.returncode != 0:
            raise AssertionError(f"strata {' '.join(words)}: {done.stderr}")
        return done

    def credentials(self, role="admin", name=None):
        """A directory with ca.crt, client.crt and client.key of this role."""
        if role == "admin" and name is None:
            return self.data_dir / "client"
        name = name or role
        out = self.scratch / f"credentials-{role}-{name}"
        with self.lock:
            if not out.exists():
                self.strata("certificate", "issue", "--role", role, "--name", name, "--out", str(out))
        return out

    def channel(self, role="admin", name=None, options=()):
        """A stock gRPC channel with the credentials of this role."""
        directory = self.credentials(role, name)
        read = lambda file: (directory / file).read_bytes()
        credentials = grpc.ssl_channel_credentials(
            read("ca.crt"), read("client.key"), read("client.crt")
        )
        return grpc.secure_channel(self.address, credentials, options=list(options))

    def rest(self, role="admin", name=None):
        """A session of `requests` with the credentials of this role."""
        return Rest(f"https://{self.address}", self.credentials(role, name))


class Rest(requests.Session):
    """REST by path, relative to the server."""

    def __init__(self, base, directory):
        super().__init__()
        # Variables of the host name another bundle of CAs.
        self.trust_env = False
        self.base = base
        self.verify = str(directory / "ca.crt")
        self.cert = (str(directory / "client.crt"), str(directory / "client.key"))

    def request(self, method, path, **options):
        options.setdefault("timeout", TIMEOUT)
        return super().request(method, self.base + path, **options)


class Server:
    """A server of a case's own, to be ended."""

    def __init__(self, world, listen="127.0.0.1:0", data_dir=None):
        self.data_dir = data_dir or world.scratch / unique("server")
        words = [world.binary, "server", "--data-dir", str(self.data_dir), "--listen", listen]
        self.child = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.address = self.child.stdout.readline().split("https://")[1].strip()
        self.world = World.__new__(World)
        self.world.__dict__.update(world.__dict__)
        self.world.address = self.address
        self.world.data_dir = self.data_dir

    def end(self, number):
        self.child.send_signal(number)
        self.child.wait(TIMEOUT)


def unique(prefix):
    """A name that no other case uses."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def wait(what, check, timeout=TIMEOUT):
    """What `check` answers once that is true; fails with what it said last."""
    end, said = time.monotonic() + timeout, None
    while time.monotonic() < end:
        said = check()
        if said:
            return said
        time.sleep(0.05)
    raise AssertionError(f"waited {timeout} s for {what}; last: {said!r}")


def refused(call, *codes, field=None):
    """The error of a call that has to be refused with one of these codes."""
    try:
        answer = call()
        if hasattr(answer, "__next__"):
            answer = next(answer)
    except grpc.RpcError as error:
        assert error.code() in codes, f"{error.code()}: {error.details()}, not {codes}"
        assert error.details(), "a refusal without a reason"
        if field:
            assert field in error.details(), f"{error.details()!r} does not name {field}"
        return error
    raise AssertionError(f"answered {answer!r} in place of {codes}")


def status_is(response, *codes):
    """The body of a response that has to have one of these codes."""
    assert response.status_code in codes, f"{response.status_code}: {response.text}, not {codes}"
    return response.json() if response.content else None


def problem(response, status, field=None):
    """A refusal of REST, as `application/problem+json`."""
    body = status_is(response, status)
    assert response.headers["content-type"].startswith("application/problem+json"), response.headers
    assert body["code"], body
    if field:
        assert field == body.get("field"), body
    return body


def run(function, world):
    began = time.monotonic()
    try:
        function(world)
        return None, time.monotonic() - began
    except BaseException:
        return traceback.format_exc(), time.monotonic() - began


def main(setup=None):
    """Runs the cases of the file, or those whose names are given."""
    world = World(sys.argv[1])
    only = sys.argv[2:]
    if setup:
        setup(world)
    chosen = [one for one in CASES if world.nodes in one[2] and (not only or one[0].__name__ in only)]
    failed = 0

    def report(function, row, outcome):
        nonlocal failed
        why, seconds = outcome
        failed += why is not None
        print(f"{'FAILED' if why else 'ok'} {function.__name__} {seconds:.1f}s: {row}", flush=True)
        if why:
            print(why, flush=True)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        beside = [one for one in chosen if not one[3]]
        outcomes = [(one, pool.submit(run, one[0], world)) for one in beside]
        for (function, row, _, _), outcome in outcomes:
            report(function, row, outcome.result())
    for function, row, _, alone in chosen:
        if alone:
            report(function, row, run(function, world))
    print(f"{len(chosen)} cases, {failed} failed", flush=True)
    # Threads of gRPC and of cases that failed may still wait for something.
    os._exit(1 if failed or not chosen else 0)
