"""Drives every rpc of the scheduler's and the controller's published APIs.

Knows nothing but the two documents (seed_scheduler.proto, seed_controller.proto)
and what any gRPC client has: grpcio. Plays a node that speaks only the
published NodeService, and whoever asks for instances.

    drive.py HOST:PORT ADMIN NODE OTHER IMAGE

ADMIN, NODE and OTHER are folders with ca.crt, client.crt and client.key.
NODE's certificate is named seed-py, OTHER's seed-other. There must be no other
node. Prints one line for each rpc that was driven; fails by an exception.
"""

import importlib
import pathlib
import queue
import sys
import tempfile
import threading

import grpc
from grpc_tools import protoc

PATIENCE = 60


def compiled():
    """The modules of both documents, compiled into a folder of their own."""
    here = pathlib.Path(__file__).parent
    out = tempfile.mkdtemp()
    import grpc_tools

    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    names = ["seed_scheduler", "seed_controller"]
    words = ["protoc", f"-I{here}", f"-I{well_known}"]
    words += [f"--python_out={out}", f"--grpc_python_out={out}"]
    if protoc.main(words + [f"{name}.proto" for name in names]) != 0:
        raise SystemExit("the documents do not compile")
    sys.path.insert(0, out)
    modules = []
    for name in names:
        modules.append(importlib.import_module(f"{name}_pb2"))
        modules.append(importlib.import_module(f"{name}_pb2_grpc"))
    return modules


def channel(address, folder):
    read = lambda name: (pathlib.Path(folder) / name).read_bytes()
    credentials = grpc.ssl_channel_credentials(
        read("ca.crt"), read("client.key"), read("client.crt")
    )
    return grpc.secure_channel(address, credentials)


def refused(call, *codes):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() in codes, error
        assert error.details(), error
        return
    raise AssertionError(f"this was to be refused with {codes}")


def check(condition, *what):
    if not condition:
        raise AssertionError(what)


class Statuses:
    """What a node tells: one status a second, until it is closed."""

    def __init__(self, stub, first):
        self.latest = first
        self.more = queue.Queue()
        self.more.put(first)
        self.answer = stub.Status.future(self.tell())

    def tell(self):
        while True:
            try:
                status = self.more.get(timeout=1)
            except queue.Empty:
                status = self.latest
            if status is None:
                return
            self.latest = status
            yield status

    def close(self):
        self.more.put(None)
        return self.answer.result(timeout=PATIENCE)


class Updates:
    """What is told of an instance."""

    def __init__(self, stream):
        self.stream = stream
        self.seen = []

    def until(self, *states):
        for update in self.stream:
            self.seen.append((update.status, update.statusDescription))
            if update.status in states:
                return update
        raise AssertionError(f"the end came after {self.seen}")

    def to_end(self):
        for update in self.stream:
            self.seen.append((update.status, update.statusDescription))
        return self.seen[-1]


def main(address, admin, node_folder, other_folder, image):
    s, s_grpc, c, c_grpc = compiled()
    as_admin, as_node = channel(address, admin), channel(address, node_folder)
    as_other = channel(address, other_folder)
    nodes = s_grpc.NodeServiceStub(as_node)
    instances = s_grpc.InstanceServiceStub(as_admin)
    pushes = c_grpc.SchedulerServiceStub(as_node)
    certificate = (pathlib.Path(node_folder) / "client.crt").read_text()

    # NodeService.Register
    register = lambda stub, text: stub.Register(
        s.NodeRegisterRequest(certificate=text), timeout=PATIENCE
    )
    first = register(nodes, certificate)
    check(first.code == 0 and first.subnet.endswith("/24"), first)
    check(register(nodes, certificate).subnet == first.subnet)
    other_nodes = s_grpc.NodeServiceStub(as_other)
    for text in ["", "nonsense", certificate]:
        answer = register(other_nodes, text)
        check(answer.code > 0 and answer.description and not answer.subnet, answer)
    print("NodeService.Register")

    # NodeService.Status
    def status(name="seed-py", state=s.RUNNING, cpu=4000):
        limit = s.ResourceSummary(cpu=cpu, memory=4000, disk=100)
        usage = s.ResourceSummary(cpu=10, memory=10, disk=1)
        resource = s.Resource(limit=limit, usage=usage)
        return s.NodeStatus(id=name, status=state, resource=resource)

    for bad in [status(name="seed-other"), status(name="")]:
        refused(
            lambda: nodes.Status(iter([bad]), timeout=PATIENCE),
            grpc.StatusCode.PERMISSION_DENIED,
        )
    for bad in [status(state=77), status(cpu=-1)]:
        refused(
            lambda: nodes.Status(iter([bad]), timeout=PATIENCE),
            grpc.StatusCode.INVALID_ARGUMENT,
        )
    nodes.Status(iter([status()]), timeout=PATIENCE)
    statuses = Statuses(nodes, status())
    print("NodeService.Status")

    # InstanceService.Create
    limit = s.ResourceSummary(cpu=500, memory=64, disk=1)
    wanted = s.Instance(
        id="py-1",
        name="py",
        type=s.CONTAINER,
        uri=image,
        environnement=["A=1", "B=2 = 3"],
        resource=s.Resource(limit=limit),
        ports=[s.Port(source=8080, destination=80)],
    )
    updates = Updates(instances.Create(wanted, timeout=PATIENCE))
    placed = updates.until(s.SCHEDULED)
    check(updates.seen[0][0] == s.SCHEDULING, updates.seen)
    check(placed.statusDescription == "on node seed-py", placed)
    check(placed.resource.limit == limit, placed)

    def changed(**changes):
        other = s.Instance()
        other.CopyFrom(wanted)
        for name, value in changes.items():
            if isinstance(value, list):
                del getattr(other, name)[:]
                getattr(other, name).extend(value)
            else:
                setattr(other, name, value)
        return other

    invalid = grpc.StatusCode.INVALID_ARGUMENT
    for bad, code in [
        (changed(id="py-2", name="NOT A NAME"), invalid),
        (changed(id="no/pe", name="py2"), invalid),
        (changed(id="py-2", name="py2", uri=""), invalid),
        (changed(id="py-2", name="py2", environnement=["x"]), invalid),
        (changed(id="py-2", name="py2", ports=[s.Port(source=99999)]), invalid),
        (changed(id="py-2", name="py2", type=9), invalid),
        (changed(id="py-2", name="py2", ip="10.0.0.1"), invalid),
        (changed(uri=image + "x"), grpc.StatusCode.ALREADY_EXISTS),
    ]:
        refused(lambda: next(instances.Create(bad, timeout=PATIENCE)), code)
    again = Updates(instances.Create(wanted, timeout=PATIENCE))
    check(again.until(s.SCHEDULED).id == "py-1")
    again.stream.cancel()
    print("InstanceService.Create")

    # SchedulerService.setInstanceStatus
    push = lambda state, id="py-1", text="": pushes.setInstanceStatus(
        c.InstanceStatus(id=id, status=state, description=text), timeout=PATIENCE
    )
    push(c.STARTING)
    updates.until(s.STARTING)
    push(c.RUNNING)
    running = updates.until(s.RUNNING)
    check(running.resource.limit == limit, running)
    push(c.CRASHED, text="exit 3")
    crashed = updates.until(s.FAILED)
    check(crashed.statusDescription == "crashed: exit 3", crashed)
    push(c.RUNNING)
    updates.until(s.RUNNING)
    missing = grpc.StatusCode.NOT_FOUND
    refused(lambda: push(c.RUNNING, id="nobody"), missing)
    refused(lambda: push(c.RUNNING, id=""), invalid)
    refused(lambda: push(77), invalid)
    of_other = c_grpc.SchedulerServiceStub(as_other)
    refused(
        lambda: of_other.setInstanceStatus(
            c.InstanceStatus(id="py-1", status=c.FAILED), timeout=PATIENCE
        ),
        missing,
        grpc.StatusCode.PERMISSION_DENIED,
    )
    print("SchedulerService.setInstanceStatus")

    # SchedulerService.setNodeStatus
    tell = lambda stub, **fields: stub.setNodeStatus(
        c.NodeStatus(**fields), timeout=PATIENCE
    )
    summary = c.ResourceSummary(cpu=4000, memory=4000, disk=100)
    listed = c.Instance(id="py-1", status=c.RUNNING, ip="10.42.0.9")
    tell(pushes, id="seed-py", status=c.RUNNING)
    tell(
        pushes,
        id="seed-py",
        status=c.RUNNING,
        resource=c.Resource(max=summary),
        instances=[listed],
    )
    denied = grpc.StatusCode.PERMISSION_DENIED
    refused(lambda: tell(of_other, id="seed-py", status=c.FAILED), denied)
    refused(lambda: tell(pushes, id="seed-py", status=77), invalid)
    refused(
        lambda: tell(pushes, id="seed-py", instances=[c.Instance(id="nobody")]), missing
    )
    print("SchedulerService.setNodeStatus")

    # InstanceService.Stop and Start
    identifier = lambda id: s.InstanceIdentifier(id=id)
    instances.Stop(identifier("py-1"), timeout=PATIENCE)
    updates.until(s.STOPPING)
    push(c.STOPPED)
    updates.until(s.STOPPED)
    instances.Stop(identifier("py-1"), timeout=PATIENCE)
    for call in [instances.Stop, instances.Start, instances.Destroy]:
        refused(lambda: call(identifier("nobody"), timeout=PATIENCE), missing)
        refused(lambda: call(identifier(""), timeout=PATIENCE), invalid)
        at_node = s_grpc.InstanceServiceStub(as_node)
        name = call._method.decode().rsplit("/", 1)[1]
        refused(
            lambda: getattr(at_node, name)(identifier("py-1"), timeout=PATIENCE), denied
        )
    print("InstanceService.Stop")
    instances.Start(identifier("py-1"), timeout=PATIENCE)
    updates.until(s.STARTING)
    push(c.RUNNING)
    updates.until(s.RUNNING)
    print("InstanceService.Start")

    # InstanceService.Destroy
    instances.Destroy(identifier("py-1"), timeout=PATIENCE)
    instances.Destroy(identifier("py-1"), timeout=PATIENCE)
    updates.until(s.DESTROYING)
    push(c.TERMINATED)
    check(updates.to_end()[0] == s.TERMINATED, updates.seen)
    # It is destroyed already.
    instances.Destroy(identifier("py-1"), timeout=PATIENCE)
    print("InstanceService.Destroy")

    # NodeService.Unregister
    leave = lambda stub, id: stub.Unregister(
        s.NodeUnregisterRequest(id=id), timeout=PATIENCE
    )
    refused(lambda: leave(other_nodes, "seed-py"), denied)
    statuses.close()
    check(leave(nodes, "seed-py").code == 0)
    gone = threading.Event()
    for _ in range(PATIENCE * 10):
        if leave(nodes, "seed-py").code > 0:
            gone.set()
            break
        gone.wait(0.1)
    check(gone.is_set(), "the node does not leave")
    print("NodeService.Unregister")


main(*sys.argv[1:])
