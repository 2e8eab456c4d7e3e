"""Stubs from the text of the published documents, and from nothing else.

Two of the documents show protobuf in code blocks, with a few words that no
compiler knows (`[] Instance`, `int`). The other three are tables that a
generator wrote: they have no field numbers, so numbers follow the order of the
table from 1.
"""

import functools
import importlib
import pathlib
import re
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).parent / "published"
# By the published service: this number is not used.
SKIPPED = {"GetClusterNodesStatusReply.MachineStatus": 3}
SCALARS = {"bool", "bytes", "double", "float", "int32", "int64", "string", "uint32", "uint64"}
COMPILING = threading.Lock()


def read(name):
    return (HERE / name).read_text(encoding="utf-8")


def from_blocks(text, package):
    """The code blocks of a document as one file."""
    lines = ['syntax = "proto3";', f"package {package};", 'import "google/protobuf/empty.proto";']
    for block in re.findall(r"```protobuf\n(.*?)```", text, re.DOTALL):
        block = re.sub(r"\[\]\s*(\w+)", r"repeated \1", block)
        lines.append(re.sub(r"\bint\b", "int32", block))
    return {package: "\n".join(lines)}


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def type_of(cell):
    """The type a table's cell links to, and whether it is a stream."""
    name, link = re.match(r"\[([^\]]+)\]\(#([^)]*)\)", cell).groups()
    return name, link, cell.endswith("stream")


def from_tables(text):
    """The tables of a document: one file for each package."""
    files = {}
    package, entry = None, None
    for line in text.splitlines():
        if line.startswith("## ") or line.startswith("# "):
            package, entry = None, None
        anchor = re.match(r'<a name="([^"]+)"></a>', line)
        if anchor:
            package = anchor.group(1)
            continue
        if line.startswith("### ") and package:
            name = line[4:].strip()
            found = re.match(rf"(.+)[.-]{re.escape(name)}$", package)
            if not found:
                entry = None
                continue
            entry = {"name": name, "kind": None, "rows": []}
            files.setdefault(found.group(1).replace("-", "."), []).append(entry)
        elif line.startswith("| ") and entry:
            row = cells(line)
            if entry["kind"] is None:
                entry["kind"] = row[0]
            elif not row[0].startswith("---"):
                entry["rows"].append(row)
    return {name: proto(name, entries) for name, entries in files.items()}


def proto(package, entries):
    lines = ['syntax = "proto3";', f"package {package};"]
    outer = [entry for entry in entries if "." not in entry["name"]]
    for entry in outer:
        if entry["kind"] == "Name":
            lines.append(f"enum {entry['name']} {{")
            lines += [f"  {row[0]} = {row[1]};" for row in entry["rows"]]
            lines.append("}")
        elif entry["kind"] == "Method Name":
            lines.append(f"service {entry['name']} {{")
            for row in entry["rows"]:
                (asked, _, up), (answered, _, down) = type_of(row[1]), type_of(row[2])
                asked, answered = ("stream " * up) + asked, ("stream " * down) + answered
                lines.append(f"  rpc {row[0]} ({asked}) returns ({answered});")
            lines.append("}")
        else:
            within = [one for one in entries if one["name"].startswith(entry["name"] + ".")]
            lines += message(entry, within)
    return "\n".join(lines)


def message(entry, within=()):
    lines = [f"message {entry['name'].rsplit('.', 1)[-1]} {{"]
    for inner in within:
        lines += message(inner)
    number = 0
    for row in entry["rows"]:
        number += 1
        number += number == SKIPPED.get(entry["name"])
        name, _, _ = type_of(row[1])
        label = "repeated " if row[2] == "repeated" else ""
        lines.append(f"  {label}{name.rsplit('.', 1)[-1] if name not in SCALARS else name} {row[0]} = {number};")
    return lines + ["}"]


def files():
    """Every package of the five documents, as the text of a .proto file."""
    return {
        **from_blocks(read("000_scheduler.md"), "scheduler"),
        **from_blocks(read("001_controller.md"), "controller"),
        **from_tables(read("002_clusters.md")),
        **from_tables(read("003_runtime.md")),
        **from_tables(read("004_operations.md")),
    }


@functools.cache
def compiled():
    """The directory with the stubs of all packages."""
    import grpc_tools
    from grpc_tools import protoc

    out = tempfile.mkdtemp(prefix="conformance-")
    words = ["protoc", f"-I{out}", f"-I{pathlib.Path(grpc_tools.__file__).parent / '_proto'}"]
    words += [f"--python_out={out}", f"--grpc_python_out={out}"]
    for package, text in files().items():
        name = f"published_{package.replace('.', '_')}.proto"
        (pathlib.Path(out) / name).write_text(text)
        words.append(name)
    if protoc.main(words) != 0:
        raise SystemExit("the published documents do not compile")
    sys.path.insert(0, out)
    return out


def stubs(package):
    """Messages and services of a package: two modules."""
    with COMPILING:
        compiled()
        name = f"published_{package.replace('.', '_')}_pb2"
        return importlib.import_module(name), importlib.import_module(name + "_grpc")


if __name__ == "__main__":
    for _, text in sorted(files().items()):
        print(text, end="\n\n")
