//! Recurring times, in the syntax of a crontab: minute, hour, day of the month,
//! month, day of the week (0 and 7 are Sunday), each `*`, a number, a range, a
//! step or a list of them; in UTC.
//!
//! As in every cron, a time fits when either of the two days does, where both
//! are restricted.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether each of the days is `*`.
    any_day: bool,
    any_weekday: bool,
}

/// Nothing comes later than this: leap days come every eight years at worst.
const LONGEST_DAYS: i64 = 366 * 9;

impl FromStr for Cron {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = match text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            other => other,
        };
        let fields: Vec<&str> = named.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err("must have five fields, such as 30 2 * * *".into());
        };
        let week = field("day of the week", weekdays, 0, 7)?;
        Ok(Self {
            minutes: field("minute", minutes, 0, 59)?,
            hours: field("hour", hours, 0, 23)?,
            days: field("day", days, 1, 31)?,
            months: field("month", months, 1, 12)?,
            // Sunday has two numbers.
            weekdays: (week | week >> 7) & 0x7f,
            any_day: *days == "*",
            any_weekday: *weekdays == "*",
        })
    }
}

/// The numbers that a field names, as bits.
fn field(what: &str, text: &str, least: u32, most: u32) -> Result<u64, String> {
    let bad = || format!("{what} {text:?} must be {least} to {most}: *, 5, 1-5, */15 or 1,2,9");
    let number = |text: &str| {
        let number: u32 = text.parse().map_err(|_| bad())?;
        match (least..=most).contains(&number) {
            true => Ok(number),
            false => Err(bad()),
        }
    };
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse::<u32>().map_err(|_| bad())?),
            None => (part, 1),
        };
        if step == 0 {
            return Err(bad());
        }
        let (first, last) = match range {
            "*" => (least, most),
            range => match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None if part.contains('/') => (number(range)?, most),
                None => (number(range)?, number(range)?),
            },
        };
        if first > last {
            return Err(bad());
        }
        for number in (first..=last).step_by(step as usize) {
            bits |= 1 << number;
        }
    }
    Ok(bits)
}

fn has(bits: u64, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|number| bits >> number & 1 == 1)
}

impl Cron {
    /// The first time after this one, in Unix milliseconds. None when there is
    /// none, as for the 30th of February.
    pub(crate) fn after(&self, ms: i64) -> Option<i64> {
        let from = Timestamp::from_millisecond(ms).ok()?;
        let from = from.to_zoned(TimeZone::UTC).datetime();
        let mut day = from.date();
        for ahead in 0..LONGEST_DAYS {
            if self.fits_day(day) {
                let begin = match ahead {
                    0 => (from.hour(), from.minute() + 1),
                    _ => (0, 0),
                };
                if let Some((hour, minute)) = self.in_day(begin) {
                    let at = day.at(hour, minute, 0, 0);
                    return unix_ms(at);
                }
            }
            day = day.tomorrow().ok()?;
        }
        None
    }

    fn fits_day(&self, day: jiff::civil::Date) -> bool {
        let weekday = day.weekday().to_sunday_zero_offset();
        let (date, week) = (has(self.days, day.day()), has(self.weekdays, weekday));
        let fits = match (self.any_day, self.any_weekday) {
            (false, false) => date || week,
            _ => date && week,
        };
        fits && has(self.months, day.month())
    }

    /// The first hour and minute of a day, not before these.
    fn in_day(&self, (hour, minute): (i8, i8)) -> Option<(i8, i8)> {
        let hours = (hour..24).filter(|it| has(self.hours, *it));
        for found in hours {
            let begin = if found == hour { minute } else { 0 };
            let mut minutes = (begin..60).filter(|it| has(self.minutes, *it));
            if let Some(minute) = minutes.next() {
                return Some((found, minute));
            }
        }
        None
    }
}

fn unix_ms(at: DateTime) -> Option<i64> {
    let zoned = at.to_zoned(TimeZone::UTC).ok()?;
    Some(zoned.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn next(cron: &str, from: &str) -> String {
        let from: Timestamp = from.parse().unwrap();
        let cron: Cron = cron.parse().unwrap();
        let ms = cron.after(from.as_millisecond()).unwrap();
        Timestamp::from_millisecond(ms).unwrap().to_string()
    }

    #[test]
    fn cron_times_match_the_crontab() {
        let from = "2026-11-15T10:17:42Z"; // a Sunday
        assert_eq!(next("30 2 * * *", from), "2026-11-16T02:30:00Z");
        assert_eq!(next("*/15 * * * *", from), "2026-11-15T10:30:00Z");
        assert_eq!(next("17 10 * * *", from), "2026-11-16T10:17:00Z");
        assert_eq!(next("0 0 * * 1", from), "2026-11-16T00:00:00Z");
        assert_eq!(next("0 0 * * 7", from), "2026-11-22T00:00:00Z");
        assert_eq!(next("0 12 1 1 *", from), "2027-01-01T12:00:00Z");
        assert_eq!(next("0 0 29 2 *", from), "2028-02-29T00:00:00Z");
        assert_eq!(
            next("0 0 20 * 1", from),
            "2026-11-16T00:00:00Z",
            "either day"
        );
        assert_eq!(next("@monthly", from), "2026-12-01T00:00:00Z");
    }

    #[test]
    fn invalid_cron_expression_is_refused() {
        for bad in [
            "",
            "* * * *",
            "60 * * * *",
            "* * 0 * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "a * * * *",
        ] {
            assert!(bad.parse::<Cron>().is_err(), "{bad:?}");
        }
        let never: Cron = "0 0 30 2 *".parse().unwrap();
        assert_eq!(never.after(0), None);
    }

    proptest! {
        #[test]
        fn next_cron_time_is_later_and_none_is_skipped(
            minute in 0..60u32, hour in 0..24u32, from in 0..4_000_000_000_000i64,
        ) {
            let cron: Cron = format!("{minute} {hour} * * *").parse().unwrap();
            let found = cron.after(from).unwrap();
            prop_assert!(found > from && found - from <= 24 * 3600 * 1000);
            prop_assert_eq!(found / 60_000 % 60, i64::from(minute));
            prop_assert_eq!(found / 3_600_000 % 24, i64::from(hour));
        }
    }

    #[test]
    fn seeds_and_their_prefixes_are_read_or_refused() {
        crate::replay::replay(&[("cron", |data| {
            if let Ok(cron) = String::from_utf8_lossy(data).parse::<Cron>() {
                let now = 1_709_164_799_000;
                assert!(cron.after(now).is_none_or(|next| next > now));
            }
        })]);
    }
}
