"""Drives every rpc of the clusters service's published API.

Knows nothing but the document (seed_clusters.proto) and what any gRPC client
has: grpcio.

    clusters.py HOST:PORT ADMIN [VERSION]

ADMIN is a folder with ca.crt, client.crt and client.key. Without VERSION no
cluster is made: what is asked for is refused, each in its way. With it, a
cluster of that version of Kubernetes goes through its whole life; five machines
must be free, and the version must be installable. Prints one line for each rpc
that was driven; fails by an exception.
"""

import importlib
import pathlib
import sys
import tempfile
import time

import grpc
from grpc_tools import protoc

PATIENCE = 60
# Machines are booted, joined, emptied and given back meanwhile.
LONG_PATIENCE = 1800
CLUSTER = "published"


def compiled():
    """The modules of the document, compiled into a folder of their own."""
    here = pathlib.Path(__file__).parent
    with tempfile.TemporaryDirectory() as out:
        words = ["protoc", f"-I{here}", f"--python_out={out}"]
        words += [f"--grpc_python_out={out}", "seed_clusters.proto"]
        if protoc.main(words) != 0:
            raise SystemExit("the document does not compile")
        sys.path.insert(0, out)
        names = ["seed_clusters_pb2", "seed_clusters_pb2_grpc"]
        return [importlib.import_module(name) for name in names]


def channel(address, folder):
    read = lambda name: (pathlib.Path(folder) / name).read_bytes()
    credentials = grpc.ssl_channel_credentials(
        read("ca.crt"), read("client.key"), read("client.crt")
    )
    return grpc.secure_channel(address, credentials)


def check(condition, *what):
    if not condition:
        raise AssertionError(what)


class Client:
    def __init__(self, address, admin):
        self.m, m_grpc = compiled()
        self.stub = m_grpc.ClusterStub(channel(address, admin))

    def call(self, rpc, **fields):
        """The rpc with these fields in its message."""
        kind = getattr(self.m, {"GetVersionInformation": "GetVersionMsg"}.get(rpc, rpc + "Msg"))
        return getattr(self.stub, rpc)(kind(**fields), timeout=PATIENCE)

    def refused(self, code, word, rpc, **fields):
        """That the rpc is refused with this code, and tells of this word."""
        try:
            answer = self.call(rpc, **fields)
        except grpc.RpcError as error:
            check(error.code() == code, rpc, fields, error)
            check(word in error.details(), rpc, fields, error)
            return
        raise AssertionError(f"{rpc} of {fields} was to be refused: {answer}")

    def spec(self, name="web", count=1, labels=(), kind=""):
        labels = [self.m.KubernetesLabel(name=n, value=v) for n, v in labels]
        return self.m.MachineSpec(name=name, count=count, labels=labels, instanceType=kind)

    def create(self, name=CLUSTER, version="v1.2.3", control=1, pools=()):
        return {
            "name": name,
            "k8s_version": version,
            "control_plane_nodes": self.m.ControlPlaneMachineSpec(count=control),
            "worker_node_pools": pools,
        }

    def bad(self, version):
        """What makes no sense, and what is not there."""
        bad, missing = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
        spec, create = self.spec, self.create
        twice = [("a", "1"), ("a", "2")]
        for word, asked in [
            ("name", create(name="", version=version)),
            ("name", create(name="Not A Label", version=version)),
            ("name", create(name="x" * 5000, version=version)),
            ("k8s_version", create(version="new")),
            ("k8s_version", create(version="v1.2.3")),
            ("k8s_version", create(version="../../etc")),
            ("control_plane_nodes.count", create(version=version, control=0)),
            ("control_plane_nodes.count", create(version=version, control=2)),
            ("control_plane_nodes.count", create(version=version, control=-1)),
            ("worker_node_pools[0].name", create(version=version, pools=[spec(name="")])),
            ("worker_node_pools[0].count", create(version=version, pools=[spec(count=-1)])),
            ("worker_node_pools[0].instanceType", create(version=version, pools=[spec(kind="x")])),
            ("worker_node_pools[0].labels", create(version=version, pools=[spec(labels=twice)])),
            ("worker_node_pools[1].name", create(version=version, pools=[spec(), spec()])),
        ]:
            self.refused(bad, word, "CreateCluster", **asked)
        for name, code in [("", bad), ("nobody", missing), ("../x", missing)]:
            self.refused(code, "", "GetCluster", name=name)
            self.refused(code, "", "DeleteCluster", name=name)
            self.refused(code, "", "GetClusterNodesStatus", clusterName=name)
            self.refused(code, "", "GetUpgradeClusterInformation", name=name)
            self.refused(code, "", "UpgradeCluster", name=name, version="v1.2.3")
            self.refused(code, "", "AddNodePool", clusterName=name, worker_node_pools=[spec()])
            self.refused(code, "", "DeleteNodePool", clusterName=name, node_pool_names=["web"])
            size = self.m.ScaleNodePoolSpec(name="web", count=1)
            self.refused(code, "", "ScaleNodePool", clusterName=name, node_pools=[size])

    def until(self, what, holds):
        """Asks again until it is so."""
        end = time.monotonic() + LONG_PATIENCE
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain: {what}")
            time.sleep(1)

    def get(self):
        answer = self.call("GetCluster", name=CLUSTER)
        check(answer.ok and answer.cluster.name == CLUSTER, answer)
        return answer.cluster

    def running(self):
        self.until("it runs", lambda: self.get().status == self.m.RUNNING)

    def nodes(self):
        answer = self.call("GetClusterNodesStatus", clusterName=CLUSTER)
        check(answer.Name == CLUSTER and answer.count == len(answer.machines), answer)
        return answer.machines

    def has(self, count):
        """So many machines, each with a node that is ready."""
        ready = lambda: [one.k8sNodeStatus for one in self.nodes()] == ["Ready"] * count
        self.until(f"{count} nodes are ready", ready)
        self.running()


def life(client, version):
    """A cluster from its beginning to its end."""
    m, code = client.m, grpc.StatusCode
    asked = client.create(
        version=version, pools=[client.spec(labels=[("tier", "web")])]
    )
    made = client.call("CreateCluster", **asked)
    check(made.ok and made.cluster.status == m.PROVISIONING, made)
    # The same again is the same; another of that name is not.
    check(client.call("CreateCluster", **asked).ok)
    other = client.create(version=version, control=3)
    client.refused(code.ALREADY_EXISTS, CLUSTER, "CreateCluster", **other)
    client.running()
    print("CreateCluster")
    kubeconfig = client.get().kubeconfig
    check("client-certificate-data" in kubeconfig and "https://" in kubeconfig)
    print("GetCluster")
    found = [one.name for one in client.call("GetClusterList").clusters]
    check(CLUSTER in found, found)
    print("GetClusterList")
    client.has(2)
    for one in client.nodes():
        check(one.k8sVersion == version, one)
        check(one.maasSystemId and one.maasHostname and one.maasIPAddr, one)
        check(one.maasNodeStatus == "UP", one)
    print("GetClusterNodesStatus")

    both = [client.spec(name="more"), client.spec(name="web", count=7)]
    client.refused(
        code.ALREADY_EXISTS, "web",
        "AddNodePool", clusterName=CLUSTER, worker_node_pools=both,
    )
    check(client.call("AddNodePool", clusterName=CLUSTER, worker_node_pools=both[:1]).ok)
    client.has(3)
    print("AddNodePool")
    size = lambda count: [m.ScaleNodePoolSpec(name="more", count=count)]
    for bad in [-1, 100_000]:
        client.refused(
            code.INVALID_ARGUMENT, "node_pools",
            "ScaleNodePool", clusterName=CLUSTER, node_pools=size(bad),
        )
    for count in [2, 0]:
        check(client.call("ScaleNodePool", clusterName=CLUSTER, node_pools=size(count)).ok)
        client.has(2 + count)
    print("ScaleNodePool")
    client.refused(
        code.NOT_FOUND, "nobody",
        "DeleteNodePool", clusterName=CLUSTER, node_pool_names=["more", "nobody"],
    )
    check(client.call("DeleteNodePool", clusterName=CLUSTER, node_pool_names=["more"]).ok)
    client.has(2)
    print("DeleteNodePool")

    targets = client.call("GetUpgradeClusterInformation", name=CLUSTER)
    check(targets.ok == bool(targets.versions), targets)
    check(version not in targets.versions, targets)
    print("GetUpgradeClusterInformation")
    client.refused(
        code.INVALID_ARGUMENT, "version",
        "UpgradeCluster", name=CLUSTER, version="v1.2.3",
    )
    for newest in targets.versions[-1:]:
        check(client.call("UpgradeCluster", name=CLUSTER, version=newest).ok)
        at = lambda: {one.k8sVersion for one in client.nodes()} == {newest}
        client.until(f"all have {newest}", at)
        client.has(2)
    print("UpgradeCluster")

    gone = client.call("DeleteCluster", name=CLUSTER)
    check(gone.ok and gone.status, gone)

    def over():
        try:
            client.call("GetCluster", name=CLUSTER)
        except grpc.RpcError as error:
            check(error.code() == code.NOT_FOUND, error)
            return True
        return False

    client.until("it is gone", over)
    print("DeleteCluster")


def main(address, admin, version=None):
    client = Client(address, admin)
    build = client.call("GetVersionInformation")
    told = build.version_information
    check(build.ok and told.git_version and told.platform, build)
    check(told.compiler and told.go_version.startswith(told.compiler), build)
    print("GetVersionInformation")
    before = client.call("GetClusterList")
    check(before.ok, before)
    client.bad(version or "v1.2.3")
    check(client.call("GetClusterList") == before)
    if version:
        life(client, version)
    else:
        print("refusals")


if __name__ == "__main__":
    main(*sys.argv[1:])
