//! Certificates, credentials and callers, over real TLS.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod ca;
mod callers;
mod credentials;
mod tls;
