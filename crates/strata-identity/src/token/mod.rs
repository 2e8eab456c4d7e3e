//! Tokens: secrets that prove a caller where a certificate is not at hand.
//! `text` is how they are written, `record` is what is kept of them, `store`
//! is the file and the rules.

mod record;
mod store;
pub(crate) mod text;

pub use record::{JoinBinding, TokenInfo, TokenKind};
pub use store::{TokenError, Tokens};
pub use text::{JoinToken, TokenText};
