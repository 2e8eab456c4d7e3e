"""Drives every rpc of the operations service's published API.

Knows nothing but the document (seed_operations.proto) and what any gRPC client
has: grpcio.

    operations.py HOST:PORT ADMIN

ADMIN is a folder with ca.crt, client.crt and client.key. The machine local-1
must be free, and the pool must have one device of 1 GB and spares. Prints one
line for each rpc that was driven; fails by an exception.
"""

import importlib
import pathlib
import sys
import tempfile

import grpc
from grpc_tools import protoc

PATIENCE = 120


def compiled():
    """The modules of the document, compiled into a folder of their own."""
    here = pathlib.Path(__file__).parent
    with tempfile.TemporaryDirectory() as out:
        words = ["protoc", f"-I{here}", f"--python_out={out}"]
        words += [f"--grpc_python_out={out}", "seed_operations.proto"]
        if protoc.main(words) != 0:
            raise SystemExit("the document does not compile")
        sys.path.insert(0, out)
        names = ["seed_operations_pb2", "seed_operations_pb2_grpc"]
        return [importlib.import_module(name) for name in names]


def channel(address, folder=None):
    read = lambda name: (pathlib.Path(folder) / name).read_bytes()
    credentials = grpc.ssl_channel_credentials(
        read("ca.crt"), read("client.key"), read("client.crt")
    )
    return grpc.secure_channel(address, credentials)


def check(condition, *what):
    if not condition:
        raise AssertionError(what)


def refused(stream, *codes):
    """The stream carries nothing but a refusal with words."""
    try:
        first = next(stream)
    except grpc.RpcError as error:
        check(error.code() in codes, error)
        check(error.details(), error)
        return error.details()
    raise AssertionError(f"this was to be refused with {codes}: {first}")


def main(address, admin):
    o, o_grpc = compiled()
    stub = o_grpc.OperationsServiceStub(channel(address, admin))
    code = grpc.StatusCode

    def completed(stream):
        """An operation that waits, works and is done; then the end."""
        seen = [(one.state, one.msg) for one in stream]
        states = [state for state, _ in seen]
        check(states[0] == o.OPERATION_STATE_SCHEDULED, seen)
        check(states[-1] == o.OPERATION_STATE_COMPLETED, seen)
        check(set(states[1:-1]) == {o.OPERATION_STATE_ACTIVE}, seen)
        check(all(msg for _, msg in seen), seen)
        return seen

    def hypervisors():
        answer = stub.ListHypervisors(o.ListHypervisorsRequest(), timeout=PATIENCE)
        return {one.id: one for one in answer.hypervisors}

    # ListHypervisors
    found = hypervisors()
    check(sorted(found) == ["local-1", "local-2", "local-3"], found)
    for one in found.values():
        check(one.state == o.HYPERVISOR_STATE_AVAILABLE_TO_CREATE, one)
        check(one.cpu > 0 and one.ram > 0, one)
    print("ListHypervisors")

    # ExpandStorage
    expand = lambda amount: stub.ExpandStorage(
        o.ExpandStorageRequest(min_bytes=amount), timeout=PATIENCE
    )
    for bad in [0, -1, -(2**31)]:
        refused(expand(bad), code.INVALID_ARGUMENT)
    why = refused(expand(2**31 - 1), code.RESOURCE_EXHAUSTED)
    check(str(2**31 - 1) in why, why)
    completed(expand(500_000_000))
    print("ExpandStorage")

    # ShrinkStorage
    shrink = lambda amount: stub.ShrinkStorage(
        o.ShrinkStorageRequest(max_bytes=amount), timeout=PATIENCE
    )
    for bad in [0, -1]:
        refused(shrink(bad), code.INVALID_ARGUMENT)
    refused(shrink(1), code.FAILED_PRECONDITION)
    completed(shrink(500_000_000))
    print("ShrinkStorage")

    # CreateHypervisor
    create = lambda id: stub.CreateHypervisor(
        o.CreateHypervisorRequest(id=id), timeout=PATIENCE
    )
    for bad in ["", "nobody", "../etc", "x" * 5000]:
        refused(create(bad), code.NOT_FOUND, code.INVALID_ARGUMENT)
    completed(create("local-1"))
    up = hypervisors()["local-1"]
    check(up.state == o.HYPERVISOR_STATE_AVAILABLE_TO_DESTROY, up)
    # It was made while there is a pool, and reaches it.
    check(list(up.capabilities) == [o.HYPERVISOR_CAPABILITIES_STORAGE], up)
    again = [one.state for one in create("local-1")]
    check(again == [o.OPERATION_STATE_COMPLETED], again)
    print("CreateHypervisor")

    # CreateBackup
    completed(stub.CreateBackup(o.CreateBackupRequest(), timeout=PATIENCE))
    print("CreateBackup")

    # DestroyHypervisor
    destroy = lambda id: stub.DestroyHypervisor(
        o.DestroyHypervisorRequest(id=id), timeout=PATIENCE
    )
    for bad in ["", "nobody"]:
        refused(destroy(bad), code.NOT_FOUND, code.INVALID_ARGUMENT)
    completed(destroy("local-1"))
    again = [one.state for one in destroy("local-1")]
    check(again == [o.OPERATION_STATE_COMPLETED], again)
    free = hypervisors()["local-1"]
    check(free.state == o.HYPERVISOR_STATE_AVAILABLE_TO_CREATE, free)
    print("DestroyHypervisor")


if __name__ == "__main__":
    main(*sys.argv[1:])
