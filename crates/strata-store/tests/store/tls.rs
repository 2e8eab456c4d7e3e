//! etcd on TLS, with certificates on both sides.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use strata_store::{Etcd, EtcdOptions, EtcdTls, Store as _, StoreError, Transaction};

use crate::etcd_server::{EtcdServer, Tls};
use crate::world::next;

fn authority(name: &str) -> (String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    (pem, Issuer::new(params, key))
}

fn certificate(issuer: &Issuer<'static, KeyPair>) -> (String, String) {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let key = KeyPair::generate().unwrap();
    let signed = params.signed_by(&key, issuer).unwrap();
    (signed.pem(), key.serialize_pem())
}

fn tls(dir: &Path) -> Tls {
    let (ca_pem, issuer) = authority("test authority");
    let (certificate_pem, key_pem) = certificate(&issuer);
    let file = |name: &str, content: &str| {
        let path = dir.join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    Tls {
        ca: file("ca.pem", &ca_pem),
        certificate: file("certificate.pem", &certificate_pem),
        key: file("key.pem", &key_pem),
        client: EtcdTls {
            ca_pem,
            identity: Some(certificate(&issuer)),
        },
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_and_server_authenticate_by_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let Some(server) = EtcdServer::start_with(Some(tls(dir.path()))).await else {
        return;
    };
    let store = server.connect().await;
    let written = store
        .commit(Transaction::new().put("a", "1"))
        .await
        .unwrap();
    let mut watch = store.watch("", written).await.unwrap();
    let second = store
        .commit(Transaction::new().put("a", "2"))
        .await
        .unwrap();
    assert_eq!(next(&mut watch).await.unwrap().revision, second);

    let (other_ca, other) = authority("another authority");
    let right = server.options().tls.unwrap();
    let wrong = [
        EtcdTls {
            ca_pem: other_ca,
            ..right.clone()
        },
        EtcdTls {
            identity: Some(certificate(&other)),
            ..right.clone()
        },
        EtcdTls {
            identity: None,
            ..right.clone()
        },
    ];
    for tls in wrong {
        let options = EtcdOptions {
            tls: Some(tls),
            ..server.options()
        };
        let refused = Etcd::connect(&options).await.unwrap_err();
        assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");
    }
    let not_pem = EtcdOptions {
        tls: Some(EtcdTls {
            identity: Some((String::new(), "no key".to_owned())),
            ..right
        }),
        ..server.options()
    };
    let refused = Etcd::connect(&not_pem).await.unwrap_err();
    assert!(matches!(refused, StoreError::Invalid(_)), "{refused:?}");
}
