"""Conformance with the document of clusters (package `cnct.kaas.api`), as far
as it needs no machine: what is refused, what is empty, and the HTTP gateway.
`tests/kubernetes` drives the rest with real clusters."""

import published
from common import CODE, TIMEOUT, case, main, problem, refused, status_is, unique

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


@case("GetVersionInformation: all seven fields are of the build")
def version_information(world):
    told = stub(world, "viewer").GetVersionInformation(c.GetVersionMsg(), timeout=TIMEOUT)
    assert told.ok, told
    build = told.version_information
    for field in ["git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler", "platform"]:
        assert getattr(build, field), (field, build)


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


if __name__ == "__main__":
    main()
