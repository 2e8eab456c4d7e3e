//! Which cgroup version this machine runs, read from its mounts.

use std::fs;
use std::path::PathBuf;

use super::{CgroupError, Hierarchy, V1_CONTROLLERS, V1_FURTHER};
use crate::HostPaths;

/// The mounts that count, v2 only when it carries the controllers.
pub(super) fn hierarchy(paths: &HostPaths) -> Result<Hierarchy, CgroupError> {
    let file = paths.proc.join("self/mountinfo");
    let mounts = fs::read_to_string(&file).map_err(|source| CgroupError::Io {
        what: "read",
        path: file,
        source,
    })?;
    let v2 = mounts
        .lines()
        .filter_map(mount)
        .find(|mount| mount.kind == "cgroup2");
    if let Some(v2) = v2 {
        let has = fs::read_to_string(v2.point.join("cgroup.controllers")).unwrap_or_default();
        if ["cpu", "memory", "pids"]
            .iter()
            .all(|need| has.split_whitespace().any(|c| c == *need))
        {
            return Ok(Hierarchy::V2(v2.point));
        }
    }
    let mut found = Vec::new();
    for controller in V1_CONTROLLERS.into_iter().chain(["cpuset"]) {
        let mounted = mounts
            .lines()
            .filter_map(mount)
            .find(|m| m.kind == "cgroup" && m.options.split(',').any(|o| o == controller));
        match mounted {
            Some(mount) => found.push((controller, mount.point)),
            None if ["cpu", "memory", "pids"].contains(&controller) => {
                return Err(CgroupError::Missing(controller));
            }
            None => {}
        }
    }
    Ok(Hierarchy::V1(found))
}

/// Hierarchies of v1 beyond those of cells.
pub(super) fn further(paths: &HostPaths) -> Vec<(&'static str, PathBuf)> {
    let mounts = fs::read_to_string(paths.proc.join("self/mountinfo")).unwrap_or_default();
    let mounted = |controller: &&'static str| {
        let has =
            |m: &Mount<'_>| m.kind == "cgroup" && m.options.split(',').any(|o| o == *controller);
        let found = mounts.lines().filter_map(mount).find(has)?;
        Some((*controller, found.point))
    };
    V1_FURTHER.iter().filter_map(mounted).collect()
}

struct Mount<'a> {
    point: PathBuf,
    kind: &'a str,
    options: &'a str,
}

/// One line of mountinfo: its fifth field, and what stands behind the dash.
fn mount(line: &str) -> Option<Mount<'_>> {
    let (front, back) = line.split_once(" - ")?;
    let point = front.split(' ').nth(4)?.replace("\\040", " ").into();
    let mut back = back.split(' ');
    let kind = back.next()?;
    let options = back.nth(1)?;
    Some(Mount {
        point,
        kind,
        options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(mountinfo: &str, controllers: Option<&str>) -> Result<Hierarchy, CgroupError> {
        let root = tempfile::tempdir().unwrap();
        let v2 = root.path().join("cg");
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::create_dir_all(&v2).unwrap();
        if let Some(controllers) = controllers {
            fs::write(v2.join("cgroup.controllers"), controllers).unwrap();
        }
        let text = mountinfo.replace("V2", v2.to_str().unwrap());
        fs::write(root.path().join("proc/self/mountinfo"), text).unwrap();
        hierarchy(&HostPaths {
            proc: root.path().join("proc"),
        })
    }

    const SPLIT: &str = "\
30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
34 30 0:30 / V2 rw - cgroup2 cgroup2 rw";

    #[test]
    fn a_v2_without_controllers_does_not_count() {
        let Hierarchy::V1(found) = detect(SPLIT, Some("hugetlb")).unwrap() else {
            panic!("took a v2 tree without controllers");
        };
        assert_eq!(
            found.iter().map(|f| f.0).collect::<Vec<_>>(),
            ["cpu", "memory", "pids"]
        );
    }

    #[test]
    fn a_v2_with_controllers_wins() {
        let found = detect(SPLIT, Some("cpuset cpu io memory pids\n")).unwrap();
        assert!(matches!(found, Hierarchy::V2(_)));
    }

    #[test]
    fn hierarchies_beyond_those_of_cells_are_found_for_machines() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let more = format!("{SPLIT}\n35 30 0:31 / /cg/freezer rw - cgroup cgroup rw,freezer");
        fs::write(root.path().join("proc/self/mountinfo"), more).unwrap();
        let found = further(&HostPaths {
            proc: root.path().join("proc"),
        });
        assert_eq!(found, [("freezer", "/cg/freezer".into())]);
    }

    #[test]
    fn missing_controllers_are_named() {
        let error = detect("", None).unwrap_err();
        assert!(error.to_string().contains("cpu"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn no_line_of_mountinfo_panics(line in ".{0,200}") {
            let _ = mount(&line);
        }
    }
}
