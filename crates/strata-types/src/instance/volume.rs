//! Volumes as people write them: `data:/var/lib/x`, `/srv/www:/www:ro`,
//! `memory=64:/tmp` (in MB), `pool=data:/var/lib/x`. A virtual machine mounts
//! nothing; what it can have is a disk of the pool, `pool=data`.

use super::{InstanceKind, InstanceSpec};
use crate::pod::{Volume, VolumeSource};
use crate::{Error, Label};

/// What the volumes of projects other than the default one begin with on nodes.
pub const PROJECT_VOLUME: &str = "p--";

/// Reads a volume from the field `field` of a request.
pub(super) fn volume(field: &str, text: &str) -> Result<Volume, Error> {
    let form = "is not a volume: expected one such as data:/var/lib/x, /srv/www:/www:ro, memory=64:/tmp \
        or pool=data:/var/lib/x";
    let bad = || bad(field, text, form);
    let (rest, read_only) = without_ro(text);
    let (source, target) = rest.split_once(':').ok_or_else(bad)?;
    let source = match source.split_once('=') {
        Some(("memory", megabytes)) => {
            let megabytes: u64 = megabytes.parse().map_err(|_| bad())?;
            VolumeSource::Memory(megabytes.saturating_mul(1_000_000))
        }
        Some(("pool", name)) => VolumeSource::Pool(own_name(field, text, name, form)?),
        _ if source.starts_with('/') => VolumeSource::Directory(source.to_owned()),
        _ => VolumeSource::Named(own_name(field, text, source, form)?),
    };
    let volume = Volume {
        source,
        target: target.to_owned(),
        read_only,
    };
    volume.check(field)?;
    Ok(volume)
}

fn bad(field: &str, text: &str, why: &str) -> Error {
    let shown: String = text.chars().take(80).collect();
    Error::invalid(field, format!("{shown:?} {why}"))
}

fn without_ro(text: &str) -> (&str, bool) {
    match text.strip_suffix(":ro") {
        Some(rest) => (rest, true),
        None => (text, false),
    }
}

/// A name that people give.
fn own_name(field: &str, text: &str, name: &str, form: &str) -> Result<Label, Error> {
    if name.starts_with(PROJECT_VOLUME) {
        let why = "begins as the volumes of projects do on nodes";
        return Err(bad(field, text, why));
    }
    name.parse().map_err(|_| bad(field, text, form))
}

/// A volume of the pool that a virtual machine has as a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolDisk {
    /// The volume, as its project calls it.
    pub name: Label,
    /// The machine cannot change it.
    pub read_only: bool,
}

impl InstanceSpec {
    /// The disks of the pool that a virtual machine has; none for a container.
    pub fn pool_disks(&self) -> Result<Vec<PoolDisk>, Error> {
        if self.kind != InstanceKind::Vm {
            return Ok(Vec::new());
        }
        let form = "is nothing that a VM has: its volumes are disks of the pool, such as pool=data";
        let mut disks: Vec<PoolDisk> = Vec::with_capacity(self.volumes.len());
        for (i, text) in self.volumes.iter().enumerate() {
            let field = format!("volumes[{i}]");
            let (rest, read_only) = without_ro(text);
            let name = rest
                .strip_prefix("pool=")
                .ok_or_else(|| bad(&field, text, form))?;
            let name = own_name(&field, text, name, form)?;
            if disks.iter().any(|other| other.name == name) {
                return Err(bad(&field, text, "is there twice"));
            }
            disks.push(PoolDisk { name, read_only });
        }
        Ok(disks)
    }

    /// The volumes of the pool that it has, as its project calls them. What
    /// cannot be read is none.
    pub fn pool_volumes(&self) -> Vec<Label> {
        if self.kind == InstanceKind::Vm {
            let disks = self.pool_disks().unwrap_or_default();
            return disks.into_iter().map(|disk| disk.name).collect();
        }
        let of_pool = |volume: Volume| match volume.source {
            VolumeSource::Pool(name) => Some(name),
            _ => None,
        };
        let volumes = self.mounts().unwrap_or_default();
        volumes.into_iter().filter_map(of_pool).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_read_as_people_write_them() {
        let read = |text| volume("volumes[0]", text);
        let data = read("data:/var/lib/x").unwrap();
        assert!(matches!(data.source, VolumeSource::Named(_)) && !data.read_only);
        let www = read("/srv/www:/www:ro").unwrap();
        assert_eq!(www.source, VolumeSource::Directory("/srv/www".into()));
        assert!(www.read_only);
        assert_eq!(
            read("memory=64:/tmp").unwrap().source,
            VolumeSource::Memory(64_000_000)
        );
        let pool = read("pool=data:/var/lib/x:ro").unwrap();
        assert_eq!(pool.source, VolumeSource::Pool("data".parse().unwrap()));
        assert!(pool.read_only);
        assert_eq!(pool.to_string(), "pool=data:/var/lib/x:ro");
        for bad in [
            "pool=data",
            "pool=:/x",
            "pool=A:/x",
            "pool=../x:/x",
            "pool=p--0:/x",
            "other=a:/x",
            "",
            "data",
            "data:x",
            "A:/x",
            "memory=x:/t",
            ":/x",
            "data:/proc",
            "a:/..",
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_virtual_machine_has_disks_of_the_pool_and_nothing_else() {
        let vm = |volumes: &[&str]| InstanceSpec {
            kind: InstanceKind::Vm,
            uri: "/srv/images/debian.qcow2".into(),
            volumes: volumes.iter().map(ToString::to_string).collect(),
            ..InstanceSpec::default()
        };
        let spec = vm(&["pool=data", "pool=fixed:ro"]);
        spec.check().unwrap();
        let disks = spec.pool_disks().unwrap();
        let told: Vec<_> = disks
            .iter()
            .map(|d| (d.name.as_str(), d.read_only))
            .collect();
        assert_eq!(told, [("data", false), ("fixed", true)]);
        assert_eq!(spec.pool_volumes().len(), 2);
        for bad in [
            "data:/x",
            "/srv:/x",
            "pool=data:/x",
            "pool=p--1",
            "pool=",
            "",
        ] {
            let error = vm(&[bad]).check().unwrap_err();
            assert_eq!(error.field(), Some("volumes[0]"), "{bad:?}");
        }
        assert!(vm(&["pool=a", "pool=a:ro"]).check().is_err());
    }

    #[test]
    fn instance_volumes_tell_whether_the_pool_is_needed() {
        let with = |volumes: &[&str]| InstanceSpec {
            uri: "x".into(),
            volumes: volumes.iter().map(ToString::to_string).collect(),
            ..InstanceSpec::default()
        };
        assert!(
            with(&["data:/x", "memory=64:/tmp"])
                .pool_volumes()
                .is_empty()
        );
        let names = with(&["data:/x", "pool=a:/y"]).pool_volumes();
        assert_eq!(names, ["a".parse::<Label>().unwrap()]);
        assert!(!with(&["pool=a:/y"]).reaches_the_machine());
    }
}
