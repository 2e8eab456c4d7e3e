//! Numbers as people read them: three digits are enough.

use jiff::Timestamp;

/// `12MiB`, `1.5GiB`, `980B`.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n}B");
    }
    let mut size = n as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would print as 1024.0.
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    let unit = UNITS[unit];
    let rounded = (size * 10.0).round() / 10.0;
    if rounded.fract() == 0.0 || rounded >= 100.0 {
        format!("{rounded:.0}{unit}")
    } else {
        format!("{rounded:.1}{unit}")
    }
}

/// `1 instance`, `2 instances`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    match n {
        1 => format!("1 {noun}"),
        n => format!("{n} {noun}s"),
    }
}

/// Thousandths of a core as cores: `0.5`, `2`; nothing is `-`.
pub(crate) fn cores(thousandths: i64) -> String {
    match thousandths {
        ..=0 => "-".to_owned(),
        n => format!("{}", n as f64 / 1000.0),
    }
}

/// MB: `256MB`, `1.5GB`; nothing is `-`.
pub(crate) fn megabytes(n: i64) -> String {
    amount(n, &["MB", "GB", "TB", "PB"])
}

/// GB: `20GB`, `1.5TB`; nothing is `-`.
pub(crate) fn gigabytes(n: i64) -> String {
    amount(n, &["GB", "TB", "PB"])
}

fn amount(n: i64, units: &[&str]) -> String {
    if n <= 0 {
        return "-".to_owned();
    }
    let mut size = n as f64;
    let mut unit = 0;
    while size >= 999.95 && unit + 1 < units.len() {
        size /= 1000.0;
        unit += 1;
    }
    let unit = units[unit];
    let rounded = (size * 10.0).round() / 10.0;
    if rounded.fract() == 0.0 || rounded >= 100.0 {
        format!("{rounded:.0}{unit}")
    } else {
        format!("{rounded:.1}{unit}")
    }
}

/// The age of something: `5s`, `3m12s`, `4h`, `12d`.
pub(crate) fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    match since {
        None => "-".to_owned(),
        Some(since) => seconds(now.as_second().saturating_sub(since.as_second()).max(0)),
    }
}

/// A length of time: two units while it is short, one when it is long.
pub(crate) fn seconds(s: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 3600;
    const DAY: i64 = 86_400;
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match s {
        ..MINUTE => format!("{s}s"),
        MINUTE..600 => two(s / MINUTE, "m", s % MINUTE, "s"),
        600..HOUR => format!("{}m", s / MINUTE),
        HOUR..36_000 => two(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        36_000..172_800 => format!("{}h", s / HOUR),
        _ => format!("{}d", s / DAY),
    }
}

/// Time on a cpu: `0.02s`, `12.3s`, `1h2m`.
pub(crate) fn cpu_time(usec: u64) -> String {
    match usec as f64 / 1e6 {
        short if short < 10.0 => format!("{short:.2}s"),
        middle if middle < 60.0 => format!("{middle:.1}s"),
        long => seconds(long as i64),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_take_three_digits() {
        for (n, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1KiB"),
            (1536, "1.5KiB"),
            (64 << 20, "64MiB"),
            ((1 << 20) - 1, "1MiB"),
            (123 << 20, "123MiB"),
            (u64::MAX, "16EiB"),
        ] {
            assert_eq!(bytes(n), text);
        }
    }

    #[test]
    fn amounts_of_the_api_read_as_they_are_written() {
        assert_eq!([cores(500), cores(2000), cores(0)], ["0.5", "2", "-"]);
        let mb = [256, 1_500, 64_000, 1_000_000, 0].map(megabytes);
        assert_eq!(mb, ["256MB", "1.5GB", "64GB", "1TB", "-"]);
        assert_eq!([20, 1_500].map(gigabytes), ["20GB", "1.5TB"]);
    }

    #[test]
    fn ages_read_like_those_of_other_tools() {
        for (s, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (192, "3m12s"),
            (660, "11m"),
            (3600, "1h"),
            (5400, "1h30m"),
            (36_000, "10h"),
            (172_800, "2d"),
        ] {
            assert_eq!(seconds(s), text);
        }
        let now = Timestamp::from_second(1000).unwrap();
        assert_eq!(age(None, now), "-");
        assert_eq!(age(Timestamp::from_second(1001).ok(), now), "0s");
    }

    #[test]
    fn cpu_times_keep_what_matters() {
        for (usec, text) in [
            (20_000, "0.02s"),
            (12_340_000, "12.3s"),
            (3_720_000_000, "1h2m"),
        ] {
            assert_eq!(cpu_time(usec), text);
        }
    }

    proptest! {
        #[test]
        fn sizes_stay_short(n: u64) {
            prop_assert!(bytes(n).len() <= 8, "{}", bytes(n));
        }

        #[test]
        fn ages_stay_short(s in 0i64..10_000_000_000) {
            prop_assert!(seconds(s).len() <= 7, "{}", seconds(s));
        }
    }
}
