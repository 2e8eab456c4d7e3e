//! Lists that go on: what there is, and then what changes.

use std::collections::{BTreeMap, BTreeSet};

use strata_client::rest::{Change, Query, Resource, RestClient};

use crate::failure::{Result, unable};
use crate::output::{self, Format, Show};
use crate::session::Session;

/// Something that can be watched.
pub(crate) trait Watched: Resource + Show {
    /// What it is told apart by.
    fn key(&self) -> String;
    /// What is worth a line when it changes; figures are not.
    fn gist(&self) -> String;
}

/// Prints what there is and each change, until the reader of our output
/// leaves or the server does. A stream that was long enough is begun anew.
pub(crate) async fn watch<T: Watched>(
    session: &mut Session,
    rest: &RestClient,
    query: &Query,
    format: Format,
    rename: impl Fn(&mut T),
) -> Result {
    let mut list = List::new(format);
    loop {
        let what = || unable(format!("watch the {}s", T::ROUTE));
        let mut changes = rest.watch::<T>(query).await.map_err(what())?;
        // The widths of a table come from all of its rows.
        let mut first = Some(Vec::new());
        loop {
            let next = session.printer.unless_gone(changes.next()).await?;
            let Some(change) = next.map_err(what())? else {
                break;
            };
            match change {
                Change::Put(mut thing) => {
                    rename(&mut thing);
                    match (&mut first, list.news(&thing)) {
                        (_, false) => {}
                        (Some(first), true) => first.push(thing),
                        (None, true) => list.print(session, &[thing])?,
                    }
                }
                Change::Delete(mut thing) => {
                    rename(&mut thing);
                    list.gone(session, &thing.key());
                }
                Change::Synced => {
                    list.print(session, &first.take().unwrap_or_default())?;
                    list.synced(session);
                }
                Change::Resync => list.told = Some(BTreeSet::new()),
            }
        }
        list.told = Some(BTreeSet::new());
    }
}

/// What was printed so far.
struct List {
    format: Format,
    header: bool,
    seen: BTreeMap<String, (String, String)>,
    /// What is told again after changes were left out.
    told: Option<BTreeSet<String>>,
}

impl List {
    fn new(format: Format) -> Self {
        Self {
            format,
            header: true,
            seen: BTreeMap::new(),
            told: None,
        }
    }

    /// Whether there is something to print about it.
    fn news<T: Watched>(&mut self, thing: &T) -> bool {
        if let Some(told) = &mut self.told {
            told.insert(thing.key());
        }
        let now = (thing.gist(), thing.reference());
        let before = self.seen.insert(thing.key(), now.clone());
        before != Some(now)
    }

    /// Everything was told again: what was not is gone.
    fn synced(&mut self, session: &mut Session) {
        let Some(told) = self.told.take() else {
            return;
        };
        let known = self.seen.keys();
        let gone: Vec<String> = known.filter(|key| !told.contains(*key)).cloned().collect();
        for key in gone {
            self.gone(session, &key);
        }
    }

    /// It was deleted, or is none of those that are listed any more.
    fn gone(&mut self, session: &mut Session, key: &str) {
        if let Some((_, reference)) = self.seen.remove(key) {
            let line = format!("{reference} is gone from the list");
            session.printer.note(&line);
        }
    }

    fn print<T: Watched>(&mut self, session: &mut Session, things: &[T]) -> Result {
        if things.is_empty() {
            return Ok(());
        }
        match self.format {
            Format::Table | Format::Wide => {
                let now = session.now();
                let wide = self.format == Format::Wide;
                output::table(session, wide, things, now, self.header)?;
                self.header = false;
            }
            Format::Name => output::rows(session, self.format, things, "")?,
            Format::Json | Format::Yaml => {
                for thing in things {
                    output::line(session, self.format, thing)?;
                }
            }
        }
        Ok(())
    }
}
