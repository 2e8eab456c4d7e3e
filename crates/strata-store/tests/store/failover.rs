//! Members of etcd that do not answer.

use std::time::Duration;

use strata_store::{Etcd, EtcdOptions, Store as _, StoreError, Transaction};
use tokio::net::TcpListener;

use crate::etcd_server::EtcdServer;
use crate::world::{next, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_do_not_answer_are_passed_over() {
    let Some(server) = EtcdServer::start().await else {
        return;
    };
    // One refuses, one takes the connection and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = (silent.local_addr().unwrap(), silent);
    let refusing = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refusing = refusing.local_addr().unwrap();
    let mut options = EtcdOptions {
        timeout: Duration::from_secs(1),
        ..server.options()
    };
    options.endpoints.insert(0, format!("http://{}", silent.0));
    options.endpoints.insert(0, format!("http://{refusing}"));
    let store = Etcd::connect(&options).await.unwrap();
    let written = store
        .commit(Transaction::new().put("a", "1"))
        .await
        .unwrap();
    assert_eq!(store.get("a").await.unwrap().unwrap().changed, written);
}

#[tokio::test]
async fn no_member_at_all_is_said_in_time() {
    let refusing = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refusing = refusing.local_addr().unwrap();
    let options = EtcdOptions {
        endpoints: vec![format!("http://{refusing}")],
        ..EtcdOptions::default()
    };
    let error = soon("an answer", Etcd::connect(&options))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    for endpoints in [
        vec![],
        vec!["ftp://x".to_owned()],
        vec!["https://x:1".to_owned()],
    ] {
        let options = EtcdOptions {
            endpoints,
            ..EtcdOptions::default()
        };
        let error = Etcd::connect(&options).await.unwrap_err();
        assert!(matches!(error, StoreError::Invalid(_)), "{error:?}");
    }
}

/// A watch on which nothing happens sends a check, and stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_watch_stays() {
    let Some(server) = EtcdServer::start().await else {
        return;
    };
    let options = EtcdOptions {
        quiet: Duration::from_millis(800),
        ..server.options()
    };
    let store = Etcd::connect(&options).await.unwrap();
    let lease = store.grant(Duration::from_secs(3)).await.unwrap();
    let bound = Transaction::new().put_with("a", "", Some(lease));
    let bound = store.commit(bound).await.unwrap();
    let mut watch = store.watch("", bound).await.unwrap();
    // The end of the lease is several questions away.
    assert!(next(&mut watch).await.unwrap().revision > bound);
}
