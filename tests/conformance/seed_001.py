"""Conformance with the document of the controller: the external REST API, and
package `controller`."""

import concurrent.futures
import json
import signal

import grpc

import published
from common import CODE, TIMEOUT, Server, case, main, problem, refused, status_is, unique, wait
from seed_node import BIG, SeedNode, leave, setup

c, c_grpc = published.stubs("controller")
# The fields of the document's structures.
INSTANCE = {"id", "name", "type", "status", "uri", "environment", "resources", "ports"}
WORKLOAD = INSTANCE - {"status"}
STATUS = "RUNNING STARTING STOPPED STOPPING DESTROYING TERMINATED CRASHED FAILED SCHEDULING SCHEDULED"


def put(world, name=None, script=None, code=201, **fields):
    """Creates an instance as the document's structure says it."""
    body = {"name": name or unique("i"), "uri": world.image, **fields}
    if script:
        body["environment"] = [f"SCRIPT={script}"]
    return status_is(world.rest().put("/instance/", json=body), code)


def get(world, id):
    return status_is(world.rest().get(f"/instance/{id}"), 200)


def becomes(world, id, *states):
    def look():
        one = get(world, id)
        return one if one["status"] in states else None

    return wait(f"{id} to be {states}", look)


def delete(world, id):
    status_is(world.rest().delete(f"/instance/{id}"), 202)
    wait("it to be gone", lambda: world.rest().get(f"/instance/{id}").status_code == 404)


# Alone: an offset counts what other cases make and delete meanwhile.
@case("GET /instance/: limit, offset, type, state; stable order; X-Total-Count", alone=True)
def list_instances(world):
    rest = world.rest()
    made = sorted(put(world, status="STOPPED")["id"] for _ in range(5))
    stopped = rest.get("/instance/?state=STOPPED&type=CONTAINER&limit=1000")
    listed = [one["id"] for one in status_is(stopped, 200)]
    assert set(made) <= set(listed) and listed == sorted(listed), listed
    assert int(stopped.headers["X-Total-Count"]) >= 5
    walked, offset = [], 0
    while True:
        page = status_is(rest.get(f"/instance?limit=2&offset={offset}&state=STOPPED"), 200)
        walked += [one["id"] for one in page]
        offset += 2
        if not page:
            break
    assert set(made) <= set(walked)
    for query in ["limit=0", "limit=1001", "limit=x", "offset=-1", "type=BOX", "state=GONE", "no=1", "limit=1&limit=2"]:
        assert rest.get(f"/instance/?{query}").status_code in (400, 422), query
    for id in made:
        delete(world, id)


@case("GET /instance/{id}: with and without the slash, by name, ETag")
def show_instance(world):
    rest, made = world.rest(), put(world, status="STOPPED")
    for path in [made["id"], made["id"] + "/", made["name"]]:
        assert status_is(rest.get(f"/instance/{path}"), 200)["id"] == made["id"]
    etag = rest.get(f"/instance/{made['id']}").headers["ETag"]
    again = rest.get(f"/instance/{made['id']}", headers={"If-None-Match": etag})
    assert again.status_code == 304
    problem(rest.get(f"/instance/{unique('none')}"), 404)
    delete(world, made["id"])


@case("Instance JSON: the fields of the structure, their forms and values")
def instance_json(world):
    made = put(world, environment=["A=1"], resources={"cpu": 100, "memory": 32, "disk": 1}, ports=["18090:80", "53:53/udp"])
    assert INSTANCE <= set(made), INSTANCE - set(made)
    assert made["resources"]["max"] == {"cpu": 100, "memory": 32, "disk": 1}, made
    assert set(made["resources"]["usage"]) == {"cpu", "memory", "disk"}
    assert made["type"] == "CONTAINER" and made["status"] in STATUS.split()
    assert made["ports"] == ["18090:80", "53:53/udp"] and made["environment"] == ["A=1"]
    viewer = status_is(world.rest("viewer").get(f"/instance/{made['id']}"), 200)
    assert viewer["environment"] == ["A=***"]
    delete(world, made["id"])
    # Either form of the amounts is taken.
    claim = {"max": {"cpu": 100}, "usage": {"cpu": 5}}
    other = put(world, resources=claim, status="STOPPED")
    assert other["resources"]["max"]["cpu"] == 100 and other["resources"]["usage"]["cpu"] == 0
    delete(world, other["id"])


@case("PUT /instance/: 201 with Location, 200 again, 409 for another; empty fields are none")
def create_instance(world):
    rest, name = world.rest(), unique("put")
    body = {"id": "", "name": name, "type": "CONTAINER", "status": "SCHEDULING", "uri": world.image}
    answer = rest.put("/instance/", json=body)
    made = status_is(answer, 201)
    assert answer.headers["Location"].endswith(made["id"])
    assert status_is(rest.put("/instance", json=body), 200)["id"] == made["id"]
    problem(rest.put("/instance/", json={**body, "environment": ["A=1"]}), 409)
    taken = problem(rest.put("/instance/", json={**body, "id": unique("own")}), 409, "id")
    assert made["id"] in taken["detail"], taken
    taken = problem(rest.put("/instance/", json={**body, "id": made["id"], "name": unique("x")}), 409, "id")
    assert f"the id of instance {name}" in taken["detail"], taken
    for status in ["GONE", "FAILED", "DESTROYING"]:
        problem(rest.put("/instance/", json={**body, "name": unique("x"), "status": status}), 422, "status")
    # Ten at once are one.
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        body = {"name": unique("ten"), "uri": world.image, "status": "STOPPED"}
        codes = list(pool.map(lambda _: world.rest().put("/instance/", json=body).status_code, range(10)))
    assert sorted(codes) == [200] * 9 + [201], codes
    # The same with a status starts what rests.
    again = status_is(rest.put("/instance/", json={**body, "status": "RUNNING"}), 200)
    becomes(world, again["id"], "RUNNING")
    delete(world, again["id"])
    delete(world, made["id"])
    for body, code in [(b"{", 400), (b"[]", 422), (b"{}", 422)]:
        answer = rest.put("/instance/", data=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, code), (body, answer.text)


@case("uri: a malformed one is refused by PUT and PATCH of instances and workloads, and changes nothing")
def malformed_uris(world):
    rest = world.rest()
    one = put(world, status="STOPPED")
    template = status_is(rest.put("/workload/", json={"name": unique("w"), "uri": world.image}), 201)
    for bad in ["::::", "https://x", "UPPER/Case", "$(id)", "x@sha256:zz"]:
        for noun in ["instance", "workload"]:
            name = unique("uri")
            problem(rest.put(f"/{noun}/", json={"name": name, "uri": bad}), 422, "uri")
            problem(rest.get(f"/{noun}/{name}"), 404)
        problem(rest.patch(f"/instance/{one['id']}", json={"uri": bad}), 422, "uri")
        problem(rest.patch(f"/workload/{template['id']}", json={"uri": bad}), 422, "uri")
    assert get(world, one["id"])["uri"] == world.image
    delete(world, one["id"])
    status_is(rest.delete(f"/workload/{template['id']}"), 202)


@case("PATCH /instance/{id}: fields, status, If-Match; what GET gave may be sent back")
def patch_instance(world):
    rest, made = world.rest(), put(world, init=False)
    path = f"/instance/{made['id']}"
    becomes(world, made["id"], "RUNNING")
    # All of it, and the structure of the document, changed and unchanged.
    for fields in [set(made), INSTANCE]:
        whole = {key: value for key, value in get(world, made["id"]).items() if key in fields}
        assert status_is(rest.patch(path, json=whole), 200)["generation"] == get(world, made["id"])["generation"]
        before = get(world, made["id"])["generation"]
        whole["environment"] = [f"N={len(fields)}"]
        changed = status_is(rest.patch(path, json=whole), 200)
        assert changed["environment"] == whole["environment"] and changed["generation"] == before + 1
        assert changed["init"] is False, changed
        becomes(world, made["id"], "RUNNING")
    problem(rest.patch(path, json={"id": unique("other")}), 422, "id")
    problem(rest.patch(path, json={"node": "elsewhere"}), 422, "node")
    problem(rest.patch(path, json={"status": "FAILED"}), 422, "status")
    problem(rest.patch(path, json={"colour": 1}), 422, "colour")
    stale = {"If-Match": '"1"'}
    assert rest.patch(path, json={"labels": {"a": "b"}}, headers=stale).status_code == 412
    status_is(rest.patch(path, json={"status": "STOPPED"}), 200)
    becomes(world, made["id"], "STOPPED")
    status_is(rest.patch(path, json={"status": "RUNNING"}), 200)
    becomes(world, made["id"], "RUNNING")
    kind = {"Content-Type": "application/merge-patch+json"}
    merged = rest.patch(path, data=json.dumps({"environment": None}), headers=kind)
    assert status_is(merged, 200)["environment"] == []
    delete(world, made["id"])


@case("PATCH name: the name is another everywhere", nodes=("strata",))
def rename(world):
    rest, made = world.rest(), put(world)
    becomes(world, made["id"], "RUNNING")
    name = unique("renamed")
    changed = status_is(rest.patch(f"/instance/{made['id']}", json={"name": name}), 200)
    assert changed["name"] == name and "name changed" in changed["description"], changed

    def hostname():
        body = {"command": ["hostname"]}
        answer = rest.post(f"/instance/{made['id']}/exec", json=body)
        return answer.ok and answer.json()["stdout"].strip() == name

    wait("the host name", hostname)
    peer = put(world)
    becomes(world, peer["id"], "RUNNING")
    look = {"command": ["nslookup", f"{name}.default"]}
    found = lambda: rest.post(f"/instance/{peer['id']}/exec", json=look)
    wait("the name", lambda: found().ok and found().json()["exitCode"] == 0)
    problem(rest.get(f"/instance/{made['name']}"), 404)
    # The old name is gone from DNS too.
    old = {"command": ["nslookup", f"{made['name']}.default.strata.internal"]}
    told = {}

    def unknown():
        told.update(rest.post(f"/instance/{peer['id']}/exec", json=old).json())
        return "NXDOMAIN" in str(told)

    try:
        wait("the old name to be NXDOMAIN", unknown)
    except AssertionError as error:
        raise AssertionError(f"{error}: {told}") from error
    assert found().json()["exitCode"] == 0, "the new one stays"
    delete(world, made["id"])
    delete(world, peer["id"])


@case("DELETE /instance/{id}: 202, again 202 or 404, then 404")
def delete_instance(world):
    rest, made = world.rest(), put(world)
    becomes(world, made["id"], "RUNNING")
    status_is(rest.delete(f"/instance/{made['id']}"), 202)
    assert rest.delete(f"/instance/{made['id']}").status_code in (202, 404)
    wait("it to be gone", lambda: rest.get(f"/instance/{made['id']}").status_code == 404)
    problem(rest.delete(f"/instance/{made['id']}"), 404)


@case("/workload/: GET, PUT, PATCH, DELETE, limit, offset, type; instances of it, cascade")
def workloads(world):
    rest, name = world.rest(), unique("work")
    body = {"id": "", "name": name, "type": "CONTAINER", "uri": world.image, "environment": ["A=1"], "resources": {"cpu": 10, "memory": 16, "disk": 0}, "ports": []}
    made = status_is(rest.put("/workload/", json=body), 201)
    assert WORKLOAD <= set(made), WORKLOAD - set(made)
    for path in [f"/workload/{made['id']}", f"/workload/{made['id']}/", f"/workload/{name}"]:
        assert status_is(rest.get(path), 200)["id"] == made["id"]
    assert status_is(rest.put("/workload/", json=body), 200)["id"] == made["id"]
    problem(rest.put("/workload/", json={**body, "environment": []}), 409)
    listed = rest.get("/workload/?type=CONTAINER&limit=1000&offset=0")
    assert made["id"] in [one["id"] for one in status_is(listed, 200)]
    whole = {**status_is(rest.get(f"/workload/{name}"), 200), "environment": ["A=2"]}
    assert status_is(rest.patch(f"/workload/{name}", json=whole), 200)["environment"] == ["A=2"]
    one = status_is(rest.put("/instance/", json={"workloadId": made["id"], "name": unique("of")}), 201)
    assert one["environment"] == ["A=2"] and one["workloadId"] == made["id"]
    problem(rest.delete(f"/workload/{name}"), 409)
    status_is(rest.delete(f"/workload/{name}?cascade=true"), 202)
    wait("both to be gone", lambda: rest.get(f"/instance/{one['id']}").status_code == 404)
    problem(rest.get(f"/workload/{name}"), 404)


@case("Unknown paths are 404 for callers with an identity, 401 for others; a wrong verb is 405")
def unknown_paths(world):
    rest = world.rest()
    for path in ["/instances/", "/nothing", "/instance/x/y/z", "/api/v1/nothing", "/api/v2/cluster"]:
        problem(rest.get(path), 404)
    assert rest.post("/instance/", json={}).status_code == 405
    rest.cert = None
    assert rest.get("/instance/").status_code == 401


@case("GET /instance/{id}/logs: lines have their ends", nodes=("strata",))
def logs(world):
    made = put(world, script="echo one; echo two; printf part; sleep 60")
    becomes(world, made["id"], "RUNNING")
    read = lambda: world.rest().get(f"/instance/{made['id']}/logs").text
    wait("the log", lambda: read() == "one\ntwo\npart\n" or None)
    delete(world, made["id"])


@case("SchedulerService.setNodeStatus: NodeStatus.id, status, description, resource", alone=True)
def set_node_status(world):
    node = SeedNode(world, unique("status"))
    tell = lambda **fields: node.pushes.setNodeStatus(
        c.NodeStatus(**{"id": node.name, **fields}), timeout=TIMEOUT
    )
    refused(lambda: tell(), CODE.NOT_FOUND)
    node.register()
    shown = lambda: status_is(world.rest().get(f"/node/{node.name}"), 200)
    for state, expected in [
        (c.RUNNING, "READY"),
        (c.STARTING, "REGISTERED"),
        (c.SCHEDULING, "REGISTERED"),
        (c.SCHEDULED, "REGISTERED"),
        (c.STOPPING, "DRAINING"),
        (c.STOPPED, "LOST"),
        (c.CRASHED, "LOST"),
        (c.FAILED, "LOST"),
        (c.RUNNING, "READY"),
    ]:
        said = f"words of {c.Status.Name(state)}"
        tell(status=state, description=said)
        assert (shown()["status"], shown()["description"]) == (expected, said)
    amounts = c.ResourceSummary(cpu=3000, memory=2000, disk=10)
    tell(resource=c.Resource(max=amounts, usage=c.ResourceSummary(cpu=5, memory=6, disk=7)))
    assert shown()["capacity"] == {"cpu": 3000, "memory": 2000, "disk": 10}
    assert shown()["usage"] == {"cpu": 5, "memory": 6, "disk": 7}
    refused(lambda: tell(status=77), CODE.INVALID_ARGUMENT, field="status")
    bad = c.Resource(max=c.ResourceSummary(memory=-1))
    refused(lambda: tell(resource=bad), CODE.INVALID_ARGUMENT, field="resource.max.memory")
    refused(lambda: tell(id=unique("other")), CODE.PERMISSION_DENIED)
    other = c_grpc.SchedulerServiceStub(world.channel("viewer"))
    refused(lambda: other.setNodeStatus(c.NodeStatus(id=node.name), timeout=TIMEOUT), CODE.PERMISSION_DENIED)
    for state in [c.DESTROYING, c.TERMINATED]:
        tell(status=state)
        wait("the node to leave", node.unregistered)
        node.register()
    leave(node)


@case("NodeStatus.instances: id, status, ip, resource.usage are used and checked", alone=True)
def node_instances(world):
    node = SeedNode(world, unique("lists"), cpu=2 * BIG).start(work=False)
    made = put(world, resources={"cpu": BIG, "memory": 0, "disk": 0})
    becomes(world, made["id"], "SCHEDULED")
    # Another one that fits on no other node.
    other = put(world, resources={"cpu": BIG, "memory": 0, "disk": 0})
    becomes(world, other["id"], "SCHEDULED")
    hosts = node.subnet.rsplit(".", 1)[0]

    def tell(**fields):
        listed = c.Instance(**{"id": made["id"], "status": c.RUNNING, **fields})
        status = c.NodeStatus(id=node.name, status=c.RUNNING, instances=[listed])
        return node.pushes.setNodeStatus(status, timeout=TIMEOUT)

    reserved = [f"{hosts}.0", f"{hosts}.1", f"{hosts}.255"]
    for ip in ["nonsense", "10.43.0.9", "192.0.2.1", "::1", *reserved]:
        refused(lambda: tell(ip=ip), CODE.INVALID_ARGUMENT, field="instances[0].ip")
    for state in [c.SCHEDULING, c.DESTROYING]:
        refused(lambda: tell(status=state), CODE.INVALID_ARGUMENT, field="instances[0].status")
    bad = c.Resource(usage=c.ResourceSummary(cpu=-1))
    refused(lambda: tell(resource=bad), CODE.INVALID_ARGUMENT, field="instances[0].resource.usage.cpu")
    refused(lambda: tell(id=unique("none")), CODE.NOT_FOUND)
    one = get(world, made["id"])
    assert one["status"] == "SCHEDULED" and "ip" not in one, one
    usage = c.ResourceSummary(cpu=70, memory=30, disk=2)
    tell(ip=f"{hosts}.77", resource=c.Resource(usage=usage), name="ignored", uri="ignored")
    one = get(world, made["id"])
    assert (one["status"], one["ip"]) == ("RUNNING", f"{hosts}.77"), one
    assert one["resources"]["usage"] == {"cpu": 70, "memory": 30, "disk": 2}, one
    assert one["name"] == made["name"] and one["uri"] == world.image
    # Without them, what is known stays; limits are never touched.
    tell()
    one = get(world, made["id"])
    assert one["ip"] == f"{hosts}.77" and one["resources"]["max"]["cpu"] == BIG
    # The address of one instance is not another's, and nothing is taken of a
    # message that says so.
    stolen = c.Instance(id=other["id"], status=c.RUNNING, ip=f"{hosts}.77")
    status = c.NodeStatus(id=node.name, status=c.RUNNING, instances=[stolen])
    error = refused(
        lambda: node.pushes.setNodeStatus(status, timeout=TIMEOUT),
        CODE.INVALID_ARGUMENT,
        field="instances[0].ip",
    )
    assert made["name"] in error.details(), error.details()
    one = get(world, other["id"])
    assert one["status"] == "SCHEDULED" and "ip" not in one, one
    # Nor do two instances of one message have the same.
    both = [c.Instance(id=id, status=c.RUNNING, ip=f"{hosts}.78") for id in (made["id"], other["id"])]
    status = c.NodeStatus(id=node.name, status=c.RUNNING, instances=both)
    refused(
        lambda: node.pushes.setNodeStatus(status, timeout=TIMEOUT),
        CODE.INVALID_ARGUMENT,
        field="instances[1].ip",
    )
    assert get(world, made["id"])["ip"] == f"{hosts}.77" and "ip" not in get(world, other["id"])
    for id in [made["id"], other["id"]]:
        status_is(world.rest().delete(f"/instance/{id}"), 202)
        node.push(id, c.TERMINATED)
    leave(node)


@case("SchedulerService.setInstanceStatus: InstanceStatus.id, status, description", alone=True)
def set_instance_status(world):
    node = SeedNode(world, unique("pushes"), cpu=2 * BIG).start(work=False)
    made = put(world, resources={"cpu": BIG, "memory": 0, "disk": 0})
    id = made["id"]
    becomes(world, id, "SCHEDULED")
    for state, expected, said, shown in [
        (c.STARTING, "STARTING", "pulls", "pulls"),
        (c.RUNNING, "RUNNING", "", ""),
        (c.CRASHED, "CRASHED", "exit 3", "crashed: exit 3"),
        (c.RUNNING, "RUNNING", "", ""),
        (c.FAILED, "FAILED", "no disk", "no disk"),
        (c.RUNNING, "RUNNING", "", ""),
        (c.STOPPING, "STOPPING", "", ""),
        (c.STOPPED, "STOPPED", "", ""),
        (c.RUNNING, "RUNNING", "", ""),
    ]:
        node.push(id, state, said)
        one = get(world, id)
        assert (one["status"], one["description"]) == (expected, shown), one
    for state in [c.SCHEDULING, c.SCHEDULED, c.DESTROYING, 77]:
        refused(lambda: node.push(id, state), CODE.INVALID_ARGUMENT, field="status")
    assert get(world, id)["status"] == "RUNNING"
    refused(lambda: node.push(unique("none"), c.RUNNING), CODE.NOT_FOUND)
    refused(lambda: node.push("", c.RUNNING), CODE.INVALID_ARGUMENT, field="id")
    other = SeedNode(world, unique("other"))
    other.register()
    refused(lambda: other.push(id, c.FAILED), CODE.NOT_FOUND)
    leave(other)
    # What is stopped late does not run because an old report says so.
    status_is(world.rest().patch(f"/instance/{id}", json={"status": "STOPPED"}), 200)
    node.push(id, c.RUNNING)
    assert get(world, id)["status"] == "STOPPING"
    node.push(id, c.STOPPED)
    assert get(world, id)["status"] == "STOPPED"
    status_is(world.rest().patch(f"/instance/{id}", json={"status": "RUNNING"}), 200)
    assert get(world, id)["status"] == "STARTING"
    node.push(id, c.RUNNING)
    # An end is an end: it is not placed again.
    node.push(id, c.TERMINATED, "exit 0")
    one = get(world, id)
    assert (one["status"], one["description"], one["node"]) == ("TERMINATED", "exit 0", node.name)
    status_is(world.rest().delete(f"/instance/{id}"), 202)
    assert get(world, id)["status"] == "DESTROYING"
    node.push(id, c.TERMINATED)
    problem(world.rest().get(f"/instance/{id}"), 404)
    leave(node)


@case("Restart policy: on-failure, always, never; limits, address and count are kept")
def restart_policy(world):
    crash = put(world, script="sleep 0.2; exit 3", resources={"cpu": 10, "memory": 32, "disk": 0})
    again = wait("a restart", lambda: get(world, crash["id"]) if get(world, crash["id"])["restarts"] >= 2 else None)
    assert again["resources"]["max"] == {"cpu": 10, "memory": 32, "disk": 0}, again
    delete(world, crash["id"])
    done = put(world, script="exit 0")
    becomes(world, done["id"], "TERMINATED")
    delete(world, done["id"])
    for restart, script, state in [("never", "exit 3", "CRASHED"), ("never", "exit 0", "TERMINATED")]:
        one = put(world, script=script, restart=restart)
        becomes(world, one["id"], state)
        delete(world, one["id"])
    always = put(world, script="sleep 0.2; exit 0", restart="always")
    wait("a restart", lambda: get(world, always["id"])["restarts"] >= 1)
    delete(world, always["id"])


@case("Auth: 401 without, 403 beyond a role, tokens as certificates do")
def authorization(world):
    for role, path, method, code in [
        ("viewer", "/instance/", "PUT", 403),
        ("viewer", "/instance/", "GET", 200),
        ("operator", "/instance/", "GET", 200),
        ("operator", "/project/", "PUT", 403),
        ("node", "/instance/", "PUT", 403),
        ("node", "/workload/", "GET", 403),
    ]:
        answer = world.rest(role).request(method, path, json={} if method == "PUT" else None)
        assert answer.status_code == code, (role, method, path, answer.text)
    token = (world.data_dir / "client" / "token").read_text().strip()
    rest = world.rest()
    rest.cert = None
    assert rest.get("/instance/").status_code == 401
    bearer = lambda text: {"Authorization": f"Bearer {text}"}
    assert rest.get("/instance/", headers=bearer(token)).status_code == 200
    assert rest.get("/instance/", headers=bearer("x" + token)).status_code == 401


@case("Events: they survive a restart; what was there before the server started is not news")
def events(world):
    server = Server(world)
    rest = server.world.rest()
    body = {"name": "kept", "uri": world.image, "status": "STOPPED"}
    status_is(rest.put("/instance/", json=body), 201)
    before = status_is(rest.get("/event/"), 200)
    assert [one["name"] for one in before if one["kind"] == "instance"] == ["kept"], before
    server.end(signal.SIGTERM)
    server = Server(world, server.address, server.data_dir)
    rest = server.world.rest()
    events = status_is(rest.get("/event/"), 200)
    assert events[: len(before)] == before, (before, events)
    assert [one["kind"] for one in events[len(before) :]] == ["server"], events
    numbers = [one["number"] for one in events]
    assert numbers == sorted(set(numbers)), "positions of watchers stay good"
    after = before[-1]["number"]
    assert status_is(rest.get(f"/event/?after={after}"), 200) == events[-1:]
    # Also when it is killed, up to the last second.
    written = lambda: (server.data_dir / "events.jsonl").read_text()
    wait("them on disk", lambda: written().count('"kind":"server"') >= 2)
    server.end(signal.SIGKILL)
    server = Server(world, server.address, server.data_dir)
    again = status_is(server.world.rest().get("/event/"), 200)
    assert again[:-1] == events, (events, again)
    server.end(signal.SIGKILL)


@case("GET /instance/?watch: what there is, `synced`, then every change")
def watch(world):
    made = put(world, status="STOPPED")
    stream = world.rest().get("/instance/?watch=true", stream=True)
    lines = stream.iter_lines(decode_unicode=True)
    seen = []
    for line in lines:
        if line.startswith("event:"):
            seen.append(line.split(":", 1)[1].strip())
        if "synced" in seen and "delete" not in seen and made:
            status_is(world.rest().delete(f"/instance/{made['id']}"), 202)
            made = None
        if "delete" in seen:
            break
    assert seen.index("put") < seen.index("synced") < seen.index("delete"), seen
    stream.close()


@case("Idempotency-Key: one 201 whatever is sent at once; the same key with another body is refused")
def idempotency_key(world):
    body = {"name": unique("key"), "uri": world.image, "status": "STOPPED"}
    headers = {"Idempotency-Key": unique("key")}
    send = lambda body: world.rest().put("/instance/", json=body, headers=headers)
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        codes = [one.status_code for one in pool.map(lambda _: send(body), range(5))]
    assert 201 in codes and set(codes) <= {201, 409}, codes
    assert status_is(send(body), 201)["name"] == body["name"], "the answer is repeated"
    assert send({**body, "environment": ["A=1"]}).status_code in (409, 422)
    delete(world, body["name"])


@case("PATCH environment, ports, resources of what runs: it is replaced, and says so")
def patch_running(world):
    rest, made = world.rest(), put(world, ports=["18091:80"])
    path = f"/instance/{made['id']}"
    becomes(world, made["id"], "RUNNING")
    for change in [
        {"environment": ["A=1"]},
        {"ports": ["18092:80"]},
        {"resources": {"cpu": 50, "memory": 48, "disk": 0}},
    ]:
        before = get(world, made["id"])["generation"]
        changed = status_is(rest.patch(path, json=change), 200)
        assert changed["generation"] == before + 1 and "changed" in changed["description"], changed
        becomes(world, made["id"], "RUNNING")
    one = get(world, made["id"])
    assert (one["environment"], one["ports"]) == (["A=1"], ["18092:80"]), one
    assert one["resources"]["max"] == {"cpu": 50, "memory": 48, "disk": 0}, one
    delete(world, made["id"])


@case("PATCH /workload/{id}: running instances of it stay as they are")
def workload_patch(world):
    rest = world.rest()
    made = status_is(rest.put("/workload/", json={"name": unique("w"), "uri": world.image, "environment": ["A=1"]}), 201)
    one = status_is(rest.put("/instance/", json={"workloadId": made["name"], "name": unique("of")}), 201)
    status_is(rest.patch(f"/workload/{made['id']}", json={"environment": ["A=2"]}), 200)
    again = get(world, one["id"])
    assert again["environment"] == ["A=1"] and again["generation"] == one["generation"], again
    status_is(rest.delete(f"/workload/{made['id']}?cascade=true"), 202)
    wait("it to be gone", lambda: rest.get(f"/instance/{one['id']}").status_code == 404)


@case("Auth over gRPC: a bearer token as a certificate; none is UNAUTHENTICATED; plaintext is refused")
def grpc_authorization(world):
    authority = (world.credentials() / "ca.crt").read_bytes()
    unproven = grpc.secure_channel(world.address, grpc.ssl_channel_credentials(authority))
    stub = c_grpc.SchedulerServiceStub(unproven)
    ask = c.InstanceStatus(id=unique("none"), status=c.RUNNING)
    call = lambda *metadata: stub.setInstanceStatus(ask, timeout=TIMEOUT, metadata=metadata)
    refused(call, CODE.UNAUTHENTICATED)
    refused(lambda: call(("authorization", "Bearer x")), CODE.UNAUTHENTICATED)
    token = (world.data_dir / "client" / "token").read_text().strip()
    refused(lambda: call(("authorization", f"Bearer {token}")), CODE.NOT_FOUND)
    plain = c_grpc.SchedulerServiceStub(grpc.insecure_channel(world.address))
    refused(lambda: plain.setInstanceStatus(ask, timeout=TIMEOUT), CODE.UNAVAILABLE)


@case("GET /storage of a viewer makes no pool", nodes=("strata",))
def storage_is_only_read(world):
    assert status_is(world.rest("viewer").get("/storage"), 200)["bytes"] == 0
    assert not (world.data_dir / "pool" / "pool.json").exists()


if __name__ == "__main__":
    main(setup)
