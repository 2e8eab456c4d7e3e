//! Tokens: secrets that prove a caller where a certificate is not at hand.
//! `text` is how they are written, `record` is what is kept of them, `store`
//! is the file and the rules.

mod record;
mod store;
mod text;

pub use record::{TokenInfo, TokenKind};
pub use store::{TokenError, Tokens};
pub use text::{JoinToken, TokenText};
