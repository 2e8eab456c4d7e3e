//! The formats there were, and how each came out of the one before.
//!
//! A file records its format. When it is opened, every migration above that
//! runs, all in one transaction: it is migrated or it is as it was. A format
//! that is not known here is newer than this release, and is left alone.

use redb::{ReadableDatabase, TableDefinition, TableError, WriteTransaction};

/// Numbers of the store itself: its format, its revision, its last lease.
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Key → created, changed, lease, value.
pub(super) const ENTRIES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("entries");
/// Lease → how long it lasts, in milliseconds.
pub(super) const LEASES: TableDefinition<'_, i64, u64> = TableDefinition::new("leases");

const FORMAT: &str = "format";

#[derive(Debug)]
pub(super) struct Migration {
    /// The format that it leads to.
    pub(super) to: u64,
    pub(super) run: fn(&WriteTransaction) -> Result<(), redb::Error>,
}

/// All of them, in order.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration { to: 1, run: first },
    Migration { to: 2, run: sealed },
];

/// Values can be sealed: a release that would take them for damaged leaves the
/// file alone.
fn sealed(_: &WriteTransaction) -> Result<(), redb::Error> {
    Ok(())
}

fn first(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(META)?;
    transaction.open_table(ENTRIES)?;
    transaction.open_table(LEASES)?;
    Ok(())
}

/// Why a file is not brought to the newest format.
#[derive(Debug)]
pub(super) enum NotMigrated {
    Newer { found: u64, known: u64 },
    Engine(redb::Error),
}

impl<E: Into<redb::Error>> From<E> for NotMigrated {
    fn from(error: E) -> Self {
        Self::Engine(error.into())
    }
}

/// Brings a file to the newest format.
pub(super) fn migrate(
    database: &redb::Database,
    migrations: &[Migration],
) -> Result<(), NotMigrated> {
    let found = format(database)?;
    let known = migrations.last().map_or(0, |it| it.to);
    if found > known {
        return Err(NotMigrated::Newer { found, known });
    }
    if found == known {
        return Ok(());
    }
    let transaction = database.begin_write()?;
    for migration in migrations.iter().filter(|it| it.to > found) {
        tracing::info!(to = migration.to, "migrating the store");
        (migration.run)(&transaction)?;
    }
    transaction.open_table(META)?.insert(FORMAT, known)?;
    transaction.commit()?;
    Ok(())
}

/// The format of a file; 0 if it has none yet.
fn format(database: &redb::Database) -> Result<u64, redb::Error> {
    match database.begin_read()?.open_table(META) {
        Ok(meta) => Ok(meta.get(FORMAT)?.map_or(0, |it| it.value())),
        Err(TableError::TableDoesNotExist(_)) => Ok(0),
        Err(error) => Err(error.into()),
    }
}
