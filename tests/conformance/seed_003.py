"""Conformance with the document of the runtime (packages `runtime`, `observe`)."""

import json
import os
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

    def pid(self, cell, name, known=()):
        """What a client of the document alone knows it by: the daemon's log
        says `started cell=CELL executable=NAME pid=PID`. Not one of `known`."""
        words = [f"cell={cell}", f"executable={name}"]
        for item in self.daemon_log():
            if "started" in item.line and all(word in item.line for word in words):
                pid = int(item.line.split("pid=")[1].split()[0])
                if pid not in known:
                    return pid
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


def health(node, service):
    """grpc.health.v1.Health/Check, of two messages with one field each."""
    check = node.channel.unary_unary("/grpc.health.v1.Health/Check")
    name = service.encode()
    request = bytes([10, len(name)]) + name if name else b""
    return check(request, timeout=TIMEOUT)


# Their cells have names that other files of the suite do not use.
@case("The example sequences published with the API: sent as they are, each has the effect that it is for", alone=True)
def published_examples(world):
    node = Node(world)
    # cells.ts; cells_quota.ts is the same without its end.
    known = []
    for ends in [True, False]:
        assert node.allocate("sleeper-cell", cpu_shares=2).cell_name == "sleeper-cell"
        node.start("sleeper-cell", "sleep-42", "sleep 42", description="Sleep for 42 seconds")
        pid = node.pid("sleeper-cell", "sleep-42", known)
        known.append(pid)
        command = pathlib.Path(f"/proc/{pid}/cmdline")
        assert command.read_bytes() == b"sleep\0" b"42\0", pid
        assert cpu_weight(pid) == 2, cpu_weight(pid)
        if ends:
            assert node.stop("sleeper-cell", "sleep-42") == r.StopCellResponse()
            wait("the process to be gone", lambda: not command.exists())
        assert node.free("sleeper-cell") == r.FreeCellResponse()
        wait("the process to be gone", lambda: not command.exists())
    # cells_output.ts
    node.allocate("echo-cell", cpu_shares=2)
    out, err = "/usr/bin/echo 'hello world'", "/usr/bin/echo 'hello world' 1>&2"
    node.start("echo-cell", "echo-stdout", out, description="outputs a message to stdout")
    assert node.lines(o.CHANNEL_STDOUT, node.pid("echo-cell", "echo-stdout")) == ["hello world"]
    error = refused(
        lambda: node.start("echo-cell", "echo-stderr", err, description="outputs a message to stderr"),
        CODE.INVALID_ARGUMENT,
        field="command",
    )
    assert "sh -c" in error.details(), error.details()
    node.start("echo-cell", "echo-stderr", f'sh -c "{err}"')
    assert node.lines(o.CHANNEL_STDERR, node.pid("echo-cell", "echo-stderr")) == ["hello world"]
    for name in ["echo-stdout", "echo-stderr"]:
        node.stop("echo-cell", name)
    node.free("echo-cell")
    # cells_isolated_processes.ts, cells_isolated_network.ts, and both
    world.strata("cell", "allocate", "ae-net-1", "--network", "isolated")
    for cell, isolated in [("ae-proc-1", False), ("ae-net-1", True)]:
        node.allocate(cell, cpu_shares=2) if not isolated else None
        node.start(cell, "ps-aux", "ls /proc", description="List processes")
        seen = node.lines(o.CHANNEL_STDOUT, node.pid(cell, "ps-aux"))
        assert "1" in seen and len([one for one in seen if one.isdigit()]) < 10, seen
        node.start(cell, "show-hostname", "hostname", description="Show hostname")
        assert node.lines(o.CHANNEL_STDOUT, node.pid(cell, "show-hostname")) == [cell]
        bad = lambda: node.start(cell, "net-info", "ifconfig && ip a && route")
        assert "sh -c" in refused(bad, CODE.INVALID_ARGUMENT, field="command").details()
        node.start(cell, "net-info", "sh -c 'readlink /proc/self/ns/net && cat /proc/net/dev'")
        namespace, *told = node.lines(o.CHANNEL_STDOUT, node.pid(cell, "net-info"))
        # The suite runs in the network of the node.
        assert (namespace != os.readlink("/proc/self/ns/net")) == isolated, namespace
        links = {line.split(":")[0].strip() for line in told if ":" in line}
        assert links == {"lo"} if isolated else "lo" in links, links
        node.free(cell)
    # cells_memory.ts, whose 100 kB are too few for any process here
    little = world.strata("cell", "allocate", "ae-sleeper-cell", "--memory-max", "100k", check=False)
    assert little.returncode != 0 and "memory" in little.stderr, little
    world.strata("cell", "allocate", "ae-sleeper-cell", "--memory-max", "10M")
    node.start("ae-sleeper-cell", "sleep-2", "/usr/bin/sleep 2", description="Sleep for 2 seconds")
    assert node.lines(o.CHANNEL_STDOUT, node.pid("ae-sleeper-cell", "sleep-2")) == []
    assert node.stop("ae-sleeper-cell", "sleep-2") == r.StopCellResponse(), "it has ended"
    node.free("ae-sleeper-cell")
    # cell_validation_errors.ts
    for name in ["nope_nope", ""]:
        refused(lambda: node.allocate(name), CODE.INVALID_ARGUMENT, field="cell.name")
    # grpc_health.ts
    for service in ["", "runtime.CellService", "observe.Observe"]:
        assert health(node, service) == b"\x08\x01", service
    for service in ["aurae.runtime.v0.CellService", "aurae.runtime.v0.UnknownService"]:
        refused(lambda: health(node, service), CODE.NOT_FOUND)


def cpu_weight(pid):
    """The cpu shares that the kernel applies to a process."""
    for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            roots = [pathlib.Path("/sys/fs/cgroup") / controllers, pathlib.Path("/sys/fs/cgroup/cpu")]
            # The process is in a group within that of its cell.
            at = next(root for root in roots if root.exists()) / path.lstrip("/")
            return min(int((one / "cpu.shares").read_text()) for one in (at, at.parent))
        if number == "0" and not controllers:
            at = pathlib.Path("/sys/fs/cgroup") / path.lstrip("/")
            weight = min(int((one / "cpu.weight").read_text()) for one in (at, at.parent))
            # The least weight stands for the least shares.
            return 2 if weight == 1 else weight
    raise AssertionError(f"{pid} is in no group of cpu")


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


@case("Over TCP with a certificate the same; UNAUTHENTICATED without one")
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
    refused(
        lambda: r_grpc.CellServiceStub(stranger).Free(free, timeout=TIMEOUT),
        CODE.UNAUTHENTICATED,
    )
    r_grpc.CellServiceStub(known).Free(free, timeout=TIMEOUT)


def cgroups(name):
    """The cgroups with this name. Others come and go while this looks, which
    os.walk passes over and pathlib does not."""
    return [at for at, _, _ in os.walk("/sys/fs/cgroup") if os.path.basename(at) == name]


@case("CellService.Free: a tree of cells whose processes ignore SIGTERM, and nothing is left")
def free_of_a_tree(world):
    node, top = Node(world), unique("tree")
    for name in [top, f"{top}/a", f"{top}/a/b"]:
        node.allocate(name)
        node.start(name, "main", "sh -c 'trap \"\" TERM; while :; do sleep 1; done'")
    node.free(top)
    left = cgroups(top)
    assert not left, left
    for name in [top, f"{top}/a"]:
        refused(lambda: node.start(name, "main", "true"), CODE.NOT_FOUND)


@case("CellService.Stop: what was forked and left its session goes along")
@in_cell
def stop_takes_children(world, node, cell):
    node.start(cell, "main", "sh -c 'setsid sleep 4242 & exec sleep 1000'")
    node.start(cell, "other", "sleep 1000")

    def processes():
        name = unique("look")
        node.start(cell, name, "sh -c 'cat /proc/[0-9]*/cmdline | tr \"\\0\" \" \"'")
        return " ".join(node.lines(o.CHANNEL_STDOUT, node.pid(cell, name)))

    wait("the child", lambda: "sleep 4242" in processes())
    node.stop(cell, "main")
    said = processes()
    assert "sleep 4242" not in said and said.count("sleep 1000") == 1, said


@case("Executable.name: used again after its end; both logs stay readable by their pids")
@in_cell
def names_are_used_again(world, node, cell):
    pids = []
    for word in ["first", "second"]:
        node.start(cell, word, f"echo {word}")
        pids.append(node.pid(cell, word))
    node.start(cell, "same", "echo one")
    one = node.pid(cell, "same")
    assert node.lines(o.CHANNEL_STDOUT, one) == ["one"]
    node.start(cell, "same", "echo two")

    def second():
        for item in node.daemon_log():
            if "started" in item.line and f"cell={cell}" in item.line and "executable=same" in item.line:
                pid = int(item.line.split("pid=")[1].split()[0])
                if pid != one:
                    return pid

    assert node.lines(o.CHANNEL_STDOUT, second()) == ["two"]
    assert node.lines(o.CHANNEL_STDOUT, one) == ["one"]
    assert [node.lines(o.CHANNEL_STDOUT, pid) for pid in pids] == [["first"], ["second"]]


@case("GetSubProcessStreamRequest.process_id: after Free it is NOT_FOUND")
def logs_end_with_their_cell(world):
    node, cell = Node(world), unique("cell")
    node.allocate(cell)
    node.start(cell, "main", "echo here")
    pid = node.pid(cell, "main")
    assert node.lines(o.CHANNEL_STDOUT, pid) == ["here"]
    node.free(cell)
    refused(lambda: node.stream(o.CHANNEL_STDOUT, pid), CODE.NOT_FOUND)


@case("LogItem.line: megabytes without a newline come in pieces; nested cells have logs, too")
@in_cell
def long_lines(world, node, cell):
    node.allocate(f"{cell}/inner")
    node.start(f"{cell}/inner", "main", "sh -c 'head -c 5000000 /dev/zero | tr \"\\0\" x; echo; echo end'")
    lines = node.lines(o.CHANNEL_STDOUT, node.pid(f"{cell}/inner", "main"))
    assert lines[-1] == "end" and "".join(lines[:-1]) == "x" * 5_000_000, [len(line) for line in lines]


@case("Executable.description: up to 4096 bytes")
@in_cell
def descriptions(world, node, cell):
    node.start(cell, "main", "sleep 1000", description="x" * 4096)
    refuse = lambda: node.start(cell, "other", "sleep 1000", description="x" * 4097)
    refused(refuse, CODE.INVALID_ARGUMENT, field="description")


@case("Cells started and freed at once: either runs, or is refused, and nothing is left")
def free_races_start(world):
    node = Node(world)
    for _ in range(5):
        cell = unique("race")
        node.allocate(cell)
        free = threading.Thread(target=node.free, args=(cell,))
        free.start()
        try:
            node.start(cell, "main", "sleep 1000")
        except grpc.RpcError as error:
            assert error.code() in (CODE.NOT_FOUND, CODE.FAILED_PRECONDITION), error
        free.join()
        left = cgroups(cell)
        assert not left, left


if __name__ == "__main__":
    main()
