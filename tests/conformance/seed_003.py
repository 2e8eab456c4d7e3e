"""Conformance with the document of the runtime (packages `runtime`, `observe`)."""

import json
import pathlib
import threading
import time

import grpc

import published
from common import CODE, TIMEOUT, case, main, refused, status_is, unique, wait

r, r_grpc = published.stubs("runtime")
o, o_grpc = published.stubs("observe")


class Node:
    """The services of the node on a stock channel to its Unix socket."""

    def __init__(self, world):
        self.channel = grpc.insecure_channel(f"unix:{world.socket}")
        self.cells = r_grpc.CellServiceStub(self.channel)
        self.observe = o_grpc.ObserveStub(self.channel)

    def allocate(self, name, **fields):
        cell = r.Cell(name=name, **fields)
        return self.cells.Allocate(r.AllocateCellRequest(cell=cell), timeout=TIMEOUT)

    def free(self, name):
        return self.cells.Free(r.FreeCellRequest(cell_name=name), timeout=TIMEOUT)

    def start(self, cell, name, command, **fields):
        executable = r.Executable(cell_name=cell, name=name, command=command, **fields)
        return self.cells.Start(r.StartCellRequest(executable=executable), timeout=TIMEOUT)

    def stop(self, cell, name):
        request = r.StopCellRequest(cell_name=cell, executable_name=name)
        return self.cells.Stop(request, timeout=TIMEOUT)

    def stream(self, channel, pid):
        request = o.GetSubProcessStreamRequest(channel_type=channel, process_id=pid)
        return self.observe.GetSubProcessStream(request, timeout=TIMEOUT)

    def lines(self, channel, pid):
        return [item.line for item in self.stream(channel, pid)]

    def daemon_log(self):
        request = o.GetAuraeDaemonLogStreamRequest()
        return self.observe.GetAuraeDaemonLogStream(request, timeout=TIMEOUT)

    def pid(self, cell, name):
        """What a client of the document alone knows it by: the daemon's log
        says `started cell=CELL executable=NAME pid=PID`."""
        words = [f"cell={cell}", f"executable={name}"]
        for item in self.daemon_log():
            if "started" in item.line and all(word in item.line for word in words):
                return int(item.line.split("pid=")[1].split()[0])
        raise AssertionError("the log ended")


def in_cell(test):
    """Runs a case in a cell of its own, which is freed afterwards."""

    def run(world):
        node, cell = Node(world), unique("cell")
        node.allocate(cell)
        try:
            test(world, node, cell)
        finally:
            node.free(cell)

    run.__name__ = test.__name__
    return run


@case("CellService.Allocate: again the same is fine, another is ALREADY_EXISTS; Free twice is fine")
def allocate_and_free(world):
    node, cell = Node(world), unique("cell")
    first, again = node.allocate(cell), node.allocate(cell)
    assert first.cell_name == cell and first == again, (first, again)
    refused(lambda: node.allocate(cell, cpu_shares=512), CODE.ALREADY_EXISTS)
    for _ in range(2):
        assert node.free(cell) == r.FreeCellResponse()
    refused(lambda: node.free(unique("never")), CODE.NOT_FOUND)


@case("AllocateCellRequest.cell: unset is INVALID_ARGUMENT and names the field")
def allocate_without_a_cell(world):
    cells = Node(world).cells
    empty = r.AllocateCellRequest()
    refused(lambda: cells.Allocate(empty, timeout=TIMEOUT), CODE.INVALID_ARGUMENT, field="cell")


@case("Cell.name: DNS labels, nested by /, `tasks` among them; all else is refused")
def cell_names(world):
    node, top = Node(world), unique("top")
    for name in [top, f"{top}/tasks", f"{top}/tasks/inner", f"{top}/a-1"]:
        assert node.allocate(name).cell_name == name
        node.start(name, "main", "sleep 1000")
    for name in ["A", "a_b", "a.b", "", "/a", "a/", "a b", "a\n", "ä", "a" * 64, "-a"]:
        refused(lambda: node.allocate(name), CODE.INVALID_ARGUMENT, field="cell.name")
    refused(lambda: node.allocate(f"{unique('none')}/x"), CODE.FAILED_PRECONDITION)
    node.free(top)
    refused(lambda: node.start(top, "main", "true"), CODE.NOT_FOUND)


@case("Cell.name: `tasks` itself, which is a file of cgroup v1", alone=True)
def cell_named_tasks(world):
    node = Node(world)
    node.allocate("tasks")
    node.start("tasks", "main", "sleep 1000")
    node.free("tasks")
    node.free("tasks")


@case("Cell.cpu_shares: 0 is the default, 2 to 262144 are taken, others are refused")
def cpu_shares(world):
    node = Node(world)
    for shares in [0, 2, 1024, 262144]:
        cell = unique("shares")
        node.allocate(cell, cpu_shares=shares)
        node.free(cell)
    for shares in [1, 262145, 2**64 - 1]:
        refuse = lambda: node.allocate(unique("shares"), cpu_shares=shares)
        refused(refuse, CODE.INVALID_ARGUMENT, field="cpu_shares")


@case("AllocateCellResponse.cgroup_v2: what the host has")
def cgroup_version(world):
    node, cell = Node(world), unique("cell")
    v2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
    assert node.allocate(cell).cgroup_v2 == v2
    node.free(cell)


@case("CellService.Start and Stop: by name; a stop again is fine; what ended can be started again")
@in_cell
def start_and_stop(world, node, cell):
    # What is not published is unknown to the stub.
    assert not node.start(cell, "main", "sleep 1000").ListFields()
    node.start(cell, "main", "sleep 1000")
    refused(lambda: node.start(cell, "main", "sleep 2000"), CODE.ALREADY_EXISTS)
    for _ in range(2):
        assert node.stop(cell, "main") == r.StopCellResponse()
    refused(lambda: node.stop(cell, "none"), CODE.NOT_FOUND)
    node.start(cell, "main", "sleep 2000", description="again")


@case("StartCellRequest.executable, Executable.cell_name: unset and unknown are refused")
@in_cell
def start_refusals(world, node, cell):
    empty = r.StartCellRequest()
    refused(lambda: node.cells.Start(empty, timeout=TIMEOUT), CODE.INVALID_ARGUMENT, field="executable")
    refused(lambda: node.start("", "main", "true"), CODE.INVALID_ARGUMENT)
    refused(lambda: node.start(unique("none"), "main", "true"), CODE.NOT_FOUND)
    refused(lambda: node.start(cell, "", "true"), CODE.INVALID_ARGUMENT, field="name")


@case("Executable.command: split as a shell does it; what cannot run is refused and says why")
@in_cell
def commands(world, node, cell):
    node.start(cell, "words", "printf '%s\\n' 'a b' c\\ d \"e\"")
    pid = node.pid(cell, "words")
    assert node.lines(o.CHANNEL_STDOUT, pid) == ["a b", "c d", "e"]
    for bad in ["", "   ", "'open", "/none/such", "/etc/passwd", "/etc", "# only"]:
        refused(lambda: node.start(cell, "bad", bad), CODE.INVALID_ARGUMENT, field="command")
    refused(lambda: node.start(cell, "bad", "x" * 70_000), CODE.INVALID_ARGUMENT)
    refused(lambda: node.start(cell, "bad", "x" * (3 << 20)), CODE.RESOURCE_EXHAUSTED)


@case("Executable.command: an operator of the shell is refused with a hint, and runs by sh -c")
@in_cell
def shell_operators(world, node, cell):
    # The commands of the examples that are published with the API.
    for bad in ["/usr/bin/echo 'hello world' 1>&2", "ifconfig && ip a && route", "ls | wc", "a; b"]:
        error = refused(lambda: node.start(cell, "bad", bad), CODE.INVALID_ARGUMENT, field="command")
        assert "sh -c" in error.details(), error.details()
    node.start(cell, "err", "sh -c \"/usr/bin/echo 'hello world' 1>&2\"")
    pid = node.pid(cell, "err")
    assert node.lines(o.CHANNEL_STDERR, pid) == ["hello world"]
    assert node.lines(o.CHANNEL_STDOUT, pid) == []


@case("Observe.GetSubProcessStream: history, then live, to the end; unknown pids and channels refused")
@in_cell
def sub_process_stream(world, node, cell):
    script = "sh -c 'echo first; sleep 0.5; echo second; printf last; echo no >&2'"
    began = int(time.time())
    node.start(cell, "main", script)
    pid = node.pid(cell, "main")
    items = list(node.stream(o.CHANNEL_STDOUT, pid))
    assert [item.line for item in items] == ["first", "second", "last"], items
    for item in items:
        assert item.channel == "stdout", item
        assert began - 1 <= item.timestamp <= int(time.time()) + 1, item
    assert node.lines(o.CHANNEL_STDERR, pid) == ["no"]
    for bad in [0, -1]:
        refused(lambda: node.stream(o.CHANNEL_STDOUT, bad), CODE.INVALID_ARGUMENT, field="process_id")
    refused(lambda: node.stream(o.CHANNEL_STDOUT, 2**40), CODE.NOT_FOUND)
    refused(lambda: node.stream(7, pid), CODE.INVALID_ARGUMENT, field="channel_type")


@case("Observe.GetSubProcessStream: 100,000 lines in order, invalid UTF-8 replaced")
@in_cell
def lines_in_order(world, node, cell):
    node.start(cell, "main", "sh -c 'seq 1 100000; printf \"\\\\377\\\\n\"'")
    lines = node.lines(o.CHANNEL_STDOUT, node.pid(cell, "main"))
    assert lines[:-1] == [str(n) for n in range(1, 100_001)]
    assert lines[-1] == "\ufffd", lines[-1]


@case("Observe.GetAuraeDaemonLogStream: from the daemon's first line, then live")
def daemon_log(world):
    node, cell = Node(world), unique("logged")
    stream = node.daemon_log()
    first = next(stream)
    assert first.line and first.channel, first
    node.allocate(cell)
    node.free(cell)
    assert any("freed" in item.line and cell in item.line for item in stream)


@case("Executables of one name at once: equal ones are one process, others are refused")
@in_cell
def starts_at_once(world, node, cell):
    codes, barrier = [], threading.Barrier(8)

    def start(n):
        barrier.wait()
        try:
            node.start(cell, "one", f"sleep {1000 + n}")
            codes.append(CODE.OK)
        except grpc.RpcError as error:
            codes.append(error.code())

    threads = [threading.Thread(target=start, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(code.name for code in codes) == ["ALREADY_EXISTS"] * 7 + ["OK"], codes


@case("Isolation: own processes, own host name")
@in_cell
def isolation(world, node, cell):
    node.start(cell, "main", "sh -c 'hostname; ls -d /proc/[0-9]* | wc -l'")
    name, processes = node.lines(o.CHANNEL_STDOUT, node.pid(cell, "main"))
    assert name == cell, name
    assert int(processes) < 10, processes


@case("A stream beyond the limit of a connection is refused, and does not wait for ever", alone=True)
@in_cell
def streams_of_one_connection(world, node, cell):
    node.start(cell, "main", "sh -c 'echo begin; sleep 1000'")
    pid = node.pid(cell, "main")
    one = Node(world)
    streams = [one.stream(o.CHANNEL_STDOUT, pid) for _ in range(256)]
    for stream in streams:
        assert next(stream).line == "begin"
    error = refused(lambda: one.stream(o.CHANNEL_STDOUT, pid), CODE.RESOURCE_EXHAUSTED)
    assert "connection" in error.details(), error.details()
    streams.pop().cancel()
    wait("a place", lambda: next(one.stream(o.CHANNEL_STDOUT, pid)).line == "begin")
    for stream in streams:
        stream.cancel()


@case("Over TCP with a certificate the same; without one, nothing is answered")
def over_tcp(world):
    told = json.loads((world.data_dir / "client" / "endpoints.json").read_text())
    address = told["node"].removeprefix("https://")
    read = lambda name: (world.data_dir / "client" / name).read_bytes()
    keys = (read("client.key"), read("client.crt"))
    name = unique("tcp")
    ask = r.AllocateCellRequest(cell=r.Cell(name=name))
    # A node's certificate has the name of the node, and not that of its host.
    node = status_is(world.rest().get("/node/"), 200)[0]["name"]
    named = [("grpc.ssl_target_name_override", f"{node}.node.strata.internal")]
    proven = grpc.ssl_channel_credentials(read("ca.crt"), *keys)
    known = grpc.secure_channel(address, proven, options=named)
    assert r_grpc.CellServiceStub(known).Allocate(ask, timeout=TIMEOUT).cell_name == name
    free = r.FreeCellRequest(cell_name=name)
    unproven = grpc.ssl_channel_credentials(read("ca.crt"))
    stranger = grpc.secure_channel(address, unproven, options=named)
    # The port ends the TLS handshake: a caller without a certificate sees no API.
    refused(
        lambda: r_grpc.CellServiceStub(stranger).Free(free, timeout=TIMEOUT),
        CODE.UNAVAILABLE,
        CODE.UNAUTHENTICATED,
    )
    r_grpc.CellServiceStub(known).Free(free, timeout=TIMEOUT)


if __name__ == "__main__":
    main()
