//! Which hosts may be contacted how: credentials, tokens, redirects, TLS.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use crate::support::image::BuiltImage;
use crate::support::layer::Layer;
use crate::support::registry::{Fake, RecordedRequest, Reply};
use crate::support::store;
use strata_image::{
    Credentials, Image, Platform, PullOptions, Registries, RegistryOptions, SourceError, Store,
    StoreError,
};

fn made() -> BuiltImage {
    BuiltImage::new(&[Layer::new().file("data", b"some")])
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

fn credentials(fake: &Fake) -> RegistryOptions {
    let credentials = Credentials {
        user: "me".into(),
        password: "secret".into(),
    };
    let host = fake.address.to_string();
    RegistryOptions {
        credentials: [(host, credentials)].into(),
        ..fake.options()
    }
}

const BASIC: &str = "Basic bWU6c2VjcmV0";

#[tokio::test]
async fn basic_credentials_are_shown_when_asked_for() {
    let world = tempfile::tempdir().unwrap();
    let fake = Fake::start(&made(), |asked| {
        let known = asked.header("authorization") == Some(BASIC);
        (!known).then(|| Reply::status(401).with("WWW-Authenticate", "Basic realm=\"r\""))
    })
    .await;
    let store = store(world.path());
    let error = pull(&store, &fake).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Source(SourceError::Denied { .. })),
        "{error}"
    );
    let registries = Registries::new(credentials(&fake)).unwrap();
    pull_with(&store, &fake, &registries).await.unwrap();
}

#[tokio::test]
async fn tokens_are_fetched_once_and_go_nowhere_else() {
    let world = tempfile::tempdir().unwrap();
    let made = made();
    // Blobs are served by another host, which must not see the token.
    let storage = Fake::start(&made, |_| None).await;
    let (there, rule_made) = (storage.address, made.clone());
    let own = Arc::new(std::sync::OnceLock::new());
    let address = Arc::clone(&own);
    let fake = Fake::start(&made, move |asked| {
        if asked
            .path
            .starts_with("/token?scope=repository%3Arepo%3Apull&service=s")
        {
            let known = asked.header("authorization") == Some(BASIC);
            let token = r#"{"token":"abc","expires_in":300}"#;
            return Some(if known {
                Reply::ok(token)
            } else {
                Reply::status(401)
            });
        }
        if asked.header("authorization") != Some("Bearer abc") {
            let realm = format!(
                "Bearer realm=\"http://{}/token\",service=\"s\"",
                address.get().unwrap()
            );
            return Some(Reply::status(401).with("WWW-Authenticate", realm));
        }
        let to = format!("http://{there}{}", asked.path);
        is_layer(&rule_made, asked).then(|| Reply::status(307).with("Location", to))
    })
    .await;
    own.set(fake.address).unwrap();
    let mut options = credentials(&fake);
    let store = store(world.path());
    let registries = Registries::new(options.clone()).unwrap();
    let error = pull_with(&store, &fake, &registries).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Source(SourceError::PlainHttp(_))),
        "{error}"
    );

    options.plain_http.push(storage.address.to_string());
    let registries = Registries::new(options).unwrap();
    pull_with(&store, &fake, &registries).await.unwrap();
    assert_eq!(storage.asked().len(), 1);
    assert_eq!(storage.asked()[0].header("authorization"), None);
    assert_eq!(fake.count("/token"), 2);
}

/// A registry that has a token for each of its repositories.
async fn with_tokens(token: String) -> Fake {
    let made = made();
    let own = Arc::new(std::sync::OnceLock::new());
    let address = Arc::clone(&own);
    let manifest = made.manifest.clone();
    let fake = Fake::start(&made, move |asked| {
        if asked.path.starts_with("/token?") {
            let token = format!(r#"{{"token":"{token}","expires_in":86400}}"#);
            return Some(Reply::ok(token));
        }
        if asked.header("authorization").is_none() {
            let realm = format!("Bearer realm=\"http://{}/token\"", address.get().unwrap());
            return Some(Reply::status(401).with("WWW-Authenticate", realm));
        }
        Some(Reply::ok(manifest.clone()))
    })
    .await;
    own.set(fake.address).unwrap();
    fake
}

/// The memory of a node does not grow with the repositories of a registry.
#[tokio::test]
async fn tokens_of_many_repositories_are_not_all_kept() {
    let fake = with_tokens("a".repeat(4096)).await;
    let registries = fake.registries();
    let resolve = async |number: usize| {
        let reference = format!("{}/r{number}:tag", fake.address).parse().unwrap();
        let source = registries.source(&reference);
        source.resolve(&Platform::host()).await.unwrap();
        fake.count(&format!("/token?scope=repository%3Ar{number}%3A"))
    };
    for number in 0..1100 {
        assert_eq!(resolve(number).await, 1);
    }
    assert_eq!(resolve(1099).await, 1, "the newest is kept");
    assert_eq!(resolve(0).await, 2, "the oldest went");
}

#[tokio::test]
async fn token_that_no_registry_gives_is_refused() {
    for length in [16 << 10, 64 << 10] {
        let world = tempfile::tempdir().unwrap();
        let fake = with_tokens("a".repeat(length)).await;
        let error = pull(&store(world.path()), &fake).await.unwrap_err();
        assert!(
            matches!(error, StoreError::Source(SourceError::TooLarge { .. })),
            "{error}"
        );
    }
}

#[tokio::test]
async fn redirects_without_end_or_sense_are_refused() {
    for to in ["/v2/again", "file:///etc/passwd", "//elsewhere/x", ""] {
        let world = tempfile::tempdir().unwrap();
        let fake = Fake::start(&made(), move |_| {
            Some(Reply::status(302).with("Location", to))
        })
        .await;
        let error = pull(&store(world.path()), &fake).await.unwrap_err();
        let refused = matches!(error, StoreError::Source(SourceError::Protocol { .. }));
        assert!(refused && fake.asked().len() <= 6, "{error}");
    }
}

#[tokio::test]
async fn tls_is_the_default_and_a_configured_ca_is_trusted() {
    let world = tempfile::tempdir().unwrap();
    let made = made();
    let key = rcgen::generate_simple_self_signed(["127.0.0.1".into()]).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(
        rustls::crypto::aws_lc_rs::default_provider().into(),
    )
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(
        vec![key.cert.der().clone()],
        rustls_pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap(),
    )
    .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let fake = Fake::start_tls(&made, |_| None, Some(acceptor)).await;
    let mut options = RegistryOptions {
        plain_http: Vec::new(),
        ..fake.options()
    };
    let store = store(world.path());
    let anonymous = Registries::new(options.clone()).unwrap();
    let error = pull_with(&store, &fake, &anonymous).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Source(SourceError::Connection { .. })),
        "{error}"
    );
    options.authorities.push(key.cert.pem());
    let friends = Registries::new(options).unwrap();
    pull_with(&store, &fake, &friends).await.unwrap();
}
