//! Watches: the present items, and then changes.

use std::collections::{BTreeMap, BTreeSet};

use strata_client::rest::{Change, Query, RestClient};

use crate::failure::{Result, unable};
use crate::output::{self, Format};
use crate::session::Session;
use crate::view::Watched;

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
                    match (&mut first, list.record(&thing)) {
                        (_, false) => {}
                        (Some(first), true) => first.push(thing),
                        (None, true) => list.print(session, &[thing])?,
                    }
                }
                Change::Delete(mut thing) => {
                    rename(&mut thing);
                    list.print_deleted(session, &thing.key());
                }
                Change::Synced => {
                    list.print(session, &first.take().unwrap_or_default())?;
                    list.synced(session);
                }
                Change::Resync => list.resynced = Some(BTreeSet::new()),
            }
        }
        list.resynced = Some(BTreeSet::new());
    }
}

/// State of a watched list.
struct List {
    format: Format,
    header: bool,
    seen: BTreeMap<String, (String, String)>,
    /// Keys received since a resync.
    resynced: Option<BTreeSet<String>>,
}

impl List {
    fn new(format: Format) -> Self {
        Self {
            format,
            header: true,
            seen: BTreeMap::new(),
            resynced: None,
        }
    }

    /// Records an item; whether it must be printed.
    fn record<T: Watched>(&mut self, thing: &T) -> bool {
        if let Some(resynced) = &mut self.resynced {
            resynced.insert(thing.key());
        }
        let now = (thing.summary(), thing.reference());
        let before = self.seen.insert(thing.key(), now.clone());
        before != Some(now)
    }

    /// The resync is complete: items that were not received are deleted.
    fn synced(&mut self, session: &mut Session) {
        let Some(resynced) = self.resynced.take() else {
            return;
        };
        let known = self.seen.keys();
        let gone: Vec<String> = known
            .filter(|key| !resynced.contains(*key))
            .cloned()
            .collect();
        for key in gone {
            self.print_deleted(session, &key);
        }
    }

    /// It was deleted, or is none of those that are listed any more.
    fn print_deleted(&mut self, session: &mut Session, key: &str) {
        if let Some((_, reference)) = self.seen.remove(key) {
            let line = format!("{reference} was deleted");
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
