//! Images that name what others have: a digest is no secret, and the store
//! shares content by it. A source that names a layer has to have it.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::support::image::{BuiltImage, descriptor};
use crate::support::layer::Layer;
use crate::support::registry::{Fake, RecordedRequest, Reply, honest};
use crate::support::store;
use strata_image::{
    Digest, Image, LayoutSource, PullOptions, Reference, Source, Store, StoreError, StoreOptions,
};

fn private() -> BuiltImage {
    BuiltImage::new(&[Layer::new().file("secret", b"of somebody else")])
}

fn mine() -> BuiltImage {
    BuiltImage::new(&[Layer::new().file("mine", b"known to me")])
}

/// An image made of these documents and layers.
fn assembled(config: &[u8], layers: &[&[u8]]) -> BuiltImage {
    let layer = "application/vnd.oci.image.layer.v1.tar+gzip";
    let layers: Vec<String> = layers.iter().map(|blob| descriptor(layer, blob)).collect();
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{},"layers":[{}]}}"#,
        descriptor("application/vnd.oci.image.config.v1+json", config),
        layers.join(",")
    );
    BuiltImage {
        manifest: manifest.into_bytes(),
        config: config.to_vec(),
        blobs: Vec::new(),
        diff_ids: Vec::new(),
    }
}

async fn pull(store: &Store, fake: &Fake) -> Result<Image, StoreError> {
    let reference = fake.reference();
    let source = fake.registries().source(&reference);
    store
        .pull(&reference, &source, PullOptions::default())
        .await
}

/// The store again, once the last work on it has released it.
async fn reopened(root: &Path) -> Store {
    let open = async {
        loop {
            match Store::open(root, StoreOptions::default()) {
                Err(StoreError::Locked(_)) => tokio::task::yield_now().await,
                opened => return opened.unwrap(),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), open)
        .await
        .unwrap()
}

async fn store_with_private(root: &Path) -> (Store, BuiltImage) {
    let (store, private) = (store(root), private());
    pull(&store, &Fake::start(&private, |_| None).await)
        .await
        .unwrap();
    (store, private)
}

/// The manifest names the private layer; the registry does not have it, and
/// gives each possible false answer about that.
#[tokio::test]
async fn a_layer_that_its_registry_does_not_have_is_not_used() {
    let world = tempfile::tempdir().unwrap();
    let (store, private) = store_with_private(world.path()).await;
    let digest = Digest::of(&private.blobs[0]).to_string();
    let size = private.blobs[0].len();
    // The configuration is its own, with the private layer's diff id in it.
    let config = [&private.config[..], b" "].concat();
    let borrowed = assembled(&config, &[&private.blobs[0]]);
    type ForgedReply = fn(usize) -> Reply;
    let lies: [(&str, ForgedReply); 4] = [
        ("missing", |_| Reply::status(404)),
        ("nothing", |_| Reply::ok(Vec::new())),
        ("other bytes", |size| Reply::ok(vec![7; size])),
        ("too many", |size| Reply::ok(vec![7; size + 1])),
    ];
    for (name, lie) in lies {
        let digest = digest.clone();
        let rule = move |asked: &RecordedRequest| asked.path.ends_with(&digest).then(|| lie(size));
        let fake = Fake::start(&borrowed, rule).await;
        let pulled = pull(&store, &fake).await;
        assert!(pulled.is_err(), "{name}");
        assert!(store.show(&fake.reference()).is_err(), "{name}");
        // It is not remembered as one that has it either.
        assert!(pull(&store, &fake).await.is_err(), "{name}");
    }
    // A source that has it is trusted, and queried once.
    let whole = BuiltImage {
        config: config.clone(),
        ..private.clone()
    };
    let manifest = borrowed.manifest.clone();
    let fake = Fake::start(&BuiltImage { manifest, ..whole }, |_| None).await;
    pull(&store, &fake).await.unwrap();
    pull(&store, &fake).await.unwrap();
    assert_eq!(fake.count(&digest), 1);
}

#[tokio::test]
async fn a_configuration_that_its_registry_does_not_have_is_not_shown() {
    let world = tempfile::tempdir().unwrap();
    let (store, private) = store_with_private(world.path()).await;
    // Both are private: it names the whole image.
    let borrowed = assembled(&private.config, &[&private.blobs[0]]);
    let config = Digest::of(&private.config).to_string();
    let rule =
        move |asked: &RecordedRequest| asked.path.ends_with(&config).then(|| Reply::status(404));
    let fake = Fake::start(&borrowed, rule).await;
    assert!(pull(&store, &fake).await.is_err());
    assert!(store.show(&fake.reference()).is_err());
}

/// A blob of the source's own, and a configuration that claims it unpacks to
/// the layer of another.
#[tokio::test]
async fn a_blob_that_unpacks_to_something_else_is_no_way_to_a_layer() {
    let world = tempfile::tempdir().unwrap();
    let (store, private) = store_with_private(world.path()).await;
    let (mine, config) = (mine(), [&private.config[..], b" "].concat());
    let mut borrowed = assembled(&config, &[&mine.blobs[0]]);
    borrowed.blobs.clone_from(&mine.blobs);
    let fake = Fake::start(&borrowed, |_| None).await;
    let error = pull(&store, &fake).await.unwrap_err();
    assert!(matches!(error, StoreError::Unpack { .. }), "{error}");
    assert!(store.show(&fake.reference()).is_err());
    // The layer is as it was.
    let kept = store.list().unwrap();
    assert!(kept[0].layers[0].join("secret").exists());
    // The same content, packed in another way, is the same layer.
    let again = BuiltImage::packed(&[Layer::new().file("secret", b"of somebody else")], |tar| {
        tar.to_vec()
    });
    let fake = Fake::start(&again, |_| None).await;
    let image = pull(&store, &fake).await.unwrap();
    assert_eq!(image.layers, kept[0].layers);
    assert!(
        std::fs::read_dir(world.path().join("tmp"))
            .unwrap()
            .next()
            .is_none()
    );
}

/// A download that was cut belongs to the source it came from.
#[tokio::test]
async fn blob_of_one_registry_is_not_trusted_for_another() {
    let world = tempfile::tempdir().unwrap();
    let (store, private) = (store(world.path()), private());
    let digest = Digest::of(&private.blobs[0]).to_string();
    let all_but_one = private.blobs[0].len() - 1;
    let (blob, name) = (private.blobs[0].clone(), digest.clone());
    let cut = move |asked: &RecordedRequest| {
        asked.path.ends_with(&name).then(|| Reply {
            cut: Some(all_but_one),
            ..Reply::ok(blob.clone())
        })
    };
    assert!(
        pull(&store, &Fake::start(&private, cut).await)
            .await
            .is_err()
    );
    // This one knows the last byte alone, and answers for the range of it.
    let (made, name) = (private.clone(), digest.clone());
    let last = move |asked: &RecordedRequest| {
        let is_blob = asked.path.ends_with(&name);
        (is_blob && asked.from() == 0)
            .then(|| Reply::status(404))
            .or_else(|| is_blob.then(|| honest(&made, asked)))
    };
    let fake = Fake::start(&private, last).await;
    assert!(pull(&store, &fake).await.is_err());
}

#[tokio::test]
async fn a_repository_of_the_same_registry_is_asked_and_sends_nothing_again() {
    let world = tempfile::tempdir().unwrap();
    let private = private();
    let manifest = private.manifest.clone();
    let forbidden = Digest::of(&private.blobs[0]).to_string();
    // Three repositories: one has it, one shares it, one may not see it.
    let rule = move |asked: &RecordedRequest| {
        if asked.path.contains("/closed/blobs/") && asked.path.ends_with(&forbidden) {
            return Some(Reply::status(403));
        }
        asked
            .path
            .ends_with("/manifests/tag")
            .then(|| Reply::ok(manifest.clone()))
    };
    let fake = Fake::start(&private, rule).await;
    let registries = fake.registries();
    let named =
        |name: &str| -> Reference { format!("{}/{name}:tag", fake.address).parse().unwrap() };
    let pull = async |store: &Store, name: &str| {
        let source = registries.source(&named(name));
        store
            .pull(&named(name), &source, PullOptions::default())
            .await
    };
    let first = store(world.path());
    pull(&first, "repo").await.unwrap();
    assert!(pull(&first, "closed").await.is_err());
    pull(&first, "shared").await.unwrap();
    // It is known after a restart too, from the images that are here.
    drop(first);
    let second = reopened(world.path()).await;
    let before = fake.count("/blobs/");
    pull(&second, "repo").await.unwrap();
    pull(&second, "shared").await.unwrap();
    assert_eq!(fake.count("/blobs/"), before);
    assert!(pull(&second, "closed").await.is_err());
}

#[tokio::test]
async fn a_layout_without_the_layer_does_not_borrow_it() {
    let world = tempfile::tempdir().unwrap();
    let (store, private) = store_with_private(&world.path().join("store")).await;
    let dir = world.path().join("layout");
    private.write_layout(&dir, &["v1"]);
    let source: Arc<dyn Source> = Arc::new(LayoutSource::new(&dir, Some("v1".into())));
    let reference: Reference = format!("oci:{}:v1", dir.display()).parse().unwrap();
    let pull = || store.pull(&reference, &source, PullOptions::default());
    pull().await.unwrap();
    let blob = dir
        .join("blobs/sha256")
        .join(Digest::of(&private.blobs[0]).hex());
    // A file of the right name and size is not the blob.
    std::fs::write(&blob, vec![7; private.blobs[0].len()]).unwrap();
    assert!(matches!(pull().await, Err(StoreError::Digest { .. })));
    std::fs::remove_file(&blob).unwrap();
    assert!(pull().await.is_err());
}
