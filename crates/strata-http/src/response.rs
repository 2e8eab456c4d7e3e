//! Reading answers. The other side may be broken or hostile: all is bounded.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http_body::Body;
use http_body_util::{BodyExt as _, Limited};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// All of a body; [`http_body_util::LengthLimitError`] if it is larger.
pub async fn collect<B>(body: B, max_bytes: usize) -> Result<Bytes, BoxError>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    Ok(Limited::new(body, max_bytes).collect().await?.to_bytes())
}

/// A text of another side in a line, without what would spoil a terminal or a
/// log.
pub fn one_line(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = one_line.chars().filter(|c| !c.is_control());
    shown.take(300).collect()
}

/// How long `Retry-After` asks to wait: seconds, or a date.
pub fn retry_after(header: &HeaderValue) -> Option<Duration> {
    let text = header.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    let wait = date.duration_since(jiff::Timestamp::now());
    Some(Duration::try_from(wait).unwrap_or_default())
}
