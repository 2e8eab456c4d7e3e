//! What pods hold of what they share with others, found again after a restart
//! and requested in between.

use strata_types::Result;

use super::{PodRef, Pods};
use crate::images::ImageUse;
use crate::network::project_of;

impl Pods {
    /// Finds all pods again.
    pub(crate) async fn open(self) -> Result<Self> {
        for record in self.recover().await? {
            self.kind().hold(&record);
        }
        Ok(self)
    }

    /// Images that pods are made of.
    pub(crate) fn images_in_use(&self) -> Vec<ImageUse> {
        let used = |pod: PodRef| {
            let record = pod.record();
            let digest = record.allocated.image_digest.parse().ok()?;
            let by = format!("pod {}", record.spec.name);
            let project = project_of(&record.spec.labels);
            Some(ImageUse {
                digest,
                by,
                project,
            })
        };
        self.list().into_iter().filter_map(used).collect()
    }
}
