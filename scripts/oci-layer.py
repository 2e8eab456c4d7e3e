#!/usr/bin/env python3
"""Writes an OCI layout of two layers: a tar, and the upper directory of an
overlay with whiteouts, opaque directories, hard links and attributes.

    oci-layer.py LAYOUT BASE.tar UPPER CONFIG.json-text
"""

import hashlib
import io
import json
import os
import stat
import sys
import tarfile

OPAQUE = "trusted.overlay.opaque"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def layer(upper):
    """The tar of an upper directory."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for root, directories, files in os.walk(upper):
            directories.sort()
            below = os.path.relpath(root, upper)
            if below != "." and OPAQUE in os.listxattr(root):
                tar.addfile(tarfile.TarInfo(os.path.join(below, ".wh..wh..opq")))
            for name in sorted(files) + directories:
                add(tar, os.path.join(root, name), os.path.normpath(os.path.join(below, name)))
    return out.getvalue()


def add(tar, path, name):
    status = os.lstat(path)
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        gone = os.path.join(os.path.dirname(name), ".wh." + os.path.basename(name))
        tar.addfile(tarfile.TarInfo(gone))
        return
    info = tar.gettarinfo(path, name)
    if info is None:  # a socket
        return
    info.uname = info.gname = ""
    if not info.issym():
        for key in os.listxattr(path, follow_symlinks=False):
            if not key.startswith("trusted."):
                value = os.getxattr(path, key, follow_symlinks=False)
                text = value.decode("utf-8", "surrogateescape")
                info.pax_headers["SCHILY.xattr." + key] = text
    if info.isreg():
        with open(path, "rb") as file:
            tar.addfile(info, file)
    else:
        tar.addfile(info)


def main():
    layout, base, upper, config = sys.argv[1:]
    blobs = os.path.join(layout, "blobs/sha256")
    os.makedirs(blobs)

    def blob(content):
        digest = hashlib.sha256(content).hexdigest()
        with open(os.path.join(blobs, digest), "wb") as file:
            file.write(content)
        return {"digest": "sha256:" + digest, "size": len(content)}

    # The base is the same file for all of them.
    hashed = hashlib.sha256()
    with open(base, "rb") as file:
        while piece := file.read(1 << 20):
            hashed.update(piece)
    os.link(base, os.path.join(blobs, hashed.hexdigest()))
    lowest = {"digest": "sha256:" + hashed.hexdigest(), "size": os.path.getsize(base)}
    layers = [lowest, blob(layer(upper))]
    run = {"Env": [PATH], **json.loads(config)}
    image = {
        "os": "linux",
        "architecture": "amd64",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [one["digest"] for one in layers]},
    }
    kind = "application/vnd.oci.image."
    config = {"mediaType": kind + "config.v1+json", **blob(json.dumps(image).encode())}
    layers = [{"mediaType": kind + "layer.v1.tar", **one} for one in layers]
    manifest = {"schemaVersion": 2, "config": config, "layers": layers}
    manifest = {
        "mediaType": kind + "manifest.v1+json",
        "annotations": {"org.opencontainers.image.ref.name": "latest"},
        **blob(json.dumps(manifest).encode()),
    }
    with open(os.path.join(layout, "oci-layout"), "w") as file:
        file.write('{"imageLayoutVersion":"1.0.0"}')
    with open(os.path.join(layout, "index.json"), "w") as file:
        json.dump({"schemaVersion": 2, "manifests": [manifest]}, file)


main()
