//! How faces are reached: TLS and Unix listeners, the caller's identity, the authorization gate.
