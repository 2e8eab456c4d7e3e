"""Calls a node over its Unix socket as a stock client of gRPC's C core does.

    unix.py SOCKET

Nothing is said of the authority: the library makes it of the path of the
socket. Prints a line for each way; fails by an exception.
"""

import concurrent.futures
import sys

import grpc

SERVING = b"\x08\x01"


def drive(channel):
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    assert check(b"", timeout=60) == SERVING
    # What the client has in its table is had by number from now on, beside
    # headers that push it out of there.
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        calls = []
        for n in range(200):
            metadata = [(f"x-{n % 7}", f"{n}" * (n % 90 + 1))]
            calls.append(pool.submit(check, b"", timeout=60, metadata=metadata))
        assert all(call.result() == SERVING for call in calls)
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=60)
    assert next(watch) == SERVING
    watch.cancel()
    listed = channel.unary_unary("/runtime.Pods/List")(b"", timeout=60)
    assert listed == b"", listed
    try:
        channel.unary_unary("/runtime.CellService/Nothing")(b"", timeout=60)
        raise SystemExit("a call that is not there was answered")
    except grpc.RpcError as error:
        assert error.code() in (
            grpc.StatusCode.UNIMPLEMENTED,
            grpc.StatusCode.PERMISSION_DENIED,
        ), error


def main(socket):
    ways = [
        ("unix:PATH", f"unix:{socket}", []),
        ("unix://PATH", f"unix://{socket}", []),
        # As the client for Java has it.
        ("plain path", f"unix:{socket}", [("grpc.default_authority", socket)]),
        ("localhost", f"unix:{socket}", [("grpc.default_authority", "localhost")]),
    ]
    for name, target, options in ways:
        with grpc.insecure_channel(target, options=options) as channel:
            drive(channel)
        print(name)


main(sys.argv[1])
