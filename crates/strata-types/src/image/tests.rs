//! Names as people write them, in full, and names that nobody should.

use proptest::prelude::*;

use super::*;

const HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn full(text: &str) -> String {
    text.parse::<Reference>().unwrap().to_string()
}

fn refused(text: &str) -> ReferenceError {
    text.parse::<Reference>().unwrap_err()
}

#[test]
fn short_names_are_shown_in_full() {
    for (given, expected) in [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.27", "docker.io/library/nginx:1.27"),
        ("library/nginx", "docker.io/library/nginx:latest"),
        ("me/app_x/y__z:a", "docker.io/me/app_x/y__z:a"),
        ("index.docker.io/nginx", "docker.io/library/nginx:latest"),
        (
            "docker.io/library/nginx:1.27",
            "docker.io/library/nginx:1.27",
        ),
        ("localhost/a", "localhost/a:latest"),
        ("Registry.Local:5000/a", "registry.local:5000/a:latest"),
        ("[::1]:5000/a/b:t", "[::1]:5000/a/b:t"),
        ("registry:5000", "docker.io/library/registry:5000"),
        ("oci:/srv/images/web", "oci:/srv/images/web"),
        ("oci:/srv/a:b/web:v1", "oci:/srv/a:b/web:v1"),
        (
            "docker-archive:/srv/web:1.tar",
            "docker-archive:/srv/web:1.tar",
        ),
    ] {
        assert_eq!(full(given), expected, "{given}");
    }
}

#[test]
fn digests_stay_beside_tags() {
    let pinned = format!("registry:5000/x/y@sha256:{HEX}");
    assert_eq!(full(&pinned), pinned);
    let both = format!("localhost:5000/a:tag@sha256:{HEX}");
    let Reference::Registry(reference) = both.parse().unwrap() else {
        panic!("not in a registry")
    };
    assert_eq!(reference.host(), "localhost:5000");
    assert_eq!(reference.repository(), "a");
    assert_eq!(reference.tag(), Some("tag"));
    assert_eq!(reference.digest(), Some(Digest::of(b"")));
}

#[test]
fn hostile_names_are_refused_with_their_reason() {
    assert_eq!(refused(""), ReferenceError::Empty);
    assert_eq!(refused("a\nb"), ReferenceError::Character('\n'));
    assert_eq!(refused("a b"), ReferenceError::Character(' '));
    assert_eq!(refused("a?x=y"), ReferenceError::Character('?'));
    assert_eq!(refused("a%2f"), ReferenceError::Character('%'));
    assert_eq!(refused("ngińx"), ReferenceError::Character('ń'));
    assert_eq!(
        refused("https://x/y"),
        ReferenceError::Scheme("https://".into())
    );
    assert_eq!(
        refused("docker://x"),
        ReferenceError::Scheme("docker://".into())
    );
    assert_eq!(refused("Nginx"), ReferenceError::UpperCase("Nginx".into()));
    // It would be read again as docker.io/registry/app.
    assert_eq!(
        refused("Registry/app"),
        ReferenceError::UpperCase("Registry".into())
    );
    assert_eq!(refused("r.io/../x"), ReferenceError::Part("..".into()));
    assert_eq!(refused("r.io//x"), ReferenceError::Part(String::new()));
    assert_eq!(refused("r.io/a..b"), ReferenceError::Part("a..b".into()));
    assert_eq!(refused("r.io/a/"), ReferenceError::Part(String::new()));
    assert_eq!(refused("a:"), ReferenceError::Tag(String::new()));
    assert_eq!(refused("a:-x"), ReferenceError::Tag("-x".into()));
    assert_eq!(refused("h:0/a"), ReferenceError::Host("h:0".into()));
    assert_eq!(refused("h:99999/a"), ReferenceError::Host("h:99999".into()));
    assert_eq!(refused("[::1/a"), ReferenceError::Host("[::1".into()));
    assert_eq!(
        refused("user@host/a"),
        ReferenceError::Digest(DigestError::NoAlgorithm)
    );
    assert_eq!(refused("oci:"), ReferenceError::NoPath("oci:"));
    assert_eq!(refused("oci::v1"), ReferenceError::NoPath("oci:"));
    assert_eq!(
        refused("docker-archive:"),
        ReferenceError::NoPath("docker-archive:")
    );
    assert!(matches!(
        refused(&"a".repeat(300)),
        ReferenceError::RepositoryTooLong(_)
    ));
    assert!(matches!(
        refused(&"a".repeat(5000)),
        ReferenceError::TooLong(5000)
    ));
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,80}") {
        let _ = text.parse::<Reference>();
    }

    #[test]
    fn any_text_of_their_letters_reads_back_what_it_shows(
        text in "(oci:|docker-archive:|)[a-zA-Z0-9.:/@_\\-\\[\\]]{0,40}"
    ) {
        if let Ok(reference) = text.parse::<Reference>() {
            prop_assert_eq!(reference.to_string().parse(), Ok(reference));
        }
    }

    #[test]
    fn well_formed_names_are_taken(
        host in "[a-z][a-z0-9]{0,10}\\.[a-z]{2,3}(:[1-9][0-9]{0,3})?",
        repository in "[a-z0-9]{1,8}((\\.|_|__|-{1,3})[a-z0-9]{1,5}){0,2}(/[a-z0-9]{1,8}){0,3}",
        tag in "[A-Za-z0-9_][A-Za-z0-9._-]{0,30}",
        pinned: bool,
    ) {
        let mut text = format!("{host}/{repository}:{tag}");
        if pinned {
            text = format!("{text}@sha256:{HEX}");
        }
        prop_assert_eq!(full(&text), text);
    }
}
