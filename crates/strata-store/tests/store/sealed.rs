//! What only a sealed store guarantees.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use strata_store::{
    Embedded, EmbeddedOptions, Entry, LeaseId, Listing, Memory, Revision, Sealed, Store,
    StoreError, StoreKey, Transaction, UnsealError, Watch, export, import, rotate_store_key,
};
use tempfile::TempDir;

const CANARY: &str = "canary-5f2e9c";

struct World {
    dir: TempDir,
    memory: Arc<Memory>,
}

impl World {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            memory: Arc::new(Memory::new()),
        }
    }

    fn key_file(&self) -> PathBuf {
        self.dir.path().join("store.key")
    }

    async fn open(&self) -> Result<Sealed, UnsealError> {
        Sealed::open(self.memory.clone(), &self.key_file()).await
    }

    /// What a reader of the engine finds.
    async fn raw(&self, key: &str) -> Vec<u8> {
        self.memory.get(key).await.unwrap().unwrap().value.to_vec()
    }
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    haystack
        .windows(needle.len())
        .any(|it| it == needle.as_bytes())
}

#[tokio::test]
async fn files_and_exports_hold_nothing_in_the_clear() {
    let dir = tempfile::tempdir().unwrap();
    let (store_dir, key_file) = (dir.path().join("store"), dir.path().join("store.key"));
    let embedded = Arc::new(Embedded::open(&store_dir, &EmbeddedOptions::default()).unwrap());
    let store = Sealed::open(embedded.clone(), &key_file).await.unwrap();
    let put = Transaction::new().put("instance/1", format!(r#"{{"password":"{CANARY}"}}"#));
    store.commit(put).await.unwrap();
    let mut exported = Vec::new();
    export(embedded.as_ref(), &mut exported).await.unwrap();
    assert!(!contains(&exported, CANARY));
    drop((store, embedded));
    for entry in std::fs::read_dir(&store_dir).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!contains(&bytes, CANARY));
    }

    // Brought to another engine, it opens with the same key.
    let memory = Arc::new(Memory::new());
    import(memory.as_ref(), &mut &*exported).await.unwrap();
    let store = Sealed::open(memory, &key_file).await.unwrap();
    let value = store.get("instance/1").await.unwrap().unwrap().value;
    assert!(contains(&value, CANARY));
}

#[tokio::test]
async fn a_store_from_before_is_sealed_when_it_is_opened() {
    let world = World::new();
    let lease = world.memory.grant(Duration::from_secs(60)).await.unwrap();
    let before =
        Transaction::new()
            .put("a", CANARY)
            .put("b", "{}")
            .put_with("c", CANARY, Some(lease));
    world.memory.commit(before).await.unwrap();
    let store = world.open().await.unwrap();
    for key in ["a", "c"] {
        assert!(!contains(&world.raw(key).await, CANARY));
        let entry = store.get(key).await.unwrap().unwrap();
        assert_eq!(entry.value, CANARY);
        assert_eq!(entry.lease.is_some(), key == "c");
    }
    let keys: Vec<_> = store.list("").await.unwrap().entries;
    let keys: Vec<_> = keys.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(keys, ["a", "b", "c"], "the keys of the store are its own");
    assert_eq!(store.get("store/keys").await.unwrap(), None);
    let put = store.commit(Transaction::new().put("store/keys", "")).await;
    assert!(matches!(put, Err(StoreError::Invalid(_))), "{put:?}");
}

#[tokio::test]
async fn sealing_that_was_cut_short_goes_on() {
    // Whatever write fails, with or without its effect, the next start goes on.
    let mut failures = 0;
    for fails_after in 0..25 {
        let world = World::new();
        for n in 0..20 {
            let put = Transaction::new().put(format!("k{n:02}"), CANARY);
            world.memory.commit(put).await.unwrap();
        }
        let cut = Arc::new(Cut::new(world.memory.clone(), fails_after));
        failures += usize::from(Sealed::open(cut, &world.key_file()).await.is_err());
        let store = world.open().await.unwrap();
        for n in 0..20 {
            let key = format!("k{n:02}");
            assert_eq!(store.get(&key).await.unwrap().unwrap().value, CANARY);
            assert!(!contains(&world.raw(&key).await, CANARY), "{key}");
        }
    }
    assert_eq!(
        failures, 23,
        "20 records, the keys, the past, and that all is sealed"
    );
}

/// The engine never writes in place: what a value was remains in free pages of
/// its file, long after it was sealed.
#[tokio::test]
async fn file_from_before_keeps_no_value_in_the_clear() {
    let dir = tempfile::tempdir().unwrap();
    let (store_dir, key_file) = (dir.path().join("store"), dir.path().join("store.key"));
    let open = || Arc::new(Embedded::open(&store_dir, &EmbeddedOptions::default()).unwrap());
    let clear = || {
        let files = std::fs::read_dir(&store_dir).unwrap();
        let mut bytes = files.map(|it| std::fs::read(it.unwrap().path()).unwrap());
        bytes.any(|bytes| contains(&bytes, CANARY))
    };
    let embedded = open();
    for n in 0..300 {
        let value = format!("{CANARY}{n}").repeat(20);
        let put = Transaction::new().put(format!("k{:02}", n % 100), value);
        embedded.commit(put).await.unwrap();
    }
    let keys = embedded.list("k").await.unwrap().entries.len();
    drop(embedded);
    assert!(clear());
    // The blocks of the file that is replaced can be read, too.
    let mut replaced = std::fs::File::open(store_dir.join("store.redb")).unwrap();

    // Killed after all values were sealed, the next start goes on.
    let cut = Arc::new(Cut::new(open(), 1 + keys));
    assert!(Sealed::open(cut, &key_file).await.is_err());
    assert!(clear(), "sealing alone leaves values behind");
    std::fs::write(store_dir.join("store.redb.next"), CANARY).unwrap();
    let store = Sealed::open(open(), &key_file).await.unwrap();
    assert_eq!(store.list("k").await.unwrap().entries.len(), keys);
    drop(store);
    assert!(!clear());
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut replaced, &mut bytes).unwrap();
    assert!(!bytes.is_empty() && !contains(&bytes, CANARY));

    let store = Sealed::open(open(), &key_file).await.unwrap();
    let value = store.get("k99").await.unwrap().unwrap().value;
    assert_eq!(value, format!("{CANARY}299").repeat(20));
}

#[tokio::test]
async fn value_written_without_the_key_is_rejected() {
    let world = World::new();
    let store = world.open().await.unwrap();
    let two = Transaction::new().put("admin", "no").put("other", "yes");
    store.commit(two).await.unwrap();
    // In the clear, a value moved to another name, a value cut or changed.
    let moved = world.raw("other").await;
    let mut changed = world.raw("admin").await;
    *changed.last_mut().unwrap() ^= 1;
    let cut = moved[..20].to_vec();
    for forged in [b"yes".to_vec(), moved, changed, cut, Vec::new()] {
        let put = Transaction::new().put("admin", forged);
        world.memory.commit(put).await.unwrap();
        for read in [
            store.get("admin").await.map(|_| ()),
            store.list("").await.map(|_| ()),
            world.open().await.unwrap().get("admin").await.map(|_| ()),
        ] {
            let error = read.unwrap_err();
            assert!(matches!(error, StoreError::Broken(_)), "{error}");
            assert!(error.to_string().contains("admin"), "{error}");
        }
        assert_eq!(store.get("other").await.unwrap().unwrap().value, "yes");
    }
}

#[tokio::test]
async fn without_its_key_a_store_is_not_opened_and_not_changed() {
    let world = World::new();
    let store = world.open().await.unwrap();
    store
        .commit(Transaction::new().put("a", "1"))
        .await
        .unwrap();
    let kept = world.key_file().with_extension("kept");
    std::fs::rename(world.key_file(), &kept).unwrap();
    let before = world.memory.list("").await.unwrap();
    let missing = world.open().await.unwrap_err();
    assert!(
        matches!(missing, UnsealError::KeyMissing { .. }),
        "{missing}"
    );
    assert!(!world.key_file().exists(), "no other key is made");
    StoreKey::generate()
        .unwrap()
        .write(&world.key_file())
        .unwrap();
    let wrong = world.open().await.unwrap_err();
    assert!(matches!(wrong, UnsealError::WrongKey(_)), "{wrong}");
    assert_eq!(world.memory.list("").await.unwrap(), before);
    std::fs::rename(&kept, world.key_file()).unwrap();
    assert_eq!(
        world
            .open()
            .await
            .unwrap()
            .get("a")
            .await
            .unwrap()
            .unwrap()
            .value,
        "1"
    );
}

#[tokio::test]
async fn the_store_key_is_replaced_through_every_death() {
    for fails_after in 0..4 {
        let world = World::new();
        let store = world.open().await.unwrap();
        store
            .commit(Transaction::new().put("a", CANARY))
            .await
            .unwrap();
        let first = StoreKey::read(&world.key_file()).unwrap().unwrap();
        let cut = Cut::new(world.memory.clone(), fails_after);
        let rotated = rotate_store_key(&cut, &world.key_file()).await;
        assert_eq!(rotated.is_err(), fails_after < 2, "{rotated:?}");
        let value = world
            .open()
            .await
            .unwrap()
            .get("a")
            .await
            .unwrap()
            .unwrap()
            .value;
        assert_eq!(value, CANARY);

        rotate_store_key(world.memory.as_ref(), &world.key_file())
            .await
            .unwrap();
        let value = world
            .open()
            .await
            .unwrap()
            .get("a")
            .await
            .unwrap()
            .unwrap()
            .value;
        assert_eq!(value, CANARY);
        // The first one opens nothing any more.
        std::fs::remove_file(world.key_file()).unwrap();
        first.write(&world.key_file()).unwrap();
        let wrong = world.open().await.unwrap_err();
        assert!(matches!(wrong, UnsealError::WrongKey(_)), "{wrong}");
    }
}

/// A store that is lost after some commits.
struct Cut {
    inner: Arc<dyn Store>,
    left: std::sync::atomic::AtomicUsize,
}

impl Cut {
    fn new(inner: Arc<dyn Store>, writes: usize) -> Self {
        let left = writes.into();
        Self { inner, left }
    }

    fn goes_on(&self) -> bool {
        use std::sync::atomic::Ordering::SeqCst;
        let next = |left: usize| left.checked_sub(1);
        self.left.fetch_update(SeqCst, SeqCst, next).is_ok()
    }
}

impl Store for Cut {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, StoreError>> {
        self.inner.get(key)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Listing, StoreError>> {
        self.inner.list(prefix)
    }

    fn commit(&self, transaction: Transaction) -> BoxFuture<'_, Result<Revision, StoreError>> {
        match self.goes_on() {
            true => self.inner.commit(transaction),
            false => async { Err(StoreError::Unavailable("cut".to_owned())) }.boxed(),
        }
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        self.inner.watch(prefix, after)
    }

    fn grant(&self, ttl: Duration) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        self.inner.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.revoke(lease)
    }

    fn erase_overwritten(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        match self.goes_on() {
            true => self.inner.erase_overwritten(),
            false => async { Err(StoreError::Unavailable("cut".to_owned())) }.boxed(),
        }
    }
}

#[tokio::test]
async fn a_store_that_is_being_imported_is_left_alone() {
    let world = World::new();
    let begun = Transaction::new().put(strata_store::IMPORT_KEY, "sum");
    world.memory.commit(begun).await.unwrap();
    let before = world.memory.list("").await.unwrap();
    let error = world.open().await.unwrap_err();
    assert!(matches!(error, UnsealError::ImportUnfinished), "{error}");
    assert_eq!(world.memory.list("").await.unwrap(), before);
}
