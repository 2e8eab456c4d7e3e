//! What goes and what stays.

use proptest::prelude::*;

use super::*;

fn digest(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

/// An image `name` of these layers, last used at `used`.
fn image(name: &str, used: i64, layers: &[&str]) -> StoredImage {
    StoredImage {
        reference: name.parse().unwrap(),
        projects: BTreeSet::new(),
        used: jiff::Timestamp::from_second(used).unwrap(),
        in_use: false,
        needs: RequiredContent {
            documents: [digest(name)].into(),
            packed: layers
                .iter()
                .map(|layer| (digest(&format!("{layer}.gz")), digest(layer)))
                .collect(),
            layers: layers.iter().map(|layer| digest(layer)).collect(),
        },
    }
}

/// All that these images need is here; packed layers have 10 bytes, unpacked
/// ones 100, documents 1.
fn here(images: Vec<StoredImage>) -> StoreContents {
    let mut facts = StoreContents::default();
    for image in &images {
        for document in &image.needs.documents {
            facts.blobs.insert(*document, 1);
        }
        for (packed, layer) in &image.needs.packed {
            facts.blobs.insert(*packed, 10);
            facts.layers.insert(*layer, 100);
        }
    }
    facts.images = images;
    facts
}

#[test]
fn garbage_is_what_no_image_needs() {
    let mut facts = here(vec![image("a", 1, &["base", "a1"])]);
    assert_eq!(plan(&facts, PruneGoal::Garbage), Plan::default());
    facts.blobs.insert(digest("stray"), 7);
    facts.layers.insert(digest("old"), 50);
    let plan = plan(&facts, PruneGoal::Garbage);
    assert_eq!(plan.blobs, [digest("stray")]);
    assert_eq!(plan.layers, [digest("old")]);
    assert_eq!(plan.bytes, 57);
}

#[test]
fn packed_layers_go_only_when_unpacked_ones_are_there() {
    let mut facts = here(vec![image("a", 1, &["base", "a1"])]);
    facts.layers.remove(&digest("a1"));
    let plan = plan(&facts, PruneGoal::Packed);
    assert_eq!(plan.blobs, [digest("base.gz")]);
    assert!(plan.layers.is_empty() && plan.images.is_empty());
}

#[test]
fn the_least_recently_used_go_first_and_shared_layers_stay() {
    let images = vec![
        image("new", 3, &["base", "new1"]),
        image("old", 1, &["base", "old1"]),
        image("mid", 2, &["base", "mid1"]),
    ];
    let plan = plan(&here(images), PruneGoal::Free(120));
    assert_eq!(plan.images, ["old".parse().unwrap()]);
    assert_eq!(plan.layers, [digest("old1")]);
}

#[test]
fn prune_plan_never_removes_images_in_use() {
    let mut images = vec![image("a", 1, &["base", "a1"]), image("b", 2, &["base"])];
    images[0].in_use = true;
    let needs = images[0].needs.clone();
    let mut facts = here(images);
    facts.held = needs;
    let plan = plan(&facts, PruneGoal::Free(u64::MAX));
    assert_eq!(plan.images, ["b".parse().unwrap()]);
    assert!(plan.layers.is_empty());
    assert!(!plan.blobs.contains(&digest("a")));
}

proptest! {
    #[test]
    fn no_plan_takes_what_a_kept_image_needs(
        shapes in prop::collection::vec((0_i64..9, prop::collection::vec(0_u8..6, 0..4), any::<bool>()), 0..6),
        wanted in 0_u64..2000,
    ) {
        let images: Vec<StoredImage> = shapes.iter().enumerate().map(|(n, (used, layers, in_use))| {
            let layers: Vec<String> = layers.iter().map(|layer| format!("l{layer}")).collect();
            let layers: Vec<&str> = layers.iter().map(String::as_str).collect();
            StoredImage { in_use: *in_use, ..image(&format!("i{n}"), *used, &layers) }
        }).collect();
        let mut facts = here(images.clone());
        for image in images.iter().filter(|image| image.in_use) {
            facts.held.add(&image.needs);
        }
        let plan = plan(&facts, PruneGoal::Free(wanted));
        for image in images.iter().filter(|image| !plan.images.contains(&image.reference)) {
            prop_assert!(image.needs.layers.iter().all(|layer| !plan.layers.contains(layer)));
            prop_assert!(image.needs.documents.iter().all(|blob| !plan.blobs.contains(blob)));
        }
        for image in images.iter().filter(|image| image.in_use) {
            prop_assert!(!plan.images.contains(&image.reference));
        }
    }
}
