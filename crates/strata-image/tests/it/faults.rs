//! Registries with false answers, hangs, cuts and pauses.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::image::BuiltImage;
use crate::support::layer::Layer;
use crate::support::registry::{Fake, RecordedRequest, Reply, honest};
use crate::support::{names, store};
use strata_image::{
    Image, PullOptions, Registries, RegistryOptions, SourceError, Store, StoreError, StoreOptions,
};

/// An image whose one layer is large enough to be cut.
fn made() -> BuiltImage {
    let data: Vec<u8> = (0..300_000_u64)
        .map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect();
    BuiltImage::packed(&[Layer::new().file("data", &data)], <[u8]>::to_vec)
}

fn is_layer(made: &BuiltImage, asked: &RecordedRequest) -> bool {
    let digest = strata_image::Digest::of(&made.blobs[0]);
    asked.path.ends_with(&digest.to_string())
}

async fn pull(store: &Store, fake: &Fake) -> Result<Image, StoreError> {
    pull_with(store, fake, &fake.registries()).await
}

async fn pull_with(
    store: &Store,
    fake: &Fake,
    registries: &Registries,
) -> Result<Image, StoreError> {
    let reference = fake.reference();
    let source = registries.source(&reference);
    store
        .pull(&reference, &source, PullOptions::default())
        .await
}

/// Records for a partial file that it came from here: what came from elsewhere
/// is not resumed.
fn sent_by(partial: &Path, fake: &Fake) {
    let (name, sender) = ("trusted.strata.sender", format!("{}/repo", fake.address));
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(partial, name, sender.as_bytes(), flags).unwrap();
}

/// Nothing half done is left, and no image.
fn assert_clean(store: &Store, root: &Path) {
    assert!(store.list().unwrap().is_empty());
    assert!(names(&root.join("tmp")).is_empty());
    assert!(names(&root.join("layers")).is_empty());
}

#[tokio::test]
async fn a_cut_download_is_resumed_where_it_was_cut() {
    let world = tempfile::tempdir().unwrap();
    let made = made();
    let (rule_made, cuts) = (made.clone(), AtomicUsize::new(0));
    let fake = Fake::start(&made, move |asked| {
        let cut = is_layer(&rule_made, asked) && cuts.fetch_add(1, Ordering::Relaxed) < 3;
        cut.then(|| Reply {
            cut: Some(70_000),
            ..honest(&rule_made, asked)
        })
    })
    .await;
    let store = store(world.path());
    pull(&store, &fake).await.unwrap();
    let starts: Vec<usize> = fake
        .asked()
        .iter()
        .filter(|asked| is_layer(&made, asked))
        .map(RecordedRequest::from)
        .collect();
    assert_eq!(starts[0], 0);
    assert!(
        starts.is_sorted() && starts.len() == 4 && starts[3] > 100_000,
        "{starts:?}"
    );
    assert!(names(&world.path().join("partial")).is_empty());
}

#[tokio::test]
async fn a_later_pull_resumes_what_an_earlier_one_left() {
    let world = tempfile::tempdir().unwrap();
    let made = made();
    let digest = strata_image::Digest::of(&made.blobs[0]);
    let fake = Fake::start(&made, |_| None).await;
    let store = store(world.path());
    let partial = world.path().join("partial").join(digest.hex());
    std::fs::write(&partial, &made.blobs[0][..1000]).unwrap();
    sent_by(&partial, &fake);
    pull(&store, &fake).await.unwrap();
    let asked = fake.asked();
    let asked = asked.iter().find(|asked| is_layer(&made, asked)).unwrap();
    assert_eq!(asked.from(), 1000);
}

#[tokio::test]
async fn a_bad_start_is_thrown_away() {
    let made = made();
    let digest = strata_image::Digest::of(&made.blobs[0]);
    let size = made.blobs[0].len();
    for bad in [1000, size, size + 7] {
        let world = tempfile::tempdir().unwrap();
        let fake = Fake::start(&made, |_| None).await;
        let store = store(world.path());
        let partial = world.path().join("partial").join(digest.hex());
        std::fs::write(&partial, vec![7; bad]).unwrap();
        sent_by(&partial, &fake);
        pull(&store, &fake).await.unwrap();
    }
}

#[tokio::test]
async fn a_registry_without_ranges_sends_all_again() {
    let world = tempfile::tempdir().unwrap();
    let made = made();
    let rule_made = made.clone();
    let mut first = true;
    let fake = Fake::start(&made, move |asked| {
        let cut = is_layer(&rule_made, asked) && std::mem::take(&mut first);
        let all = Reply::ok(rule_made.blobs[0].clone());
        is_layer(&rule_made, asked).then(|| Reply {
            cut: cut.then_some(100_000),
            ..all
        })
    })
    .await;
    pull(&store(world.path()), &fake).await.unwrap();
}

#[tokio::test]
async fn errors_that_pass_are_waited_out() {
    for (status, header) in [(500, None), (503, None), (429, Some("0")), (429, None)] {
        let world = tempfile::tempdir().unwrap();
        let made = made();
        let mut left = 3;
        let fake = Fake::start(&made, move |_| {
            left -= 1;
            let reply = Reply::status(status);
            let reply = match header {
                Some(header) => reply.with("Retry-After", header),
                None => reply,
            };
            (left >= 0).then_some(reply)
        })
        .await;
        pull(&store(world.path()), &fake).await.unwrap();
    }
}

#[tokio::test]
async fn permanent_registry_errors_are_reported() {
    let world = tempfile::tempdir().unwrap();
    let made = made();
    let store = store(world.path());
    let fake = Fake::start(&made, |_| Some(Reply::status(500))).await;
    let error = pull(&store, &fake).await.unwrap_err();
    assert_eq!(fake.asked().len(), 6);
    assert!(
        error.to_string().ends_with("answered 500: told so"),
        "{error}"
    );
    let public = strata_types::Error::from(error);
    assert_eq!(public.kind(), strata_types::ErrorKind::Unavailable);

    let fake = Fake::start(&made, |_| {
        Some(Reply::status(429).with("Retry-After", "86400"))
    })
    .await;
    let error = pull(&store, &fake).await.unwrap_err();
    assert_eq!(fake.asked().len(), 1);
    assert!(error.to_string().contains("429"), "{error}");

    let fake = Fake::start(&made, |_| Some(Reply::status(404))).await;
    let error = pull(&store, &fake).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Source(SourceError::NotFound(_))),
        "{error}"
    );
    assert_clean(&store, world.path());
}

#[tokio::test]
async fn a_registry_that_hangs_is_given_up() {
    for body in [0, 1000] {
        let world = tempfile::tempdir().unwrap();
        let made = made();
        let rule_made = made.clone();
        let fake = Fake::start(&made, move |asked| {
            is_layer(&rule_made, asked).then(|| Reply {
                cut: Some(body),
                hang: true,
                ..Reply::ok(rule_made.blobs[0].clone())
            })
        })
        .await;
        let options = StoreOptions {
            attempts: 2,
            ..StoreOptions::default()
        };
        let store = crate::support::store_with(world.path(), &options);
        let error = pull(&store, &fake).await.unwrap_err();
        assert!(
            matches!(error, StoreError::Source(SourceError::Stalled { .. })),
            "{error}"
        );
        assert_clean(&store, world.path());
    }
}

#[tokio::test]
async fn lies_about_digests_and_sizes_are_caught() {
    let made = made();
    let good = made.blobs[0].clone();
    let mut other = good.clone();
    other[100_000] ^= 1;
    let longer = [good.clone(), vec![0; 100]].concat();
    for lie in [other, longer, good[..1000].to_vec()] {
        let world = tempfile::tempdir().unwrap();
        let (rule_made, length) = (made.clone(), lie.len());
        let fake = Fake::start(&made, move |asked| {
            is_layer(&rule_made, asked).then(|| Reply::ok(lie.clone()))
        })
        .await;
        let store = store(world.path());
        let error = pull(&store, &fake).await.unwrap_err();
        let expected = match length.cmp(&good.len()) {
            std::cmp::Ordering::Equal => matches!(error, StoreError::Digest { .. }),
            std::cmp::Ordering::Greater => matches!(error, StoreError::TooLong { .. }),
            std::cmp::Ordering::Less => {
                matches!(error, StoreError::Source(SourceError::Truncated { .. }))
            }
        };
        assert!(expected, "{error}");
        assert_clean(&store, world.path());
    }
}

#[tokio::test]
async fn a_pinned_name_takes_no_other_manifest() {
    let world = tempfile::tempdir().unwrap();
    let (good, other) = (made(), BuiltImage::new(&[Layer::new().file("x", b"")]));
    let fake = Fake::start(&good, move |asked| {
        asked
            .path
            .contains("/manifests/sha256:")
            .then(|| Reply::ok(other.manifest.clone()))
    })
    .await;
    let name = format!("{}/repo@{}", fake.address, good.digest());
    let reference = name.parse().unwrap();
    let source = fake.registries().source(&reference);
    let store = store(world.path());
    let pulled = store
        .pull(&reference, &source, PullOptions::default())
        .await;
    assert!(matches!(
        pulled,
        Err(StoreError::Source(SourceError::Digest { .. }))
    ));
}

#[tokio::test]
async fn answers_beyond_all_reason_are_not_read() {
    let world = tempfile::tempdir().unwrap();
    let made = made();
    let fake = Fake::start(&made, |_| Some(Reply::ok(vec![b' '; 5 << 20]))).await;
    let error = pull(&store(world.path()), &fake).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Source(SourceError::TooLarge { .. })),
        "{error}"
    );
}

#[tokio::test]
async fn pulls_side_by_side_download_each_blob_once() {
    let world = tempfile::tempdir().unwrap();
    let layers: Vec<Layer> = (0..6)
        .map(|n| Layer::new().file(&format!("f{n}"), &[n; 50_000]))
        .collect();
    let made = BuiltImage::new(&layers);
    let fake = Arc::new(Fake::start(&made, |_| None).await);
    let (store, registries) = (store(world.path()), fake.registries());
    let mut pulls = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (store, registries, fake) = (store.clone(), registries.clone(), Arc::clone(&fake));
        pulls.spawn(async move { pull_with(&store, &fake, &registries).await.unwrap() });
    }
    for image in pulls.join_all().await {
        assert_eq!(image.layers.len(), 6);
    }
    for blob in made.contents().iter().take(7) {
        let digest = strata_image::Digest::of(blob).to_string();
        assert_eq!(fake.count(&format!("/blobs/{digest}")), 1);
    }
}

#[tokio::test]
async fn a_dropped_pull_leaves_the_way_free() {
    let world = tempfile::tempdir().unwrap();
    let made = made();
    let (rule_made, mut first) = (made.clone(), true);
    let fake = Fake::start(&made, move |asked| {
        let hang = is_layer(&rule_made, asked) && std::mem::take(&mut first);
        hang.then(|| Reply {
            cut: Some(1000),
            hang: true,
            ..Reply::ok(rule_made.blobs[0].clone())
        })
    })
    .await;
    let store = store(world.path());
    let registries = Registries::new(RegistryOptions {
        stall_timeout: Duration::from_secs(3600),
        ..fake.options()
    })
    .unwrap();
    {
        let mut dropped = Box::pin(pull_with(&store, &fake, &registries));
        let arrived = async {
            while !fake.asked().iter().any(|asked| is_layer(&made, asked)) {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            done = &mut dropped => panic!("it hangs, yet: {:?}", done.map(drop)),
            () = arrived => {}
        }
    }
    pull_with(&store, &fake, &registries).await.unwrap();
}

#[tokio::test]
async fn missing_platform_lists_the_available_platforms() {
    let world = tempfile::tempdir().unwrap();
    let foreign = BuiltImage::on(
        "s390x",
        &[Layer::new().file("x", b"")],
        crate::support::layer::gzip,
    );
    let fake = Fake::start(&foreign, |_| None).await;
    let error = pull(&store(world.path()), &fake).await.unwrap_err();
    assert!(
        error.to_string().contains("only for linux/s390x"),
        "{error}"
    );
}

#[tokio::test]
async fn the_right_image_of_an_index_is_taken() {
    let world = tempfile::tempdir().unwrap();
    let host = strata_image::Platform::host().architecture;
    let foreign = BuiltImage::on(
        "s390x",
        &[Layer::new().file("f", b"")],
        crate::support::layer::gzip,
    );
    let mine = BuiltImage::on(
        &host,
        &[Layer::new().file("m", b"")],
        crate::support::layer::gzip,
    );
    let both = crate::support::image::index(&[("s390x", &foreign), (&host, &mine)]);
    let foreign_only = crate::support::image::index(&[("s390x", &foreign)]);
    let mut answers = vec![foreign_only, both];
    let fake = Fake::start(&mine, move |asked| {
        let index = asked.path.ends_with("/manifests/tag");
        index.then(|| Reply::ok(answers.pop().unwrap()))
    })
    .await;
    let store = store(world.path());
    assert_eq!(pull(&store, &fake).await.unwrap().digest, mine.digest());
    let error = pull(&store, &fake).await.unwrap_err();
    assert!(
        error.to_string().contains("only for linux/s390x"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn registry_that_drips_is_given_up() {
    let world = tempfile::tempdir().unwrap();
    let made = made();
    let rule_made = made.clone();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let fake = Fake::start(&made, move |asked| {
        is_layer(&rule_made, asked).then(|| {
            counted.fetch_add(1, Ordering::Relaxed);
            Reply {
                drip: Some(Duration::from_millis(20)),
                ..honest(&rule_made, asked)
            }
        })
    })
    .await;
    let options = RegistryOptions {
        least_rate: 1000,
        rate_window: Duration::from_millis(500),
        stall_timeout: Duration::from_secs(30),
        ..fake.options()
    };
    let store = store(world.path());
    let registries = Registries::new(options).unwrap();
    let pulled = pull_with(&store, &fake, &registries);
    let pulled = tokio::time::timeout(Duration::from_secs(60), pulled).await;
    let error = pulled.expect("it waits for ever").unwrap_err();
    assert!(
        matches!(error, StoreError::Source(SourceError::TooSlow { .. })),
        "{error}"
    );
    let public = strata_types::Error::from(error);
    assert_eq!(public.kind(), strata_types::ErrorKind::Unavailable);
    // Its place is for others now.
    assert_eq!(requests.load(Ordering::Relaxed), 1);
    assert_clean(&store, world.path());
}

/// A manifest names any layer, also one of a public image, which its registry
/// then never sends.
#[tokio::test(flavor = "multi_thread")]
async fn silent_registry_blocks_neither_downloads_nor_layers_of_others() {
    let world = tempfile::tempdir().unwrap();
    let layer = |number: u8| Layer::new().file(&format!("data{number}"), &[number; 5000]);
    let made = BuiltImage::new(&(0..20).map(layer).collect::<Vec<_>>());
    let rule_made = made.clone();
    let held = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&held);
    let hostile = Fake::start(&made, move |asked| {
        let layers = rule_made.blobs.iter();
        let mut names = layers.map(|blob| strata_image::Digest::of(blob).to_string());
        names.any(|name| asked.path.ends_with(&name)).then(|| {
            counted.fetch_add(1, Ordering::Relaxed);
            Reply {
                cut: Some(10),
                hang: true,
                ..honest(&rule_made, asked)
            }
        })
    })
    .await;
    let store = store(world.path());
    let registries = Registries::new(RegistryOptions {
        stall_timeout: Duration::from_secs(600),
        ..hostile.options()
    })
    .unwrap();
    let mut blocked = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let (store, reference) = (store.clone(), hostile.reference());
        let source = registries.source(&reference);
        blocked.spawn(async move {
            let options = PullOptions {
                holder: "shop".into(),
                ..PullOptions::default()
            };
            store.pull(&reference, &source, options).await
        });
    }
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while held.load(Ordering::Relaxed) == 0 {
        assert!(tokio::time::Instant::now() < deadline, "no download begins");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let good = Fake::start(&made, |_| None).await;
    let (reference, registries) = (good.reference(), good.registries());
    let source = registries.source(&reference);
    let options = PullOptions {
        holder: "rival".into(),
        ..PullOptions::default()
    };
    let pulled = store.pull(&reference, &source, options);
    let pulled = tokio::time::timeout(Duration::from_secs(60), pulled).await;
    let image = pulled.expect("blocked by another registry").unwrap();
    assert_eq!(image.layers.len(), 20);
    assert!(blocked.try_join_next().is_none());
    blocked.shutdown().await;
}
