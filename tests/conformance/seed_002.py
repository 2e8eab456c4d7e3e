"""Conformance with the document of clusters (package `cnct.kaas.api`), on nested
nodes whose Kubernetes is simulated (`[clusters] simulated`): versions 1.33.2,
1.34.1, 1.34.4 and 1.35.0 are there. `tests/kubernetes` drives real clusters.

Cases that run beside others need no machine; those that are alone come after
them, and share the cluster `shared` or own one."""

import concurrent.futures
import datetime
import ipaddress
import json
import pathlib
import re

import grpc

import published
from common import CODE, TIMEOUT, case, main, problem, refused, status_is, unique, wait

c, c_grpc = published.stubs("cnct.kaas.api")


def stub(world, role="admin"):
    return c_grpc.ClusterStub(world.channel(role))


def pool(name="web", count=1, kind="", labels=()):
    labels = [c.KubernetesLabel(name=key, value=value) for key, value in labels]
    return c.MachineSpec(name=name, count=count, instanceType=kind, labels=labels)


def create(name="blue", version="v9.9.9", control=1, pools=()):
    plane = c.ControlPlaneMachineSpec(count=control)
    return c.CreateClusterMsg(
        name=name, k8s_version=version, control_plane_nodes=plane, worker_node_pools=pools
    )


@case("CreateClusterMsg: every field is looked at before anything is done, and is named")
def create_refusals(world):
    cluster = stub(world)
    for field, asked in [
        ("name", create(name="")),
        ("name", create(name="Not A Label")),
        ("name", create(name="x" * 41)),
        ("control_plane_nodes.count", create(control=0)),
        ("control_plane_nodes.count", create(control=2)),
        ("control_plane_nodes.count", create(control=-1)),
        ("control_plane_nodes.count", create(control=2**31 - 1)),
        ("worker_node_pools[0].name", create(pools=[pool(name="")])),
        ("worker_node_pools[0].count", create(pools=[pool(count=-1)])),
        ("worker_node_pools[0].instanceType", create(pools=[pool(kind="x")])),
        ("worker_node_pools[0].labels", create(pools=[pool(labels=[("a", "1"), ("a", "2")])])),
        ("worker_node_pools[1].name", create(pools=[pool(), pool()])),
        ("k8s_version", create(version="v9.9.9")),
        ("k8s_version", create(version="banana")),
    ]:
        ask = lambda: cluster.CreateCluster(asked, timeout=TIMEOUT)
        refused(ask, CODE.INVALID_ARGUMENT, field=field)
    listed = cluster.GetClusterList(c.GetClusterListMsg(), timeout=TIMEOUT)
    assert listed.ok and not listed.clusters, listed


@case("k8s_version that is not here: the plain message says how to get it")
def version_hint(world):
    asked = create(version="v9.9.9")
    ask = lambda: stub(world).CreateCluster(asked, timeout=TIMEOUT)
    error = refused(ask, CODE.INVALID_ARGUMENT)
    assert "make kubernetes VERSION=v9.9.9" in error.details(), error.details()
    asked = create(version="9.9")
    error = refused(lambda: stub(world).CreateCluster(asked, timeout=TIMEOUT), CODE.INVALID_ARGUMENT)
    assert "VERSION=9.9" in error.details() and "9.9.0" not in error.details(), error.details()


@case("Every rpc with the name of a cluster: empty is INVALID_ARGUMENT, unknown NOT_FOUND")
def unknown_clusters(world):
    cluster, name = stub(world), unique("none")
    size = c.ScaleNodePoolSpec(name="web", count=1)
    for name, code in [("", CODE.INVALID_ARGUMENT), (name, CODE.NOT_FOUND)]:
        for call, asked in [
            (cluster.GetCluster, c.GetClusterMsg(name=name)),
            (cluster.DeleteCluster, c.DeleteClusterMsg(name=name)),
            (cluster.GetClusterNodesStatus, c.GetClusterNodesStatusMsg(clusterName=name)),
            (cluster.GetUpgradeClusterInformation, c.GetUpgradeClusterInformationMsg(name=name)),
            (cluster.UpgradeCluster, c.UpgradeClusterMsg(name=name, version="v1.2.3")),
            (cluster.AddNodePool, c.AddNodePoolMsg(clusterName=name, worker_node_pools=[pool()])),
            (cluster.DeleteNodePool, c.DeleteNodePoolMsg(clusterName=name, node_pool_names=["w"])),
            (cluster.ScaleNodePool, c.ScaleNodePoolMsg(clusterName=name, node_pools=[size])),
        ]:
            refused(lambda: call(asked, timeout=TIMEOUT), code)


def in_checkout():
    """Whether the program was built in a checkout, as the suite is in one."""
    return (pathlib.Path(__file__).resolve().parents[2] / ".git").exists()


@case("GetVersionInformation: all seven fields are of the build")
def version_information(world):
    told = stub(world, "viewer").GetVersionInformation(c.GetVersionMsg(), timeout=TIMEOUT)
    assert told.ok, told
    build = told.version_information
    # A development build does not look whether the tree is clean.
    trees = "unknown|clean|dirty" if "/debug/" in world.binary else "clean|dirty"
    commit = "[0-9a-f]{40}" if in_checkout() else "unknown"
    for field, pattern in [
        ("git_version", r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?"),
        ("git_commit", commit),
        ("git_tree_state", trees),
        ("go_version", r"rustc \d+\.\d+\.\d+( .*)?"),
        ("compiler", "rustc"),
        ("platform", r"[0-9a-z_]+-[a-z]+-linux-[a-z]+"),
    ]:
        assert re.fullmatch(pattern, getattr(build, field)), (field, build)
    built = datetime.datetime.fromisoformat(build.build_date)
    assert built.year >= 2024 and built <= datetime.datetime.now(datetime.timezone.utc), build
    # What the program says of itself.
    own = json.loads(world.strata("version", "-o", "json").stdout)
    assert (own["version"], own["commit"]) == (build.git_version, build.git_commit), own


@case("Roles: a viewer lists and changes nothing")
def roles(world):
    viewer = stub(world, "viewer")
    assert viewer.GetClusterList(c.GetClusterListMsg(), timeout=TIMEOUT).ok
    refused(lambda: viewer.CreateCluster(create(), timeout=TIMEOUT), CODE.PERMISSION_DENIED)
    ask = c.DeleteClusterMsg(name="blue")
    refused(lambda: viewer.DeleteCluster(ask, timeout=TIMEOUT), CODE.PERMISSION_DENIED)


@case("The HTTP gateway: the published routes, with problems as they are in gRPC")
def gateway(world):
    rest, base = world.rest(), "/api/v1"
    listed = status_is(rest.get(f"{base}/cluster/list"), 200)
    assert listed["ok"] is True and not listed.get("clusters"), listed
    assert status_is(rest.get(f"{base}/version"), 200)["ok"] is True
    name = unique("none")
    problem(rest.get(f"{base}/cluster", params={"name": name}), 404)
    problem(rest.delete(f"{base}/cluster", params={"name": name}), 404)
    problem(rest.get(f"{base}/cluster/nodesstatus", params={"clusterName": name}), 404)
    problem(rest.get(f"{base}/cluster/upgrade", params={"name": name}), 404)
    body = {"name": "blue", "k8s_version": "v9.9.9", "control_plane_nodes": {"count": 1}}
    told = problem(rest.post(f"{base}/cluster", json=body), 422, "k8s_version")
    assert "VERSION=v9.9.9" in told["hint"], told


def status(world, name):
    return stub(world).GetCluster(c.GetClusterMsg(name=name), timeout=TIMEOUT).cluster


def becomes(world, name, *states, timeout=TIMEOUT):
    def look():
        one = status(world, name)
        return one if one.status in states else None

    return wait(f"{name} to be {[c.ClusterStatus.Name(one) for one in states]}", look, timeout)


def running(world):
    """A cluster of the cases that change nothing for good, made once."""
    name = "shared"
    asked = create(name, "v1.34.1", 1, [pool(labels=[("tier", "web")])])
    assert stub(world).CreateCluster(asked, timeout=TIMEOUT).ok
    becomes(world, name, c.RUNNING)
    return name


def nodes(world, name):
    asked = c.GetClusterNodesStatusMsg(clusterName=name)
    return stub(world).GetClusterNodesStatus(asked, timeout=TIMEOUT)


def gone(world, name):
    def look():
        try:
            return status(world, name) and None
        except grpc.RpcError as error:
            return error.code() == CODE.NOT_FOUND

    wait(f"{name} to be gone", look)


def leaves_running(world, name, call):
    """A change that is accepted is seen in the state that is read next."""
    assert call().ok
    now = status(world, name)
    assert now.status != c.RUNNING, (now.status, now.status_message)


@case("CreateCluster: equal ones at once are one; ok, cluster, ClusterItem.*, PROVISIONING", alone=True)
def create_cluster(world):
    asked = create("shared", "v1.34.1", 1, [pool(labels=[("tier", "web")])])
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        make = lambda _: stub(world).CreateCluster(asked, timeout=TIMEOUT)
        replies = list(threads.map(make, range(8)))
    for reply in replies:
        assert reply.ok and reply.cluster.name == "shared", reply
        assert reply.cluster.status in (c.PROVISIONING, c.RUNNING), reply
    assert replies[0].cluster.status_message, replies[0]
    other = create("shared", "v1.34.1", 1, [pool(count=2)])
    refused(lambda: stub(world).CreateCluster(other, timeout=TIMEOUT), CODE.ALREADY_EXISTS)
    becomes(world, "shared", c.RUNNING)
    assert stub(world).CreateCluster(asked, timeout=TIMEOUT).cluster.status == c.RUNNING
    listed = stub(world).GetClusterList(c.GetClusterListMsg(), timeout=TIMEOUT).clusters
    assert [one.name for one in listed] == ["shared"], listed


@case("k8s_version: 1.34 and empty are the newest of what is here", alone=True)
def versions(world):
    for asked, expected in [("1.34", "v1.34.4"), ("", "v1.35.0")]:
        name = unique("v")
        assert stub(world).CreateCluster(create(name, asked), timeout=TIMEOUT).ok
        becomes(world, name, c.RUNNING)
        machines = nodes(world, name).machines
        assert [one.k8sVersion for one in machines] == [expected], machines
        stub(world).DeleteCluster(c.DeleteClusterMsg(name=name), timeout=TIMEOUT)
        gone(world, name)


@case("count, instanceType: more machines than there are is RESOURCE_EXHAUSTED, with the figures", alone=True)
def too_many_machines(world):
    for asked in [
        create(unique("big"), "v1.34.1", 1, [pool(count=50)]),
        create(unique("gpu"), "v1.34.1", 1, [pool(kind="gpu")]),
    ]:
        error = refused(lambda: stub(world).CreateCluster(asked, timeout=TIMEOUT), CODE.RESOURCE_EXHAUSTED)
        assert "missing" in error.details() and "free" in error.details(), error.details()
        refused(lambda: status(world, asked.name), CODE.NOT_FOUND)


@case("GetCluster: kubeconfig, status, status_message; not for viewers", alone=True)
def get_cluster(world):
    name = running(world)
    one = status(world, name)
    assert one.name == name and one.kubeconfig, one
    assert (one.status, one.status_message) == (c.RUNNING, ""), one
    viewer = stub(world, "viewer")
    refused(lambda: viewer.GetCluster(c.GetClusterMsg(name=name), timeout=TIMEOUT), CODE.PERMISSION_DENIED)


@case("GetClusterList: ok, clusters", alone=True)
def list_clusters(world):
    name = running(world)
    listed = stub(world, "viewer").GetClusterList(c.GetClusterListMsg(), timeout=TIMEOUT)
    assert listed.ok and name in [one.name for one in listed.clusters], listed


@case("GetClusterNodesStatus: name, count, machines with k8sNodeStatus, k8sVersion, maas*", alone=True)
def nodes_status(world):
    name = running(world)
    seen = nodes(world, name)
    assert (seen.Name, seen.count, len(seen.machines)) == (name, 2, 2), seen
    for one in seen.machines:
        assert (one.k8sNodeStatus, one.k8sVersion) == ("Ready", "v1.34.1"), one
        assert one.maasNodeStatus == "UP" and one.maasSystemId and one.maasHostname, one
        assert ipaddress.ip_address(one.maasIPAddr), one


@case("maasNodeStatus, status, status_message: a machine that is off is shown, and back again when it is on", alone=True)
def switched_off(world):
    name = running(world)
    members = status_is(world.rest().get(f"/cluster/{name}/node"), 200)
    worker = next(one["machine"] for one in members if one.get("pool") == "web")
    world.strata("machine", "power", worker, "off", "--force")

    def shown_off():
        one = [one for one in nodes(world, name).machines if worker in (one.maasSystemId, one.maasHostname)]
        return not one or one[0].maasNodeStatus != "UP"

    wait("the machine to be shown off", shown_off, 15)
    sick = becomes(world, name, c.DEGRADED, timeout=15)
    assert worker in sick.status_message, sick.status_message
    world.strata("machine", "power", worker, "on")
    becomes(world, name, c.RUNNING)
    assert status(world, name).status_message == ""
    assert nodes(world, name).count == 2


@case("ERROR, status_message: a control plane that is off, with what to do; RUNNING once it is on", alone=True)
def control_plane_off(world):
    name = running(world)
    members = status_is(world.rest().get(f"/cluster/{name}/node"), 200)
    control = next(one["machine"] for one in members if not one.get("pool"))
    world.strata("machine", "power", control, "off", "--force")
    silent = becomes(world, name, c.ERROR)
    for part in ["does not answer", control, "strata machine list", f"strata cluster restore {name}"]:
        assert part in silent.status_message, silent.status_message
    assert not silent.kubeconfig, "it leads nowhere"
    world.strata("machine", "power", control, "on")
    again = becomes(world, name, c.RUNNING)
    assert again.kubeconfig and status(world, name).status_message == "", again


@case("AddNodePool, ScaleNodePool, DeleteNodePool: all or nothing, repeated, seen at once", alone=True)
def pools_change(world):
    name, cluster = running(world), stub(world)
    add = lambda *pools: cluster.AddNodePool(
        c.AddNodePoolMsg(clusterName=name, worker_node_pools=pools), timeout=TIMEOUT
    )
    drop = lambda *names: cluster.DeleteNodePool(
        c.DeleteNodePoolMsg(clusterName=name, node_pool_names=names), timeout=TIMEOUT
    )
    size = lambda **counts: cluster.ScaleNodePool(
        c.ScaleNodePoolMsg(
            clusterName=name,
            node_pools=[c.ScaleNodePoolSpec(name=key, count=count) for key, count in counts.items()],
        ),
        timeout=TIMEOUT,
    )
    leaves_running(world, name, lambda: add(pool("extra", 1), pool("empty", 0)))
    becomes(world, name, c.RUNNING)
    assert add(pool("extra", 1), pool("empty", 0)).ok
    refused(lambda: add(pool("extra", 2)), CODE.ALREADY_EXISTS)
    refused(lambda: add(pool("fresh"), pool("fresh")), CODE.INVALID_ARGUMENT, field="worker_node_pools[1].name")
    becomes(world, name, c.RUNNING)
    assert nodes(world, name).count == 3
    for bad, code in [
        (lambda: size(web=-1), CODE.INVALID_ARGUMENT),
        (lambda: size(web=2, nowhere=1), CODE.NOT_FOUND),
        (lambda: drop("extra", "nowhere"), CODE.NOT_FOUND),
        (lambda: size(web=500), CODE.RESOURCE_EXHAUSTED),
    ]:
        refused(bad, code, CODE.INVALID_ARGUMENT)
    assert (status(world, name).status, nodes(world, name).count) == (c.RUNNING, 3)
    leaves_running(world, name, lambda: size(web=2, extra=0))
    becomes(world, name, c.RUNNING)
    assert nodes(world, name).count == 3
    # Neither has machines: it may be done before anything can be read.
    assert drop("extra", "empty").ok
    becomes(world, name, c.RUNNING)
    assert drop("extra", "empty").ok, "repeated"
    leaves_running(world, name, lambda: size(web=1))
    becomes(world, name, c.RUNNING)
    assert nodes(world, name).count == 2


@case("GetUpgradeClusterInformation, UpgradeCluster: next versions alone, one minor at a time", alone=True)
def upgrade(world):
    cluster, name = stub(world), unique("up")
    cluster.CreateCluster(create(name, "v1.33.2", 1, [pool()]), timeout=TIMEOUT)
    becomes(world, name, c.RUNNING)
    look = lambda: cluster.GetUpgradeClusterInformation(
        c.GetUpgradeClusterInformationMsg(name=name), timeout=TIMEOUT
    )
    go = lambda version: cluster.UpgradeCluster(
        c.UpgradeClusterMsg(name=name, version=version), timeout=TIMEOUT
    )
    found = look()
    assert found.ok and "v1.34.4" in found.versions and "v1.35.0" not in found.versions, found
    for bad in ["v1.35.0", "v1.33.1", "v9.9.9", "banana"]:
        refused(lambda: go(bad), CODE.FAILED_PRECONDITION, CODE.INVALID_ARGUMENT)
    leaves_running(world, name, lambda: go("v1.34.4"))
    becomes(world, name, c.RUNNING)
    assert {one.k8sVersion for one in nodes(world, name).machines} == {"v1.34.4"}
    assert go("v1.34.4").ok, "the version it has"
    assert go("v1.35.0").ok
    becomes(world, name, c.RUNNING)
    assert not look().ok and not look().versions, look()
    cluster.DeleteCluster(c.DeleteClusterMsg(name=name), timeout=TIMEOUT)
    gone(world, name)


@case("DeleteCluster: ok, status, STOPPING, then NOT_FOUND; again is fine; machines come back", alone=True)
def delete_cluster(world):
    name = running(world)
    ask = lambda: stub(world).DeleteCluster(c.DeleteClusterMsg(name=name), timeout=TIMEOUT)
    reply = ask()
    assert reply.ok and name in reply.status, reply
    try:
        assert status(world, name).status == c.STOPPING
    except grpc.RpcError as error:
        assert error.code() == CODE.NOT_FOUND, error
    with concurrent.futures.ThreadPoolExecutor(5) as threads:
        assert all(reply.ok for reply in threads.map(lambda _: ask(), range(5)))
    gone(world, name)
    assert ask().ok, "what is deleted"
    machines = status_is(world.rest().get("/machine/"), 200)
    assert not [one for one in machines if one.get("cluster")], machines


@case("The HTTP gateway: a cluster's life by the published routes", alone=True)
def gateway_life(world):
    rest, base, name = world.rest(), "/api/v1/cluster", unique("rest")
    body = {"name": name, "k8s_version": "v1.34.1", "control_plane_nodes": {"count": 1}}
    assert status_is(rest.post(base, json=body), 200)["ok"] is True
    read = lambda: status_is(rest.get(base, params={"name": name}), 200)["cluster"]
    wait("it to run", lambda: read()["status"] == "RUNNING")
    assert read()["kubeconfig"]
    pools = {"clusterName": name, "worker_node_pools": [{"name": "web", "count": 1}]}
    assert status_is(rest.post(f"{base}/pool", json=pools), 200)["ok"] is True
    wait("it to run", lambda: read()["status"] == "RUNNING")
    size = {"clusterName": name, "node_pools": [{"name": "web", "count": 0}]}
    assert status_is(rest.put(f"{base}/pool", json=size), 200)["ok"] is True
    wait("it to run", lambda: read()["status"] == "RUNNING")
    drop = {"clusterName": name, "node_pool_names": ["web"]}
    assert status_is(rest.delete(f"{base}/pool", json=drop), 200)["ok"] is True
    wait("it to run", lambda: read()["status"] == "RUNNING")
    found = status_is(rest.get(f"{base}/upgrade", params={"name": name}), 200)
    assert "v1.35.0" in found["versions"], found
    assert status_is(rest.put(f"{base}/upgrade", json={"name": name, "version": "v1.35.0"}), 200)["ok"]
    wait("it to run", lambda: read()["status"] == "RUNNING")
    seen = status_is(rest.get(f"{base}/nodesstatus", params={"clusterName": name}), 200)
    assert [one["k8sVersion"] for one in seen["machines"]] == ["v1.35.0"], seen
    assert status_is(rest.delete(base, params={"name": name}), 200)["ok"] is True
    wait("it to be gone", lambda: rest.get(base, params={"name": name}).status_code == 404)


if __name__ == "__main__":
    main()
