"""Conformance with the document of operations (package `operations.v1`)."""

import concurrent.futures
import pathlib
import re

import grpc

import published
from common import CODE, TIMEOUT, case, main, refused, status_is, wait

o, o_grpc = published.stubs("operations.v1")

STRATA = ("strata",)
SCHEDULED, ACTIVE = o.OPERATION_STATE_SCHEDULED, o.OPERATION_STATE_ACTIVE
FAILED, COMPLETED = o.OPERATION_STATE_FAILED, o.OPERATION_STATE_COMPLETED
TO_CREATE = o.HYPERVISOR_STATE_AVAILABLE_TO_CREATE
TO_DESTROY = o.HYPERVISOR_STATE_AVAILABLE_TO_DESTROY
UNKNOWN = o.HYPERVISOR_STATE_UNKNOWN


def service(world, role="admin"):
    return o_grpc.OperationsServiceStub(world.channel(role))


def hypervisors(world):
    answer = service(world).ListHypervisors(o.ListHypervisorsRequest(), timeout=TIMEOUT)
    return {one.id: one for one in answer.hypervisors}


def create(world, id):
    return service(world).CreateHypervisor(o.CreateHypervisorRequest(id=id), timeout=TIMEOUT)


def destroy(world, id):
    return service(world).DestroyHypervisor(o.DestroyHypervisorRequest(id=id), timeout=TIMEOUT)


def expand(world, amount):
    return service(world).ExpandStorage(o.ExpandStorageRequest(min_bytes=amount), timeout=TIMEOUT)


def shrink(world, amount):
    return service(world).ShrinkStorage(o.ShrinkStorageRequest(max_bytes=amount), timeout=TIMEOUT)


def backup(world):
    return service(world).CreateBackup(o.CreateBackupRequest(), timeout=TIMEOUT)


def completed(stream):
    """The messages of an operation that ends well: SCHEDULED while it waits,
    ACTIVE with every step, COMPLETED once and last."""
    all = list(stream)
    states = [one.state for one in all]
    assert states[-1] == COMPLETED, all
    assert states == sorted(states), all
    assert states.count(COMPLETED) == 1 and FAILED not in states, all
    assert all[-1].msg and (len(all) == 1 or states[0] == SCHEDULED), all
    return all


def pool_bytes(world):
    return status_is(world.rest().get("/storage"), 200)["bytes"]


def number(text):
    """The first number of bytes in a message."""
    return int(re.search(r"(\d+) bytes", text).group(1))


@case("ListHypervisors: every machine with cpu, ram, capabilities and a state", STRATA)
def list_hypervisors(world):
    found = hypervisors(world)
    assert {"local-1", "local-2", "local-3"} <= set(found), found
    for one in found.values():
        assert one.cpu > 0 and one.ram > 0, one
        assert one.state in (TO_CREATE, TO_DESTROY, UNKNOWN), one
        assert o.HYPERVISOR_CAPABILITIES_UNSPECIFIED not in one.capabilities, one


@case("CreateHypervisor, DestroyHypervisor: unknown and empty ids", STRATA)
def unknown_ids(world):
    for bad in ["", "none-of-them", "../etc", "x" * 5000]:
        refused(lambda: create(world, bad), CODE.NOT_FOUND, CODE.INVALID_ARGUMENT)
        refused(lambda: destroy(world, bad), CODE.NOT_FOUND, CODE.INVALID_ARGUMENT)


@case("who may: a viewer looks, and changes nothing", STRATA)
def viewers(world):
    stub = service(world, "viewer")
    stub.ListHypervisors(o.ListHypervisorsRequest(), timeout=TIMEOUT)
    calls = [
        lambda: stub.CreateHypervisor(o.CreateHypervisorRequest(id="local-1")),
        lambda: stub.DestroyHypervisor(o.DestroyHypervisorRequest(id="local-1")),
        lambda: stub.ExpandStorage(o.ExpandStorageRequest(min_bytes=1)),
        lambda: stub.ShrinkStorage(o.ShrinkStorageRequest(max_bytes=1)),
        lambda: stub.CreateBackup(o.CreateBackupRequest()),
    ]
    for call in calls:
        refused(call, CODE.PERMISSION_DENIED)


@case("CreateHypervisor, DestroyHypervisor: up, up again, down, down again", STRATA)
def a_life(world):
    told = completed(create(world, "local-1"))
    assert any(one.state == ACTIVE for one in told), told
    up = hypervisors(world)["local-1"]
    assert up.state == TO_DESTROY and up.cpu > 0 and up.ram > 0, up
    assert len(completed(create(world, "local-1"))) == 1
    completed(destroy(world, "local-1"))
    assert hypervisors(world)["local-1"].state == TO_CREATE
    assert len(completed(destroy(world, "local-1"))) == 1


@case("CreateHypervisor: one that is off is not up, and is brought up", STRATA)
def an_off_machine(world):
    completed(create(world, "local-2"))
    world.strata("machine", "power", "local-2", "off", "--force")
    wait("UNKNOWN", lambda: hypervisors(world)["local-2"].state == UNKNOWN)
    assert len(completed(create(world, "local-2"))) > 1
    assert hypervisors(world)["local-2"].state == TO_DESTROY
    completed(destroy(world, "local-2"))


@case("DestroyHypervisor: a stream that is dropped ends nothing", STRATA)
def a_dropped_stream(world):
    completed(create(world, "local-3"))
    stream = destroy(world, "local-3")
    assert next(stream).state == SCHEDULED
    stream.cancel()
    wait("it to be down", lambda: hypervisors(world)["local-3"].state == TO_CREATE)


@case("ExpandStorage.min_bytes, ShrinkStorage.max_bytes: what is no amount", STRATA)
def bad_amounts(world):
    for bad in [0, -1, -(2**31)]:
        refused(lambda: expand(world, bad), CODE.INVALID_ARGUMENT)
        refused(lambda: shrink(world, bad), CODE.INVALID_ARGUMENT)


@case("ShrinkStorage, ExpandStorage: what was asked, no more, and the message says it", STRATA, alone=True)
def any_amount(world):
    completed(expand(world, 1))
    before = pool_bytes(world)
    told = completed(shrink(world, 100_000_000))
    lost = before - pool_bytes(world)
    assert 0 < lost <= 100_000_000 and lost > 99_000_000, lost
    assert number(told[-1].msg) == lost, told
    before = pool_bytes(world)
    told = completed(expand(world, 50_000_000))
    gained = pool_bytes(world) - before
    assert 50_000_000 <= gained < 51_000_000, gained
    assert number(told[-1].msg) == gained, told


@case("two changes of the pool at once: one waits for the other", STRATA, alone=True)
def both_at_once(world):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = [
            pool.submit(lambda: completed(shrink(world, 20_000_000))),
            pool.submit(lambda: completed(expand(world, 10_000_000))),
        ]
        for one in both:
            one.result()


@case("ExpandStorage.min_bytes: more than there is", STRATA, alone=True)
def too_much(world):
    # The published field ends at 2 GB, which the spares have by default.
    while True:
        try:
            completed(expand(world, 2**31 - 1))
        except grpc.RpcError as error:
            assert error.code() == CODE.RESOURCE_EXHAUSTED, error
            assert str(2**31 - 1) in error.details(), error.details()
            break


@case("CreateBackup: COMPLETED is restorable, also after damage", STRATA, alone=True)
def backups(world):
    completed(backup(world))
    packs = [one for one in (world.data_dir / "backup/repository/data").rglob("*") if one.is_file()]
    assert packs
    for pack in packs:
        pathlib.Path(pack).chmod(0o600)
        bytes = bytearray(pack.read_bytes())
        bytes[len(bytes) // 2] ^= 1
        pack.write_bytes(bytes)
    completed(backup(world))
    world.strata("backup", "verify", "latest", "--percent", "100")
    world.strata("backup", "repair")
    world.strata("backup", "verify", "latest", "--percent", "100")


if __name__ == "__main__":
    main()
