"""A node written from the published documents alone: `scheduler.NodeService`
to register and report, the external REST API to learn which instances it has,
`controller.SchedulerService` to report how they are.

It runs what an instance's variable SCRIPT says as a process of its own: the
image of the suite does the same, so what instances do is the same on both
kinds of nodes.

What a status means for the node that reads it:

    SCHEDULED, STARTING    start it, then report STARTING and RUNNING
    STOPPING               stop it, then report STOPPED
    DESTROYING             remove it, then report TERMINATED
    not in the list        remove it
"""

import os
import queue
import signal
import subprocess
import threading

import published
from common import TIMEOUT, status_is, wait

s, s_grpc = published.stubs("scheduler")
c, c_grpc = published.stubs("controller")
# More than the nodes of the suite have: it fits on a node of a case alone.
BIG = 50_000


class Statuses:
    """The stream of NodeStatus: the latest one every second, until closed."""

    def __init__(self, stub, first):
        self.latest, self.more = first, queue.Queue()
        self.more.put(first)
        self.answer = stub.Status.future(self.send())

    def send(self):
        while True:
            try:
                status = self.more.get(timeout=0.5)
            except queue.Empty:
                status = self.latest
            if status is None:
                return
            self.latest = status
            yield status

    def report(self, status):
        self.more.put(status)

    def close(self):
        self.more.put(None)
        return self.answer.result(timeout=TIMEOUT)


class Process:
    """What runs of an instance here."""

    def __init__(self, script, environment, directory):
        log = open(os.path.join(directory, "log"), "ab")
        self.child = subprocess.Popen(
            ["/bin/sh", "-c", script],
            env={"PATH": os.environ["PATH"], **environment},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()

    def stop(self):
        for number, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, TIMEOUT)):
            try:
                os.killpg(self.child.pid, number)
            except ProcessLookupError:
                pass
            try:
                self.child.wait(seconds)
                return
            except subprocess.TimeoutExpired:
                continue


class SeedNode:
    """A node. `work=False`: it reports its status and does nothing else."""

    def __init__(self, world, name, cpu=4000, memory=4000, disk=100):
        self.world, self.name = world, name
        self.limit = s.ResourceSummary(cpu=cpu, memory=memory, disk=disk)
        channel = world.channel("node", name)
        self.nodes = s_grpc.NodeServiceStub(channel)
        self.pushes = c_grpc.SchedulerServiceStub(channel)
        self.rest = world.rest("node", name)
        self.certificate = (world.credentials("node", name) / "client.crt").read_text()
        self.processes, self.hosts = {}, {}
        self.subnet, self.statuses = "", None
        self.ended = threading.Event()
        self.worker = None

    def register(self):
        answer = self.nodes.Register(
            s.NodeRegisterRequest(certificate=self.certificate), timeout=TIMEOUT
        )
        assert answer.code == 0, answer
        self.subnet = answer.subnet
        return answer

    def status(self, state=s.RUNNING, description=""):
        usage = s.ResourceSummary(cpu=10, memory=10, disk=1)
        resource = s.Resource(limit=self.limit, usage=usage)
        return s.NodeStatus(
            id=self.name, status=state, statusDescription=description, resource=resource
        )

    def start(self, work=True):
        self.register()
        self.statuses = Statuses(self.nodes, self.status())
        if work:
            self.worker = threading.Thread(target=self.work, daemon=True)
            self.worker.start()
        return self

    def work(self):
        while not self.ended.wait(0.1):
            try:
                self.look()
            except Exception as error:  # The server may be away for a while.
                self.last_error = error

    def instances(self):
        return status_is(self.rest.get("/instance/?limit=1000"), 200)

    def look(self):
        listed = {one["id"]: one for one in self.instances()}
        for gone in set(self.processes) - set(listed):
            self.remove(gone)
        for id, one in listed.items():
            self.step(id, one)

    def step(self, id, one):
        running = self.processes.get(id)
        if one["status"] == "DESTROYING":
            self.remove(id)
            self.push(id, c.TERMINATED)
        elif one["status"] == "STOPPING":
            if running:
                running.stop()
            self.push(id, c.STOPPED)
        elif one["status"] in ("SCHEDULED", "STARTING"):
            if running and running.child.poll() is None:
                return self.push(id, c.RUNNING)
            self.run(id, one)
        elif one["status"] == "RUNNING" and running and running.child.poll() is not None:
            code = running.child.returncode
            how = f"exit {code}" if code >= 0 else f"killed by signal {-code}"
            self.push(id, c.TERMINATED if code == 0 else c.CRASHED, how)

    def run(self, id, one):
        directory = self.world.scratch / self.name / id
        directory.mkdir(parents=True, exist_ok=True)
        environment = dict(text.split("=", 1) for text in one["environment"])
        script = environment.get("SCRIPT", "trap exit TERM; while :; do sleep 60 & wait; done")
        self.push(id, c.STARTING)
        self.processes[id] = Process(script, environment, directory)
        self.push(id, c.RUNNING)
        self.measure(id, one)

    def measure(self, id, one):
        """Where it is reached and what it uses."""
        network = self.subnet.rsplit(".", 1)[0]
        host = self.hosts.setdefault(id, 10 + len(self.hosts) % 240)
        usage = c.ResourceSummary(cpu=7, memory=3, disk=0)
        listed = c.Instance(
            id=id,
            status=c.RUNNING,
            ip=f"{network}.{host}",
            resource=c.Resource(usage=usage),
        )
        self.pushes.setNodeStatus(
            c.NodeStatus(id=self.name, status=c.RUNNING, instances=[listed]), timeout=TIMEOUT
        )

    def remove(self, id):
        running = self.processes.pop(id, None)
        if running:
            running.stop()

    def push(self, id, state, description=""):
        self.pushes.setInstanceStatus(
            c.InstanceStatus(id=id, status=state, description=description), timeout=TIMEOUT
        )

    def stop(self, unregister=True):
        """Leaves: what it runs is gone with it."""
        if unregister and self.statuses:
            self.nodes.Unregister(s.NodeUnregisterRequest(id=self.name), timeout=TIMEOUT)
            wait("the node to leave", lambda: self.unregistered() or None)
        self.ended.set()
        if self.worker:
            self.worker.join(TIMEOUT)
        for id in list(self.processes):
            self.remove(id)
        if self.statuses:
            self.statuses.more.put(None)

    def unregistered(self):
        admin = self.world.rest()
        return admin.get(f"/node/{self.name}").status_code == 404


def leave(node):
    """Takes a node of a case away, whatever it said of itself."""
    node.ended.set()
    if node.statuses:
        node.statuses.report(node.status())
    node.nodes.Unregister(s.NodeUnregisterRequest(id=node.name), timeout=TIMEOUT)
    wait("the node to leave", node.unregistered)
    if node.statuses:
        node.statuses.more.put(None)
    for id in list(node.processes):
        node.remove(id)


def setup(world):
    if world.nodes == "published":
        world.node = SeedNode(world, "published-1", cpu=8000, memory=64000, disk=1000).start()
