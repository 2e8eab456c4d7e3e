"""Conformance with the document of operations (package `operations.v1`)."""

import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import uuid

import grpc

import published
from common import CODE, TIMEOUT, case, main, refused, status_is, wait

o, o_grpc = published.stubs("operations.v1")
s, s_grpc = published.stubs("scheduler")

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


def operations(world):
    """Every operation as REST shows it, by id."""
    listed = status_is(world.rest().get("/operation/?limit=1000"), 200)
    return {one["id"]: one for one in listed}


def waited_for(world, stream, kinds):
    """The operation that the first message of a stream says it waits for."""
    first = next(stream)
    assert first.state == SCHEDULED, first
    found = re.fullmatch(r"it waits for operation (\S+)", first.msg)
    assert found, first
    other = operations(world)[found.group(1)]
    assert other["kind"] in kinds, other
    return other


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
        refused(lambda: create(world, bad), CODE.NOT_FOUND)
        refused(lambda: destroy(world, bad), CODE.NOT_FOUND)


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


def daemons_of(world, machine):
    """The processes of the node that runs in a nested node of this world."""
    run = (world.data_dir / "node/run").read_text().strip()
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            groups = (process / "cgroup").read_text()
        except OSError:
            continue
        if f"/{run}/" not in groups or b"node" not in words:
            continue
        look = ["nsenter", "-t", process.name, "-u", "hostname"]
        if subprocess.run(look, capture_output=True, text=True).stdout.strip() == machine:
            found.append(int(process.name))
    return found


@case("Hypervisor.state: one whose node is silent is UNKNOWN, and is brought up again", STRATA, alone=True)
def a_lost_machine(world):
    completed(create(world, "local-3"))
    daemons = daemons_of(world, "local-3")
    assert daemons, "its node runs somewhere"
    for pid in daemons:
        os.kill(pid, signal.SIGSTOP)
    wait("UNKNOWN", lambda: hypervisors(world)["local-3"].state == UNKNOWN)
    assert len(completed(create(world, "local-3"))) > 1
    assert hypervisors(world)["local-3"].state == TO_DESTROY
    assert not set(daemons_of(world, "local-3")) & set(daemons), "it was started again"
    completed(destroy(world, "local-3"))


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
    completed(expand(world, 1))
    for _ in range(10):
        both = shrink(world, 2_000_000), expand(world, 1_000_000)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            told = list(pool.map(completed, both))
        waited = [all[0].msg for all in told if "waits" in all[0].msg]
        if waited:
            break
    # The later one, unless the earlier one had ended before it came.
    assert len(waited) == 1, told
    id = re.fullmatch(r"it waits for operation (\S+)", waited[0]).group(1)
    assert operations(world)[id]["kind"] in ("storage-shrink", "storage-expand"), waited


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
    # Packs, which hold the data, and indexes, which every backup reads.
    for kind in ["data", "index"]:
        files = [one for one in (world.data_dir / "backup/repository" / kind).rglob("*") if one.is_file()]
        assert files, kind
        for path in files:
            pathlib.Path(path).chmod(0o600)
            bytes = bytearray(path.read_bytes())
            bytes[len(bytes) // 2] ^= 1
            path.write_bytes(bytes)
        completed(backup(world))
        world.strata("backup", "verify", "latest", "--percent", "100")
    world.strata("backup", "repair")
    world.strata("backup", "verify", "latest", "--percent", "100")


@case("CreateHypervisor: several at once wait their turn, and all are up", STRATA, alone=True)
def several_at_once(world):
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        ids = ["local-1", "local-2", "local-3"]
        list(pool.map(lambda id: completed(create(world, id)), ids))
        assert {hypervisors(world)[id].state for id in ids} == {TO_DESTROY}
        # Of one machine: the next says which one it waits for, until that ends.
        first = destroy(world, "local-1")
        assert next(first).state == SCHEDULED
        second = create(world, "local-1")
        other = waited_for(world, second, ["hypervisor-destroy"])
        assert "machine/local-1" in other["about"], other
        assert list(first)[-1].state == COMPLETED
        assert list(second)[-1].state == COMPLETED
        assert hypervisors(world)["local-1"].state == TO_DESTROY
        list(pool.map(lambda id: completed(destroy(world, id)), ids))
    assert {hypervisors(world)[id].state for id in ids} == {TO_CREATE}


@case("CreateHypervisor: one whose node was unregistered is not up, and is brought up", STRATA, alone=True)
def an_unregistered_machine(world):
    completed(create(world, "local-1"))
    admin = s_grpc.NodeServiceStub(world.channel())
    admin.Unregister(s.NodeUnregisterRequest(id="local-1"), timeout=TIMEOUT)
    wait("UNKNOWN", lambda: hypervisors(world)["local-1"].state == UNKNOWN)
    assert len(completed(create(world, "local-1"))) > 1
    assert hypervisors(world)["local-1"].state == TO_DESTROY
    completed(destroy(world, "local-1"))


@case("Hypervisor.capabilities: STORAGE follows the pool, also of one that was up before it", STRATA, alone=True)
def storage_capability(world):
    completed(create(world, "local-1"))
    completed(expand(world, 1))
    has = lambda: o.HYPERVISOR_CAPABILITIES_STORAGE in hypervisors(world)["local-1"].capabilities
    wait("STORAGE", has)
    completed(destroy(world, "local-1"))


@case("Machines of a provider that is not configured are refused, and not offered", STRATA)
def unknown_provider(world):
    id = f"rack-{uuid.uuid4().hex[:8]}"
    added = world.strata("machine", "add", id, "--provider", "redfish", "--address", "https://192.0.2.7", check=False)
    assert added.returncode != 0 and "redfish" in added.stderr, added
    assert id not in hypervisors(world)


@case("ShrinkStorage.max_bytes: all that can be given back is, and then no more, with the figures", STRATA, alone=True)
def shrink_to_the_least(world):
    completed(expand(world, 1))
    shrunk = 0
    while True:
        before = pool_bytes(world)
        try:
            told = completed(shrink(world, 2**31 - 1))
        except grpc.RpcError as error:
            assert error.code() == CODE.FAILED_PRECONDITION, error
            assert re.search(r"\d+ bytes are used", error.details()), error.details()
            break
        lost = before - pool_bytes(world)
        assert number(told[-1].msg) == lost and lost <= 2**31 - 1, told
        if lost == 0:
            break
        shrunk += lost
    assert shrunk > 5_000_000_000, shrunk
    assert pool_bytes(world) < 3_000_000_000, pool_bytes(world)
    completed(expand(world, 500_000_000))


@case("CreateBackup: several at once wait their turn; a dropped stream ends nothing", STRATA, alone=True)
def backups_at_once(world):
    dropped = backup(world)
    next(dropped)
    dropped.cancel()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: completed(backup(world)), range(3)))
    listed = status_is(world.rest().get("/backup/"), 200)
    assert len(listed) >= 4, listed


@case("Operations over REST: the same ones, with their state and their steps", STRATA, alone=True)
def operations_over_rest(world):
    rest, known = world.rest(), operations(world)
    told = completed(create(world, "local-2"))
    fresh = [one for id, one in operations(world).items() if id not in known]
    assert [(one["kind"], one["status"]) for one in fresh] == [("hypervisor-create", "COMPLETED")], fresh
    one = fresh[0]
    assert "machine/local-2" in one["about"] and one["endedAt"] >= one["createdAt"], one
    # The steps that the stream named, all of them done, in the same order.
    steps = [step["name"] for step in one["steps"]]
    assert len(steps) >= 4 and {step["phase"] for step in one["steps"]} == {"done"}, one
    streamed = [one.msg.removesuffix(": done") for one in told if one.msg.endswith(": done")]
    assert streamed == steps, (streamed, steps)
    assert status_is(rest.get(f"/operation/{one['id']}"), 200) == one
    log = status_is(rest.get(f"/operation/{one['id']}/log"), 200)
    assert log and all(entry for entry in log), log
    completed(destroy(world, "local-2"))


if __name__ == "__main__":
    main()
