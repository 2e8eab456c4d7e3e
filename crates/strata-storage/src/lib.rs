//! The storage pool: btrfs over block devices or files, with volumes on it.
