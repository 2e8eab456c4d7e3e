//! One suite, run on every engine.

mod leases;
mod limits;
mod records;
mod watches;

/// Runs each case on each engine.
macro_rules! on_every_engine {
    ($($case:path as $name:ident;)*) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $case(&crate::world::World::memory()).await;
            })*
        }
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $case(&crate::world::World::embedded()).await;
            })*
        }
        mod sealed {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $case(&crate::world::World::embedded().sealed().await).await;
            })*
        }
        mod etcd {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(world) = crate::world::World::etcd().await {
                    $case(&world).await;
                }
            })*
        }
    };
}

on_every_engine! {
    crate::conformance::records::reads_see_what_was_committed as reads_see_what_was_committed;
    crate::conformance::records::a_conflict_names_the_key as a_conflict_names_the_key;
    crate::conformance::records::what_changes_nothing as empty_commit_answers_the_current_revision;
    crate::conformance::records::all_or_nothing as listings_see_whole_transactions;
    crate::conformance::records::counter as a_counter_counts_every_increment;
    crate::conformance::records::erased as erasing_the_past_keeps_what_is_there;
    crate::conformance::watches::history_then_live as a_watch_has_no_gap_and_no_duplicate;
    crate::conformance::watches::only_the_prefix as watch_delivers_changes_of_its_prefix_only;
    crate::conformance::watches::large_past as watch_delivers_a_large_history_in_whole_revisions;
    crate::conformance::watches::forgotten as watch_from_a_compacted_revision_is_refused;
    crate::conformance::leases::expiry as keys_go_with_an_expired_lease;
    crate::conformance::leases::kept_alive as renewed_lease_stays;
    crate::conformance::leases::revoked as keys_go_with_a_revoked_lease;
    crate::conformance::limits::refused as oversized_transaction_is_refused;
    crate::conformance::limits::accepted as largest_transaction_is_accepted;
}
