"""Conformance with the document of the scheduler (package `scheduler`)."""

import concurrent.futures
import hashlib
import json
import re
import shutil
import signal
import socket
import time

import grpc

import published
from common import CODE, TIMEOUT, Server, case, main, problem, refused, status_is, unique, wait
from seed_node import BIG, SeedNode, Statuses, leave, setup

s, s_grpc = published.stubs("scheduler")
c, c_grpc = published.stubs("controller")


def nodes_of(world, role, name=None):
    return s_grpc.NodeServiceStub(world.channel(role, name))


def service(world, **options):
    return s_grpc.InstanceServiceStub(world.channel(**options))


def instance(world, name, script=None, cpu=0, **fields):
    limit = s.ResourceSummary(cpu=cpu)
    environment = [f"SCRIPT={script}"] if script else []
    fields.setdefault("environnement", environment)
    fields.setdefault("resource", s.Resource(limit=limit))
    return s.Instance(name=name, uri=fields.pop("uri", world.image), **fields)


class Updates:
    """The stream of an instance, and all that came on it."""

    def __init__(self, world, asked, stub=None):
        self.stream = (stub or service(world)).Create(asked, timeout=2 * TIMEOUT)
        self.seen = []

    def next(self):
        status = next(self.stream)
        self.seen.append(status)
        return status

    def until(self, *states):
        while True:
            try:
                status = self.next()
            except StopIteration:
                raise AssertionError(f"the end came after {self.words()}")
            if status.status in states:
                return status

    def to_end(self):
        for status in self.stream:
            self.seen.append(status)
        return self.seen[-1]

    def words(self):
        named = [(s.Status.Name(one.status), one.statusDescription) for one in self.seen]
        return [one for n, one in enumerate(named) if n == 0 or named[n - 1] != one]

    def order(self):
        names = [name for name, _ in self.words()]
        return [one for n, one in enumerate(names) if n == 0 or names[n - 1] != one]


def identifier(id):
    return s.InstanceIdentifier(id=id)


def destroy(world, id):
    service(world).Destroy(identifier(id), timeout=TIMEOUT)
    wait(f"{id} to be gone", lambda: world.rest().get(f"/instance/{id}").status_code == 404)


def shown(world, name):
    return status_is(world.rest().get(f"/node/{name}"), 200)


@case("NodeService.Register: code 0 with a /24, again the same; refusals as codes")
def register(world):
    node = SeedNode(world, unique("register"))
    first, again = node.register(), node.register()
    assert first.subnet.endswith("/24") and first.subnet == again.subnet, (first, again)
    other = nodes_of(world, "node", unique("other"))
    for text in ["", "nonsense", node.certificate, node.certificate * 2]:
        answer = other.Register(s.NodeRegisterRequest(certificate=text), timeout=TIMEOUT)
        assert answer.code > 0 and answer.description and not answer.subnet, answer
    request = s.NodeRegisterRequest(certificate=node.certificate)
    viewer = nodes_of(world, "viewer")
    refused(lambda: viewer.Register(request, timeout=TIMEOUT), CODE.PERMISSION_DENIED)
    leave(node)


@case("NodeRegisterRequest.certificate, NodeRegisterResponse.code, description, subnet")
def register_fields(world):
    node = SeedNode(world, unique("fields"))
    answer = node.register()
    assert re.fullmatch(r"10\.42\.\d+\.0/24", answer.subnet), answer
    assert node.name in answer.description, answer
    # The admin's own certificate is no node's.
    admin = nodes_of(world, "admin")
    own = (world.credentials() / "client.crt").read_text()
    try:
        answer = admin.Register(s.NodeRegisterRequest(certificate=own), timeout=TIMEOUT)
        assert answer.code > 0 and not answer.subnet, answer
    except grpc.RpcError as error:
        assert error.code() == CODE.PERMISSION_DENIED, error
    leave(node)


@case("NodeService.Status: one's own id, checked; several streams; a clean end is no departure", alone=True)
def status_stream(world):
    node = SeedNode(world, unique("stream"))
    early = lambda: node.nodes.Status(iter([node.status()]), timeout=TIMEOUT)
    refused(early, CODE.FAILED_PRECONDITION)
    node.register()
    for id in ["", unique("other")]:
        bad = node.status()
        bad.id = id
        refused(lambda: node.nodes.Status(iter([bad]), timeout=TIMEOUT), CODE.PERMISSION_DENIED)
    bad = node.status()
    bad.status = 77
    refused(lambda: node.nodes.Status(iter([bad]), timeout=TIMEOUT), CODE.INVALID_ARGUMENT)
    bad = node.status()
    bad.resource.limit.cpu = -1
    refused(
        lambda: node.nodes.Status(iter([bad]), timeout=TIMEOUT),
        CODE.INVALID_ARGUMENT,
        field="resource.limit.cpu",
    )
    first, second = Statuses(node.nodes, node.status()), Statuses(node.nodes, node.status())
    wait("the node", lambda: shown(world, node.name)["status"] == "READY")
    first.close()
    assert shown(world, node.name)["status"] == "READY"
    second.close()
    # Silence beyond the lease is one.
    wait("the lease to end", lambda: shown(world, node.name)["status"] == "LOST")
    leave(node)


@case("NodeStatus.id, resource.limit, resource.usage: capacity and use; absent stays, 0 counts", alone=True)
def node_resources(world):
    node = SeedNode(world, unique("resources"))
    node.register()
    report = lambda status: node.nodes.Status(iter([status]), timeout=TIMEOUT)
    report(node.status())
    seen = shown(world, node.name)
    assert seen["capacity"] == {"cpu": 4000, "memory": 4000, "disk": 100}, seen
    assert seen["usage"] == {"cpu": 10, "memory": 10, "disk": 1}, seen
    report(s.NodeStatus(id=node.name))
    assert shown(world, node.name)["capacity"]["cpu"] == 4000
    report(s.NodeStatus(id=node.name, resource=s.Resource(limit=s.ResourceSummary())))
    assert shown(world, node.name)["capacity"]["cpu"] == 0
    leave(node)


@case("NodeStatus.status: every value means something", alone=True)
def node_status_values(world):
    node = SeedNode(world, unique("values"), cpu=2 * BIG).start(work=False)
    for state, expected in [
        (s.RUNNING, "READY"),
        (s.STARTING, "REGISTERED"),
        (s.RUNNING, "READY"),
        (s.SCHEDULING, "REGISTERED"),
        (s.SCHEDULED, "REGISTERED"),
        (s.STOPPING, "DRAINING"),
        (s.STOPPED, "LOST"),
        (s.RUNNING, "READY"),
        (s.FAILED, "LOST"),
        (s.RUNNING, "READY"),
    ]:
        node.statuses.report(node.status(state))
        name = s.Status.Name(state)
        wait(f"{name} to be {expected}", lambda: shown(world, node.name)["status"] == expected)
    # One that starts is given nothing; what it has is not taken from it.
    node.statuses.report(node.status(s.STARTING))
    wait("the node to start", lambda: shown(world, node.name)["status"] == "REGISTERED")
    updates = Updates(world, instance(world, unique("values"), cpu=BIG))
    why = updates.until(s.FAILED).statusDescription
    assert f"{node.name}: starting" in why, why
    id = updates.seen[0].id
    node.statuses.report(node.status())
    updates.until(s.SCHEDULED)
    node.push(id, c.RUNNING)
    updates.until(s.RUNNING)
    node.statuses.report(node.status(s.SCHEDULING))
    wait("the node to start", lambda: shown(world, node.name)["status"] == "REGISTERED")
    assert shown(world, node.name)["instances"] == 1
    # What is on one that has stopped goes elsewhere, without waiting for a lease.
    node.statuses.report(node.status(s.STOPPED, "out for repair"))
    lost = updates.until(s.SCHEDULING)
    assert "lost" in lost.statusDescription, lost
    destroy(world, id)
    # One that is destroyed leaves; one that has ended, too.
    for state in [s.DESTROYING, s.TERMINATED]:
        node.statuses.more.put(None)
        node.register()
        node.statuses = Statuses(node.nodes, node.status())
        wait("the node", lambda: shown(world, node.name)["status"] == "READY")
        node.statuses.report(node.status(state))
        wait("the node to leave", node.unregistered)


@case("NodeStatus.statusDescription: kept and shown with every status", alone=True)
def node_status_description(world):
    node = SeedNode(world, unique("words"))
    node.register()
    for state in [s.RUNNING, s.STARTING, s.STOPPING, s.FAILED]:
        said = f"words of {s.Status.Name(state)}"
        node.nodes.Status(iter([node.status(state, said)]), timeout=TIMEOUT)
        assert shown(world, node.name)["description"] == said
    node.nodes.Status(iter([node.status(s.FAILED, "x" * 5000)]), timeout=TIMEOUT)
    assert len(shown(world, node.name)["description"]) <= 512
    leave(node)


@case("NodeService.Unregister: drains, then leaves; unknown and others' are refused", alone=True)
def unregister(world):
    one, two = (SeedNode(world, unique(name), cpu=2 * BIG) for name in ("one", "two"))
    one.start()
    updates = Updates(world, instance(world, unique("moves"), cpu=BIG))
    updates.until(s.RUNNING)
    gone = lambda id: one.nodes.Unregister(s.NodeUnregisterRequest(id=id), timeout=TIMEOUT)
    refused(lambda: gone(two.name), CODE.PERMISSION_DENIED)
    assert gone(one.name).code == 0
    two.start()
    wait("the node to leave", one.unregistered)
    updates.until(s.RUNNING)
    id = updates.seen[0].id
    assert status_is(world.rest().get(f"/instance/{id}"), 200)["node"] == two.name
    assert gone(one.name).code > 0, "it is unknown now"
    refused(
        lambda: one.nodes.Status(iter([one.status()]), timeout=TIMEOUT), CODE.FAILED_PRECONDITION
    )
    one.ended.set()
    one.statuses.more.put(None)
    destroy(world, id)
    leave(two)


@case("A node from the documents alone gets, runs and ends instances", alone=True)
def node_from_the_documents(world):
    node = SeedNode(world, unique("alone"), cpu=2 * BIG).start()
    asked = instance(world, unique("job"), cpu=BIG, id=unique("id"))
    updates = Updates(world, asked)
    placed = updates.until(s.SCHEDULED)
    assert placed.statusDescription == f"on node {node.name}", placed
    running = updates.until(s.RUNNING)
    assert asked.id in node.processes, running
    # It reads itself and its own, and nothing else.
    assert [one["id"] for one in node.instances()] == [asked.id]
    assert status_is(node.rest.get("/node/self"), 200)["name"] == node.name
    assert status_is(node.rest.get(f"/instance/{asked.id}"), 200)["status"] == "RUNNING"
    other = unique("others")
    status_is(world.rest().put("/instance/", json={"name": other, "uri": world.image, "status": "STOPPED"}), 201)
    problem(node.rest.get(f"/instance/{other}"), 404)
    problem(node.rest.get("/node/other"), 403)
    problem(node.rest.get("/node/"), 403)
    problem(node.rest.put("/instance/", json={"name": "x", "uri": "x"}), 403)
    destroy(world, other)
    stub = service(world)
    stub.Stop(identifier(asked.id), timeout=TIMEOUT)
    updates.until(s.STOPPED)
    assert node.processes[asked.id].child.poll() is not None
    stub.Start(identifier(asked.id), timeout=TIMEOUT)
    updates.until(s.RUNNING)
    stub.Destroy(identifier(asked.id), timeout=TIMEOUT)
    updates.until(s.DESTROYING)
    assert updates.to_end().status == s.TERMINATED, updates.words()
    wait("nothing to run", lambda: asked.id not in node.processes)
    leave(node)


@case("A node that reports its status alone is not waited for", alone=True)
def status_only_node(world):
    node = SeedNode(world, unique("silent"), cpu=2 * BIG).start(work=False)
    updates = Updates(world, instance(world, unique("held"), cpu=BIG))
    id = updates.until(s.SCHEDULED).id
    failed = updates.until(s.FAILED)
    assert "tried again" in failed.statusDescription, failed
    why = status_is(world.rest().get(f"/instance/{id}/placement"), 200)
    why = next(one["reason"] for one in why["nodes"] if one["name"] == node.name)
    assert "reports its status only" in why, why
    assert "gets no instances" in shown(world, node.name)["description"]
    # Once it reads its instances it is given some.
    assert node.instances() == []
    updates.until(s.SCHEDULED)
    assert "gets no" not in shown(world, node.name)["description"]
    service(world).Destroy(identifier(id), timeout=TIMEOUT)
    node.push(id, c.TERMINATED)
    assert updates.to_end().status == s.TERMINATED
    leave(node)


@case("InstanceService.Create: the order of updates, the end; the same again is the same")
def create(world):
    asked = instance(world, unique("order"), "sleep 1; exit 0", id=unique("id"))
    updates = Updates(world, asked)
    last = updates.to_end()
    assert (last.status, updates.order()) == (
        s.TERMINATED,
        ["SCHEDULING", "SCHEDULED", "STARTING", "RUNNING", "TERMINATED"],
    ), updates.words()
    again = Updates(world, asked)
    assert again.to_end().status == s.TERMINATED
    assert {one.id for one in updates.seen + again.seen} == {asked.id}
    destroy(world, asked.id)
    # Twenty at once are one.
    asked = instance(world, unique("twenty"))
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        ids = set(pool.map(lambda _: Updates(world, asked).until(s.RUNNING).id, range(20)))
    assert len(ids) == 1, ids
    destroy(world, ids.pop())


@case("FAILED: retried ones say so and do not end the stream; crashes are started again")
def failures(world):
    crash = Updates(world, instance(world, unique("crash"), "sleep 0.3; exit 3"))
    first = crash.until(s.FAILED)
    assert first.statusDescription == "crashed: exit 3", first
    crash.until(s.RUNNING)
    crash.until(s.FAILED)
    order = crash.order()
    after = order[order.index("FAILED") :]
    assert after[:3] == ["FAILED", "STARTING", "RUNNING"], order
    destroy(world, crash.seen[0].id)
    assert crash.to_end().status == s.TERMINATED
    nowhere = Updates(world, instance(world, unique("nowhere"), cpu=2**30))
    why = nowhere.until(s.FAILED).statusDescription
    assert "no node fits" in why and "tried again" in why, why
    destroy(world, nowhere.seen[0].id)
    assert nowhere.to_end().status == s.TERMINATED


def layout(world, **config):
    """A copy of the suite's image with another configuration, as `oci:PATH:v1`."""
    path = world.scratch / unique("layout")
    shutil.copytree(world.image.removeprefix("oci:").rsplit(":", 1)[0], path)
    blob = lambda digest: path / "blobs" / digest.replace(":", "/")

    def store(value):
        text = json.dumps(value).encode()
        digest = "sha256:" + hashlib.sha256(text).hexdigest()
        blob(digest).write_bytes(text)
        return {"digest": digest, "size": len(text)}

    index = json.loads((path / "index.json").read_text())
    entry = index["manifests"][0]
    manifest = json.loads(blob(entry["digest"]).read_text())
    image = json.loads(blob(manifest["config"]["digest"]).read_text())
    image["config"].update(config)
    manifest["config"].update(store(image))
    entry.update(store(manifest))
    (path / "index.json").write_text(json.dumps(index))
    return f"oci:{path}:v1"


@case("FAILED that its node gave up is final, and the stream ends; it runs once repaired", nodes=("strata",))
def final_failures(world):
    for config in [
        {"Entrypoint": ["/nowhere/program"], "Cmd": []},
        {"Entrypoint": [], "Cmd": []},
    ]:
        broken = instance(world, unique("broken"), uri=layout(world, **config))
        updates = Updates(world, broken)
        last = updates.to_end()
        assert last.status == s.FAILED, updates.words()
        assert last.statusDescription.endswith("; final"), updates.words()
        failed = [why for state, why in updates.words() if state == "FAILED"]
        assert len(failed) == 1 and "again" not in failed[0], updates.words()
        # Attached to again, it has ended as before; started, it fails once more.
        assert Updates(world, broken).to_end() == last
        service(world).Start(identifier(last.id), timeout=TIMEOUT)
        assert Updates(world, broken).to_end().statusDescription.endswith("; final")
        # Stopped and repaired it starts.
        service(world).Stop(identifier(last.id), timeout=TIMEOUT)
        status_is(world.rest().patch(f"/instance/{last.id}", json={"uri": world.image}), 200)
        service(world).Start(identifier(last.id), timeout=TIMEOUT)
        repaired = Updates(world, instance(world, broken.name))
        repaired.until(s.RUNNING)
        destroy(world, last.id)
        assert repaired.to_end().status == s.TERMINATED


@case("FAILED of an instance that is not restarted is final, and names how it ended")
def crash_without_restart(world):
    updates = Updates(world, instance(world, unique("once"), "sleep 1; exit 3"))
    id = updates.until(s.RUNNING).id
    status_is(world.rest().patch(f"/instance/{id}", json={"restart": "never"}), 200)
    last = updates.to_end()
    assert (last.status, last.statusDescription) == (s.FAILED, "crashed: exit 3; final"), updates.words()
    destroy(world, id)


@case("A stream ends with UNAVAILABLE when the server ends; the same Create attaches again")
def stream_at_server_end(world):
    server = Server(world)
    asked = instance(world, unique("kept"), id=unique("id"))
    for number in [signal.SIGTERM, signal.SIGKILL]:
        updates = Updates(server.world, asked)
        updates.next()
        server.end(number)
        error = refused(lambda: [one for one in updates.stream], CODE.UNAVAILABLE)
        if number == signal.SIGTERM:
            assert "shuts down" in error.details(), error.details()
        server = Server(world, server.address, server.data_dir)
    attached = Updates(server.world, asked).next()
    assert attached.id == asked.id, attached
    server.end(signal.SIGKILL)


@case("A stream that is dropped, cancelled or out of time leaves its instance")
def dropped_streams(world):
    for how in ["cancel", "deadline", "close"]:
        asked = instance(world, unique("left"), id=unique("id"))
        channel = world.channel()
        timeout = 0.5 if how == "deadline" else TIMEOUT
        stream = s_grpc.InstanceServiceStub(channel).Create(asked, timeout=timeout)
        if how == "deadline":
            refused(lambda: [one for one in stream], CODE.DEADLINE_EXCEEDED)
        else:
            next(stream)
            stream.cancel() if how == "cancel" else channel.close()
        read = lambda: world.rest().get(f"/instance/{asked.id}").json().get("status") == "RUNNING"
        wait("it to run", read)
        destroy(world, asked.id)


@case("InstanceService.Start, Stop, Destroy: repeated, in any order, of what is not there")
def start_stop_destroy(world):
    stub = service(world)
    updates = Updates(world, instance(world, unique("life")))
    id = updates.until(s.RUNNING).id
    for _ in range(2):
        stub.Start(identifier(id), timeout=TIMEOUT)
    for _ in range(2):
        stub.Stop(identifier(id), timeout=TIMEOUT)
    updates.until(s.STOPPED)
    stub.Stop(identifier(id), timeout=TIMEOUT)
    stub.Start(identifier(id), timeout=TIMEOUT)
    updates.until(s.RUNNING)
    order = updates.order()
    assert order[order.index("STOPPING") :] == ["STOPPING", "STOPPED", "STARTING", "RUNNING"], order
    for _ in range(2):
        stub.Destroy(identifier(id), timeout=TIMEOUT)
    assert updates.to_end().status == s.TERMINATED
    stub.Destroy(identifier(id), timeout=TIMEOUT)
    for call in [stub.Start, stub.Stop, stub.Destroy]:
        refused(lambda: call(identifier(unique("none")), timeout=TIMEOUT), CODE.NOT_FOUND)
        refused(lambda: call(identifier(""), timeout=TIMEOUT), CODE.INVALID_ARGUMENT, field="id")
    for role in ["viewer", "node"]:
        denied = service(world, role=role)
        refused(lambda: denied.Stop(identifier(id), timeout=TIMEOUT), CODE.PERMISSION_DENIED)


@case("InstanceIdentifier.id: the id, or the name")
def identifiers(world):
    name = unique("named")
    updates = Updates(world, instance(world, name, id=unique("id")))
    updates.until(s.RUNNING)
    service(world).Stop(identifier(name), timeout=TIMEOUT)
    updates.until(s.STOPPED)
    service(world).Destroy(identifier(updates.seen[0].id), timeout=TIMEOUT)
    assert updates.to_end().status == s.TERMINATED


@case("Instance.id, name: an own id is answered by itself or refused; conflicts say which")
def ids_and_names(world):
    name, id = unique("mine"), unique("id")
    updates = Updates(world, instance(world, name, id=id))
    assert updates.next().id == id
    stub = service(world)
    create = lambda **fields: stub.Create(instance(world, **fields), timeout=TIMEOUT)
    other = unique("id")
    error = refused(lambda: create(name=name, id=other), CODE.ALREADY_EXISTS)
    assert id in error.details() and other in error.details(), error.details()
    error = refused(lambda: create(name=unique("other"), id=id), CODE.ALREADY_EXISTS)
    assert f"the id of instance {name}" in error.details(), error.details()
    error = refused(lambda: create(name=name, cpu=10), CODE.ALREADY_EXISTS)
    assert "specification" in error.details(), error.details()
    for bad in ["no/pe", "x" * 129]:
        refused(lambda: create(name=unique("bad"), id=bad), CODE.INVALID_ARGUMENT, field="id")
    for bad in ["NOT A NAME", "-x", "x" * 64]:
        refused(lambda: create(name=bad), CODE.INVALID_ARGUMENT, field="name")
    assert next(create(name=name)).id == id
    made = create(name="")
    assert re.fullmatch(r"[0-9a-f-]{36}", next(made).id)
    destroy(world, id)


@case("Instance.type: CONTAINER; unknown ones are refused")
def types(world):
    stub = service(world)
    asked = instance(world, unique("type"), type=7)
    refused(lambda: stub.Create(asked, timeout=TIMEOUT), CODE.INVALID_ARGUMENT, field="type")
    updates = Updates(world, instance(world, unique("type"), type=s.CONTAINER))
    shown = status_is(world.rest().get(f"/instance/{updates.next().id}"), 200)
    assert shown["type"] == "CONTAINER"
    destroy(world, shown["id"])


@case("Instance.status: honoured, or refused")
def created_status(world):
    stub = service(world)
    for bad in [99, s.STOPPING, s.DESTROYING, s.TERMINATED, s.FAILED]:
        asked = instance(world, unique("status"), status=bad)
        refused(lambda: stub.Create(asked, timeout=TIMEOUT), CODE.INVALID_ARGUMENT, field="status")
    asked = instance(world, unique("status"), status=s.STOPPED)
    updates = Updates(world, asked)
    assert updates.next().status == s.STOPPED
    asked.status = s.STARTING
    again = Updates(world, asked)
    assert again.until(s.RUNNING).id == updates.seen[0].id
    updates.until(s.RUNNING)
    destroy(world, updates.seen[0].id)


@case("Instance.uri: a malformed one is refused at once, and nothing is written")
def uris(world):
    stub = service(world)
    for bad in ["", "::::", "https://x", "UPPER/Case", "$(id)", "x@sha256:zz", "a b", "oci:x"]:
        name = unique("uri")
        asked = instance(world, name, uri=bad)
        refused(lambda: stub.Create(asked, timeout=TIMEOUT), CODE.INVALID_ARGUMENT, field="uri")
        problem(world.rest().get(f"/instance/{name}"), 404)


@case("Instance.uri: an image that is not there fails with the reason, and is tried again", nodes=("strata",))
def missing_image(world):
    updates = Updates(world, instance(world, unique("missing"), uri="oci:/nowhere/at/all:v1"))
    why = updates.until(s.FAILED).statusDescription
    assert "/nowhere/at/all" in why and "again" in why, why
    destroy(world, updates.seen[0].id)


@case("Instance.environnement: reaches the process; at most 100; malformed ones are refused")
def environment(world):
    script = 'test "$A" = "1 = 2" && exit 0; exit 7'
    fields = {"environnement": [f"SCRIPT={script}", "A=1 = 2"]}
    updates = Updates(world, instance(world, unique("env"), **fields))
    assert updates.to_end().status == s.TERMINATED, updates.words()
    destroy(world, updates.seen[0].id)
    stub = service(world)
    many = [f"K{n}=v" for n in range(101)]
    for bad in [["x"], ["A=\0"], ["=1"], many]:
        asked = instance(world, unique("env"), environnement=bad)
        call = lambda: stub.Create(asked, timeout=TIMEOUT)
        refused(call, CODE.INVALID_ARGUMENT, field="environnement")


@case("Instance.resource.limit: refused below 0; too much fits nowhere and says how much is short")
def limits(world):
    stub = service(world)
    for field in ["cpu", "memory", "disk"]:
        limit = s.ResourceSummary(**{field: -1})
        asked = instance(world, unique("limit"), resource=s.Resource(limit=limit))
        call = lambda: stub.Create(asked, timeout=TIMEOUT)
        refused(call, CODE.INVALID_ARGUMENT, field=f"resource.limit.{field}")
    limit = s.ResourceSummary(memory=2**31 - 1)
    updates = Updates(world, instance(world, unique("huge"), resource=s.Resource(limit=limit)))
    assert "memory" in updates.until(s.FAILED).statusDescription
    destroy(world, updates.seen[0].id)


@case("Instance.resource.limit.memory: out of memory is reported every time", nodes=("strata",))
def out_of_memory(world):
    script = "exec tail /dev/zero"
    limit = s.ResourceSummary(memory=16)
    asked = instance(world, unique("memory"), script, resource=s.Resource(limit=limit))
    updates = Updates(world, asked)
    for _ in range(3):
        why = updates.until(s.FAILED).statusDescription
        assert "out of memory" in why, updates.words()
        updates.until(s.STARTING, s.RUNNING)
    destroy(world, updates.seen[0].id)


@case("Instance.resource.usage: of no meaning in a request")
def usage_in_a_request(world):
    usage = s.ResourceSummary(cpu=123, memory=456, disk=7)
    asked = instance(world, unique("usage"), resource=s.Resource(usage=usage))
    updates = Updates(world, asked)
    first = updates.next()
    assert not first.resource.HasField("usage"), first
    destroy(world, first.id)


@case("Instance.ports, Port.source, Port.destination: checked; at most 100; none twice")
def ports(world):
    stub = service(world)
    port = lambda source, destination: s.Port(source=source, destination=destination)
    for bad in [
        [port(0, 80)],
        [port(-1, 80)],
        [port(8080, 65536)],
        [port(8080, 80), port(8080, 81)],
        [port(10000 + n, 80) for n in range(101)],
    ]:
        asked = instance(world, unique("ports"), ports=bad)
        call = lambda: stub.Create(asked, timeout=TIMEOUT)
        refused(call, CODE.INVALID_ARGUMENT, field="ports")
    asked = instance(world, unique("ports"), ports=[port(18080, 80)])
    updates = Updates(world, asked)
    updates.until(s.RUNNING)
    shown = status_is(world.rest().get(f"/instance/{updates.seen[0].id}"), 200)
    assert shown["ports"] == ["18080:80"], shown
    # Taken by another on the only node: it waits.
    other = Updates(world, instance(world, unique("ports"), ports=[port(18080, 80)]))
    assert "18080" in other.until(s.FAILED).statusDescription
    destroy(world, updates.seen[0].id)
    other.until(s.RUNNING)
    destroy(world, other.seen[0].id)


@case("Instance.ip: given by the node, of its subnet; refused in a request")
def addresses(world):
    asked = instance(world, unique("ip"), ip="10.42.0.9")
    refused(lambda: service(world).Create(asked, timeout=TIMEOUT), CODE.INVALID_ARGUMENT, field="ip")
    updates = Updates(world, instance(world, unique("ip")))
    id = updates.until(s.RUNNING).id
    read = lambda: status_is(world.rest().get(f"/instance/{id}"), 200)
    one = wait("an address", lambda: read() if read().get("ip") else None)
    subnet = shown(world, one["node"])["subnet"]
    assert one["ip"].rsplit(".", 1)[0] == subnet.rsplit(".", 1)[0], (one["ip"], subnet)
    destroy(world, id)


@case("InstanceStatus.id, status, statusDescription, resource.limit, resource.usage, units")
def instance_status_fields(world):
    limit = s.ResourceSummary(cpu=150, memory=64, disk=1)
    asked = instance(world, unique("fields"), resource=s.Resource(limit=limit), id=unique("id"))
    updates = Updates(world, asked)
    updates.until(s.RUNNING)
    while not updates.seen[-1].resource.usage.memory:
        updates.next()
    for one in updates.seen:
        assert one.id == asked.id and one.resource.limit == limit, one
        assert one.status == s.RUNNING or not one.resource.HasField("usage"), one
    assert 0 < updates.seen[-1].resource.usage.memory <= 64, updates.seen[-1]
    rest = status_is(world.rest().get(f"/instance/{asked.id}"), 200)
    assert rest["resources"]["max"] == {"cpu": 150, "memory": 64, "disk": 1}, rest
    destroy(world, asked.id)


@case("Status: every value is seen on a stream")
def every_status(world):
    # Long enough for the stop to come before the second end on a loaded host.
    updates = Updates(world, instance(world, unique("every"), "sleep 5; exit 3"))
    updates.until(s.FAILED)
    updates.until(s.RUNNING)
    service(world).Stop(identifier(updates.seen[0].id), timeout=TIMEOUT)
    updates.until(s.STOPPED)
    service(world).Start(identifier(updates.seen[0].id), timeout=TIMEOUT)
    updates.until(s.RUNNING, s.FAILED)
    service(world).Destroy(identifier(updates.seen[0].id), timeout=TIMEOUT)
    updates.to_end()
    long = Updates(world, instance(world, unique("every")))
    long.until(s.RUNNING)
    service(world).Stop(identifier(long.seen[0].id), timeout=TIMEOUT)
    long.until(s.STOPPED)
    destroy(world, long.seen[0].id)
    long.to_end()
    seen = set(updates.order()) | set(long.order())
    assert seen == set(s.Status.keys()), set(s.Status.keys()) - seen


@case("A slow reader gets every change in order, none left out", alone=True)
def slow_reader(world):
    node = SeedNode(world, unique("pushes"), cpu=2 * BIG).start(work=False)
    options = [("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0)]
    stub = service(world, options=options)
    updates = Updates(world, instance(world, unique("slow"), cpu=BIG), stub)
    id = updates.until(s.SCHEDULED).id
    count = 600
    for n in range(count):
        node.push(id, c.RUNNING, f"change {n:04} {'x' * 400}")
    service(world).Destroy(identifier(id), timeout=TIMEOUT)
    node.push(id, c.TERMINATED)
    assert updates.to_end().status == s.TERMINATED
    said = " ".join(one.statusDescription for one in updates.seen)
    got = [int(n) for n in re.findall(r"change (\d{4})", said)]
    once = [n for at, n in enumerate(got) if at == 0 or got[at - 1] != n]
    assert once == list(range(count)), (len(once), once[:20])
    assert "left out" not in said
    leave(node)


def logs(world, id):
    return world.rest().get(f"/instance/{id}/logs").text


@case("InstanceService.Stop: SIGTERM, then SIGKILL after the grace period of 10 s")
def stop_grace(world):
    for script, least, most in [("trap '' TERM; while :; do sleep 1; done", 9, 30), (None, 0, 9)]:
        updates = Updates(world, instance(world, unique("grace"), script))
        id = updates.until(s.RUNNING).id
        began = time.monotonic()
        service(world).Stop(identifier(id), timeout=TIMEOUT)
        updates.until(s.STOPPED)
        assert least <= time.monotonic() - began <= most, time.monotonic() - began
        destroy(world, id)


@case("InstanceService.Start after Stop: files and the address are kept", nodes=("strata",))
def files_survive_a_stop(world):
    script = "echo run >> /root/runs; cat /root/runs | wc -l; sleep 1000"
    updates = Updates(world, instance(world, unique("files"), script))
    id = updates.until(s.RUNNING).id
    read = lambda: status_is(world.rest().get(f"/instance/{id}"), 200)
    ip = wait("an address", lambda: read().get("ip"))
    wait("the first run", lambda: logs(world, id).split() == ["1"])
    service(world).Stop(identifier(id), timeout=TIMEOUT)
    updates.until(s.STOPPED)
    service(world).Start(identifier(id), timeout=TIMEOUT)
    updates.until(s.RUNNING)
    wait("the second run", lambda: logs(world, id).split()[-1:] == ["2"])
    assert wait("an address", lambda: read().get("ip")) == ip
    destroy(world, id)


@case("Port.source is reached from the host, and leads to Port.destination", nodes=("strata",))
def published_ports(world):
    script = "while :; do echo hello | nc -l -p 81; done"
    port = s.Port(source=18081, destination=81)
    updates = Updates(world, instance(world, unique("reached"), script, ports=[port]))
    id = updates.until(s.RUNNING).id
    host = world.address.rsplit(":", 1)[0]

    def said():
        try:
            with socket.create_connection((host, 18081), timeout=5) as one:
                return one.recv(100) == b"hello\n"
        except OSError:
            return False

    wait("an answer", said)
    destroy(world, id)


@case("Instance.resource.limit: memory and cpu are what the process is held to", nodes=("strata",))
def limits_are_enforced(world):
    limit = s.ResourceSummary(cpu=200, memory=64)
    script = (
        "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max; "
        "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max; sleep 1000"
    )
    asked = instance(world, unique("held"), f"({script}) 2>/dev/null", resource=s.Resource(limit=limit))
    updates = Updates(world, asked)
    id = updates.until(s.RUNNING).id
    said = wait("the limits", lambda: logs(world, id).split() if len(logs(world, id).split()) > 1 else None)
    # In whole pages.
    assert 64_000_000 - 4096 < int(said[0]) <= 64_000_000, said
    assert said[1] == "20000", said
    destroy(world, id)


@case("Status, InstanceStatus: a second stream is at the present state at once")
def second_stream(world):
    asked = instance(world, unique("second"), id=unique("id"))
    first = Updates(world, asked)
    first.until(s.RUNNING)
    second = Updates(world, asked)
    assert second.next().status == s.RUNNING
    destroy(world, asked.id)
    for one in [first, second]:
        assert one.to_end().status == s.TERMINATED


if __name__ == "__main__":
    main(setup)
