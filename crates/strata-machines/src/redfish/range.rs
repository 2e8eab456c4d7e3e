//! The header `Range`, as far as BMCs use it: one piece. RFC 9110, 14.

/// Which bytes, up to and without the last.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ByteRange {
    All,
    Part(u64, u64),
    /// There are no such bytes.
    Nothing,
}

/// A header that cannot be parsed is treated as absent.
pub(super) fn parse(header: Option<&str>, len: u64) -> ByteRange {
    let piece = header.and_then(|header| header.trim().strip_prefix("bytes="));
    let Some((from, to)) = piece.and_then(|piece| piece.split_once('-')) else {
        return ByteRange::All;
    };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (from, end) = match (from.trim(), to.trim()) {
        ("", last) => match number(last) {
            Some(last) => (len.saturating_sub(last), len),
            None => return ByteRange::All,
        },
        (from, "") => match number(from) {
            Some(from) => (from, len),
            None => return ByteRange::All,
        },
        (from, to) => match (number(from), number(to)) {
            (Some(from), Some(to)) if from <= to => (from, len.min(to.saturating_add(1))),
            _ => return ByteRange::All,
        },
    };
    if from < end {
        ByteRange::Part(from, end)
    } else {
        ByteRange::Nothing
    }
}

#[cfg(test)]
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    use super::ByteRange::{All, Nothing, Part};
    use super::*;

    #[test]
    fn single_range_is_served_and_invalid_ranges_get_the_whole_file() {
        let of = |header| parse(Some(header), 100);
        assert_eq!(parse(None, 100), All);
        assert_eq!(of("bytes=0-9"), Part(0, 10));
        assert_eq!(of("bytes=90-"), Part(90, 100));
        assert_eq!(of("bytes=-5"), Part(95, 100));
        assert_eq!(of("bytes=50-1000"), Part(50, 100));
        assert_eq!(of("bytes=0-18446744073709551615"), Part(0, 100));
        assert_eq!(of("bytes=100-"), Nothing);
        assert_eq!(of("bytes=-0"), Nothing);
        for odd in [
            "bytes=9-0",
            "bytes=a-b",
            "lines=1-2",
            "bytes=0-1,3-4",
            "bytes=",
        ] {
            assert_eq!(of(odd), All, "{odd}");
        }
        assert_eq!(parse(Some("bytes=-5"), 0), Nothing);
    }

    #[test]
    fn seeds_and_their_prefixes_are_read_or_refused() {
        replay::replay(&[("http_range", |data| {
            let text = String::from_utf8_lossy(data);
            if let Part(from, to) = parse(Some(&text), 100) {
                assert!(from < to && to <= 100);
            }
        })]);
    }
}
