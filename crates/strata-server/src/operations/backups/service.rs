//! The rules of backups for those who request one, a restore, a verification
//! or a prune: what is refused before an operation begins.

use strata_api::rest::{PruneKept, PrunePlan};
use strata_backup::{BackupError, Repository};
use strata_types::backup::{Backup, RestoreRequest, Retention};
use strata_types::{Error, Label, Result};

use super::{BackupInput, Backups, PruneInput, RestoreInput, VerifyInput};
use crate::core::Core;

/// How much of a backup is verified. Default: 5 %.
const SAMPLE_PERCENT: u8 = 5;

impl Backups {
    fn repository(&self) -> Result<&Repository> {
        Ok(&self.target()?.repository)
    }

    /// All backups; none where there is no repository yet.
    pub(crate) async fn list(&self) -> Result<Vec<Backup>> {
        match self.repository()?.list().await {
            Err(BackupError::NoRepository { .. }) => Ok(Vec::new()),
            other => Ok(other?),
        }
    }

    /// One backup, by its id or the beginning of it.
    pub(crate) async fn get(&self, id: &str) -> Result<Backup> {
        Ok(self.repository()?.get(id).await?)
    }

    /// The backup that may begin.
    pub(crate) fn check_create(&self, input: BackupInput) -> Result<BackupInput> {
        if input.bytes_per_second == Some(0) {
            return Err(Error::invalid("bytesPerSecond", "must be more than 0"));
        }
        self.target()?;
        Ok(input)
    }

    /// The restore that may begin. A volume that exists is restored only with
    /// `replace`, while no instance runs on it.
    pub(crate) async fn check_restore(
        &self,
        core: &Core,
        id: &str,
        what: RestoreRequest,
    ) -> Result<RestoreInput> {
        check_request(&what)?;
        let backup = self.get(id).await?;
        if !what.volume.is_empty() && !backup.volumes.contains(&what.volume) {
            let (volume, has) = (&what.volume, backup.volumes.join(", "));
            let why = format!("the backup has no volume {volume}; it has {has}");
            return Err(Error::not_found(why).in_field("volume"));
        }
        // A path is restored into the volume as it is.
        if what.path.is_empty() {
            for volume in targets(&what, &backup.volumes) {
                match what.replace {
                    true => core.ensure_volume_not_running(&volume)?,
                    false => self.ensure_free(&volume).await?,
                }
            }
        }
        let backup = backup.id;
        Ok(RestoreInput { backup, what })
    }

    /// Refuses to restore onto a volume that exists.
    async fn ensure_free(&self, volume: &str) -> Result<()> {
        let Some(pool) = self.storage.existing().await? else {
            return Ok(());
        };
        let existing = pool.volumes().await?;
        if existing.iter().all(|one| one.name != *volume) {
            return Ok(());
        }
        let why = format!("there is a volume {volume}: use replace, or another name");
        Err(Error::already_exists(why).with_hint(
            "say replace (--replace) to put it in its place, or as (--as) for another name",
        ))
    }

    /// The verification that may begin.
    pub(crate) async fn check_verify(&self, id: &str, percent: Option<u8>) -> Result<VerifyInput> {
        let percent = percent.unwrap_or(SAMPLE_PERCENT);
        if !(1..=100).contains(&percent) {
            return Err(Error::invalid("percent", "must be 1 to 100"));
        }
        let backup = self.get(id).await?.id;
        Ok(VerifyInput { backup, percent })
    }

    /// The prune that may begin: by the rules given, or the configured ones.
    pub(crate) fn check_prune(&self, keep: Option<Retention>) -> Result<PruneInput> {
        let keep = keep.unwrap_or(self.target()?.keep);
        if keep.keeps_all() {
            let error = Error::invalid("keep", "keeps everything: give at least one rule");
            return Err(
                error.with_hint("for example --keep-last 7, or [backup] in the configuration")
            );
        }
        Ok(PruneInput { keep })
    }

    /// What a prune would keep, by which rule, and what it would remove.
    pub(crate) async fn plan_prune(&self, input: &PruneInput) -> Result<PrunePlan> {
        let plan = self.repository()?.plan_prune(&input.keep).await?;
        let keep = plan.keep.into_iter().map(|one| PruneKept {
            id: one.id,
            because: one.because.iter().map(|&rule| rule.to_owned()).collect(),
        });
        Ok(PrunePlan {
            keep: keep.collect(),
            forget: plan.forget,
        })
    }
}

fn check_request(what: &RestoreRequest) -> Result<()> {
    if what.volume.is_empty() && !(what.path.is_empty() && what.as_name.is_empty()) {
        return Err(Error::invalid("volume", "must be given with path or as"));
    }
    let odd = |part: &str| part.is_empty() || part == "." || part == "..";
    if !what.path.is_empty() && what.path.trim_matches('/').split('/').any(odd) {
        let why = "is not a path from the root of the volume";
        return Err(Error::invalid("path", why));
    }
    if !what.as_name.is_empty() {
        Label::from_field("as", &what.as_name)?;
    }
    Ok(())
}

/// The volumes that a restore writes.
fn targets(what: &RestoreRequest, volumes: &[String]) -> Vec<String> {
    match (what.as_name.as_str(), what.volume.as_str()) {
        ("", "") => volumes.to_vec(),
        ("", volume) => vec![volume.to_owned()],
        (name, _) => vec![name.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(volume: &str, path: &str, as_name: &str) -> RestoreRequest {
        RestoreRequest {
            volume: volume.into(),
            path: path.into(),
            as_name: as_name.into(),
            ..RestoreRequest::default()
        }
    }

    #[test]
    fn restore_request_names_a_volume_and_a_path_in_it() {
        let field = |volume, path, as_name| {
            let checked = check_request(&request(volume, path, as_name));
            checked.err().map(|error| error.field().map(str::to_owned))
        };
        for (volume, path, as_name) in [
            ("", "", ""),
            ("v", "", ""),
            ("v", "", "w"),
            ("v", "/a/b/", ""),
            ("v", "a", "w"),
        ] {
            assert_eq!(field(volume, path, as_name), None, "{volume} {path}");
        }
        assert_eq!(field("", "a", ""), Some(Some("volume".into())));
        assert_eq!(field("", "", "w"), Some(Some("volume".into())));
        for path in ["/", "a/../b", "./a", "a//b"] {
            assert_eq!(field("v", path, ""), Some(Some("path".into())), "{path}");
        }
        assert_eq!(field("v", "", "a/b"), Some(Some("as".into())));
    }

    #[test]
    fn restore_writes_all_volumes_one_or_one_by_another_name() {
        let volumes = ["v".to_owned(), "w".to_owned()];
        assert_eq!(targets(&request("", "", ""), &volumes), ["v", "w"]);
        assert_eq!(targets(&request("v", "", ""), &volumes), ["v"]);
        assert_eq!(targets(&request("v", "", "x"), &volumes), ["x"]);
    }
}
