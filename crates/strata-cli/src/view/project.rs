//! A project as it is printed. JSON and YAML are the REST API's own.

use jiff::Timestamp;
use strata_api::rest::Project;

use super::{Watched, time};
use crate::output::{Column, Show, TableCell, human};

/// What is used of what there may be; without a limit only what is used.
fn share(used: i64, limit: Option<i64>, words: fn(i64) -> String) -> TableCell {
    let words = |n: i64| if n == 0 { "0".to_owned() } else { words(n) };
    match limit {
        Some(limit) => format!("{}/{}", words(used), words(limit)).into(),
        None => words(used).into(),
    }
}

impl Show for Project {
    fn reference(&self) -> String {
        format!("project/{}", self.name)
    }

    fn columns(_: bool) -> Vec<Column> {
        vec![
            Column::new("NAME"),
            Column::figures("INSTANCES"),
            Column::figures("CPU"),
            Column::figures("MEMORY"),
            Column::figures("DISK"),
            Column::new("AGE"),
        ]
    }

    fn row(&self, _: bool, now: Timestamp) -> Vec<TableCell> {
        let (used, quota) = (&self.used, &self.quota);
        vec![
            TableCell::from(&self.name),
            share(used.instances, quota.instances, |n| n.to_string()),
            share(used.cpu, quota.cpu, human::cores),
            share(used.memory, quota.memory, human::megabytes),
            share(used.disk, quota.disk, human::gigabytes),
            human::age(time(&self.created_at), now).into(),
        ]
    }
}

impl Watched for Project {
    fn key(&self) -> String {
        self.name.clone()
    }

    fn summary(&self) -> String {
        format!("{:?} {:?}", self.quota, self.used)
    }
}
