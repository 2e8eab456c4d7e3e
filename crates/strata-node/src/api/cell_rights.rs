//! Which cells and executables a caller may have. A cell with the host's root,
//! network or cgroups, and a process with the user or group 0, are the host's
//! root by another name: they are for admins. All others get what a user of the
//! host has that owns nothing there, without its network: a private root, a
//! network of the cell's own, a user and groups that the host gives to no one
//! else. A private root has the host's files and devices below it, so the group
//! `disk` would be the host's disks, `shadow` its passwords.

use strata_identity::Caller;
use strata_types::{CellSpec, Error, ErrorKind, ExecutableSpec, Identity, Result, Role, RootMode};

use super::host_ids::HostIds;

/// Processes and threads of a cell whose caller is no admin and named no number.
const DEFAULT_PIDS: u64 = 4096;

/// Whether this caller may allocate such a cell. One that is no admin gets a
/// limit of processes and of memory where it named none: [`DEFAULT_PIDS`], and
/// half of the host's memory.
pub(super) fn may_allocate(caller: Option<&Caller>, spec: &mut CellSpec) -> Result<()> {
    if is_admin(caller) {
        return Ok(());
    }
    unprivileged_cell(spec)?;
    limit(spec, host_memory());
    Ok(())
}

fn limit(spec: &mut CellSpec, host_memory: u64) {
    let limits = &mut spec.limits;
    limits.pids_max.get_or_insert(DEFAULT_PIDS);
    let memory = &mut limits.memory;
    let named = memory.low.max(memory.high).unwrap_or(0);
    memory.max.get_or_insert(named.max(host_memory / 2));
}

fn host_memory() -> u64 {
    let memory = rustix::system::sysinfo();
    #[allow(
        clippy::useless_conversion,
        reason = "the width depends on the architecture"
    )]
    u64::from(memory.totalram).saturating_mul(u64::from(memory.mem_unit))
}

/// Whether this caller may end these cells, or allocate another inside them:
/// what it may not allocate it may not use.
pub(super) fn may_use<'a>(
    caller: Option<&Caller>,
    mut cells: impl Iterator<Item = &'a CellSpec>,
) -> Result<()> {
    match is_admin(caller) {
        true => Ok(()),
        false => cells.try_for_each(unprivileged_cell),
    }
}

/// Whether this caller may start or stop such an executable in such a cell,
/// which another may have allocated.
pub(super) fn may_start(
    caller: Option<&Caller>,
    cell: &CellSpec,
    spec: &ExecutableSpec,
) -> Result<()> {
    match is_admin(caller) {
        true => Ok(()),
        false => unprivileged_cell(cell)
            .and_then(|()| unprivileged_user(&spec.identity, &HostIds::read())),
    }
}

fn is_admin(caller: Option<&Caller>) -> bool {
    caller.is_some_and(|caller| caller.role == Role::Admin)
}

fn unprivileged_cell(spec: &CellSpec) -> Result<()> {
    let privileges = [
        ("a root other than private", spec.root != RootMode::Private),
        ("the network of the host", !spec.isolated_network),
        ("the cgroups of the host", spec.host_cgroups),
    ];
    let asked = privileges.into_iter().find(|(_, asked)| *asked);
    asked.map_or(Ok(()), |(what, _)| {
        let why = format!("cell {}: only an admin may use {what}", spec.name);
        let hint = "ask for a private root and an isolated network, or run a pod";
        Err(Error::new(ErrorKind::PermissionDenied, why).with_hint(hint))
    })
}

/// The group is the user's number where none is named.
fn unprivileged_user(identity: &Identity, host: &HostIds) -> Result<()> {
    let hint = format!(
        "name a user and groups by numbers that the host gives to no one, from {} to {}",
        HostIds::FIRST_FREE,
        HostIds::LAST_FREE
    );
    let refuse = |why: String| Err(Error::new(ErrorKind::PermissionDenied, why).with_hint(&*hint));
    let Some(uid) = identity.uid else {
        return refuse("only an admin may start an executable with the user 0".into());
    };
    let gid = identity.gid.unwrap_or(uid);
    let groups = identity.groups.iter().copied().chain([gid]);
    if !host.is_free_user(uid) {
        return refuse(format!(
            "only an admin may start an executable with the user {uid} of the host"
        ));
    }
    match groups.into_iter().find(|group| !host.is_free_group(*group)) {
        Some(group) => refuse(format!(
            "only an admin may start an executable with the group {group} of the host"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn private() -> CellSpec {
        let mut spec = CellSpec::named("web".parse().unwrap());
        (spec.root, spec.isolated_network) = (RootMode::Private, true);
        spec
    }

    #[test]
    fn cell_of_the_host_is_refused_for_each_privilege() {
        assert!(unprivileged_cell(&private()).is_ok());
        assert!(unprivileged_cell(&CellSpec::named("web".parse().unwrap())).is_err());
        for root in [
            RootMode::Host,
            RootMode::ReadOnly,
            RootMode::Directory("/srv".into()),
            RootMode::Handed,
        ] {
            let spec = CellSpec { root, ..private() };
            assert!(unprivileged_cell(&spec).is_err(), "{spec:?}");
        }
        let (mut network, mut cgroups) = (private(), private());
        network.isolated_network = false;
        cgroups.host_cgroups = true;
        for spec in [network, cgroups] {
            assert!(unprivileged_cell(&spec).is_err(), "{spec:?}");
        }
    }

    #[test]
    fn cell_without_limits_gets_those_of_its_caller() {
        const HOST: u64 = 8 << 30;
        let mut spec = private();
        limit(&mut spec, HOST);
        assert_eq!(spec.limits.pids_max, Some(DEFAULT_PIDS));
        assert_eq!(spec.limits.memory.max, Some(HOST / 2));
        assert!(host_memory() > 64 << 20);
        // What is named stays, and contradicts nothing.
        let mut named = private();
        named.limits.pids_max = Some(9);
        named.limits.memory.max = Some(1 << 20);
        let expected = named.limits.clone();
        limit(&mut named, HOST);
        assert_eq!(named.limits, expected);
        let mut high = private();
        high.limits.memory.high = Some(HOST);
        limit(&mut high, HOST);
        assert_eq!(high.limits.memory.max, Some(HOST));
    }

    #[test]
    fn identity_with_a_user_or_group_of_the_host_is_refused() {
        let host = HostIds::parse(
            "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n",
            "root:x:0:\ndisk:x:6:\nwheel:x:1999:ann\n",
        );
        let identity = |uid, gid, groups: &[u32]| Identity {
            uid,
            gid,
            groups: groups.to_vec(),
        };
        for (uid, gid, groups, allowed) in [
            (Some(2000), None, &[][..], true),
            (Some(2000), Some(2001), &[2002][..], true),
            (None, None, &[][..], false),
            (None, Some(2000), &[][..], false),
            (Some(0), Some(2000), &[][..], false),
            (Some(2000), Some(0), &[][..], false),
            (Some(2000), Some(2000), &[2001, 0][..], false),
            // Of the host: its disks, a person, her groups.
            (Some(2000), Some(6), &[][..], false),
            (Some(2000), None, &[6][..], false),
            (Some(1000), Some(2000), &[][..], false),
            (Some(2000), Some(1000), &[][..], false),
            (Some(2000), None, &[1999][..], false),
            // The group that the number of the user stands for.
            (Some(1999), None, &[][..], false),
            // Below what is free, whether it has a name or not.
            (Some(999), Some(2000), &[][..], false),
            (Some(2000), None, &[42][..], false),
            // Of systemd, of people's containers, of pods and virtual machines.
            (Some(61_200), Some(2000), &[][..], false),
            (Some(100_000), Some(2000), &[][..], false),
            (Some(1_000_000_000), Some(2000), &[][..], false),
            (Some(2000), None, &[(1 << 30) + 5][..], false),
            (Some(u32::MAX - 1), Some(2000), &[][..], false),
            (Some(65_534), None, &[][..], true),
        ] {
            let it = identity(uid, gid, groups);
            assert_eq!(unprivileged_user(&it, &host).is_ok(), allowed, "{it:?}");
        }
    }
}
