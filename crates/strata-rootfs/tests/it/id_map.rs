//! A pod in a user namespace: its root is uid 0 on the disk, and the shared
//! layers are used unchanged.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use strata_rootfs::{BindOptions, RootOptions, bind};

use crate::world::{World, picture, run, wait_until};

/// A process that does nothing, in a user namespace whose ids begin at 100000.
struct UserNamespace(Child);

impl UserNamespace {
    fn new() -> Self {
        let child = Command::new("unshare")
            .args(["--user", "sh", "-c", "echo; read nothing"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let own = fs::read_link("/proc/self/ns/user").unwrap();
        let link = format!("/proc/{}/ns/user", child.id());
        wait_until(
            "the process has its own user namespace",
            || match fs::read_link(&link) {
                Ok(namespace) if namespace != own => Ok(()),
                other => Err(format!("{other:?}")),
            },
        );
        for map in ["uid_map", "gid_map"] {
            fs::write(format!("/proc/{}/{map}", child.id()), "0 100000 65536").unwrap();
        }
        Self(child)
    }

    fn file(&self) -> File {
        File::open(format!("/proc/{}/ns/user", self.0.id())).unwrap()
    }

    /// Runs a shell as this user of the namespace, in the thread's mounts.
    fn sh(&self, uid: u32, dir: &Path, script: &str) -> String {
        let namespace = format!("--user=/proc/{}/ns/user", self.0.id());
        let uid = uid.to_string();
        let script = format!("cd '{}' && {script}", dir.display());
        run(
            "nsenter",
            &[&namespace, "-S", &uid, "-G", &uid, "sh", "-ec", &script],
        )
    }
}

impl Drop for UserNamespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ids(path: &Path) -> (u32, u32) {
    let status = fs::symlink_metadata(path).unwrap();
    (status.uid(), status.gid())
}

#[test]
fn root_in_the_namespace_is_root_on_the_disk() {
    let world = World::new();
    let layer = world.layer("one", &[("etc/conf", "image"), ("home/user/file", "")]);
    std::os::unix::fs::chown(layer.join("home/user/file"), Some(1000), Some(1000)).unwrap();
    let before = picture(&layer);
    // One behind a link, and one with a path longer than a setting may be.
    world.layer("two", &[("two", "")]);
    std::os::unix::fs::symlink(world.path("layers"), world.path("link")).unwrap();
    let name = format!("{}/{}", "long".repeat(40), "path".repeat(40));
    let three = world.layer(&name, &[("three", "")]);
    let layers = [layer.clone(), world.path("link/two"), three];
    let namespace = UserNamespace::new();
    let user = namespace.file();
    let roots = world.roots();
    for (id, disk) in [("plain", None), ("limited", Some(16_000_000))] {
        roots.create(id, disk).unwrap();
        let options = RootOptions {
            id_map: Some(user.as_fd()),
            ..RootOptions::default()
        };
        let mount = roots.mount(id, &layers, options).unwrap();
        world.inside(mount, |root| {
            let seen = namespace.sh(0, root, "stat -c %u:%g . etc/conf home/user/file two three");
            assert_eq!(seen, "0:0\n0:0\n1000:1000\n0:0\n0:0\n");
            namespace.sh(
                0,
                root,
                "echo pod > etc/conf; mkdir new; chown 33:33 new; rm -r home",
            );
            namespace.sh(33, root, "echo data > new/file; ! echo x > etc/conf");
            let seen = namespace.sh(0, root, "stat -c %u:%g etc/conf new new/file; cat etc/conf");
            assert_eq!(seen, "0:0\n33:33\n33:33\npod\n");
            // As the host sees the mounted root.
            assert_eq!(ids(&root.join("new/file")), (100_033, 100_033));
        });
    }
    let upper = world.path("roots/plain/upper");
    assert_eq!(ids(&upper.join("etc/conf")), (0, 0));
    assert_eq!(ids(&upper.join("new/file")), (33, 33));
    assert_eq!(picture(&layer), before);
}

#[test]
fn a_volume_keeps_its_owners() {
    let world = World::new();
    let volume = world.layer("volume", &[("file", "host")]);
    let namespace = UserNamespace::new();
    let user = namespace.file();
    let options = BindOptions {
        id_map: Some(user.as_fd()),
        ..BindOptions::default()
    };
    world.inside(bind(&volume, options).unwrap(), |inside| {
        assert_eq!(
            namespace.sh(0, inside, "echo pod > file; : > new; stat -c %u file"),
            "0\n"
        );
    });
    assert_eq!(fs::read_to_string(volume.join("file")).unwrap(), "pod\n");
    assert_eq!(ids(&volume.join("new")), (0, 0));
}
