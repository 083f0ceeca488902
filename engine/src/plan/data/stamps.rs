//! Times of a recording, from text to nanoseconds and back, exactly.

use std::io::Write;

use crate::workload::TimeUnit;

/// A time in ns: a number of `unit`s, or a date-time, counted from 1970 in UTC.
///
/// # Errors
/// Why it is none.
pub(super) fn parse(text: &str, unit: TimeUnit) -> Result<u64, String> {
    let text = text.trim();
    if let Some(time) = decimal(text, unit.places()) {
        return time;
    }
    if let Some(ns) = date_time(text) {
        return u64::try_from(ns).map_err(|_| format!("{text} lies before 1970 or too late"));
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => from_float(number, text, unit.places()),
        _ => Err(format!("{} is no time", shown(text))),
    }
}

/// Appends `ns` as a decimal number of ms.
pub(super) fn write_ms(ns: u64, out: &mut Vec<u8>) {
    const MS: u64 = 1_000_000;
    // Writing into a vector cannot fail.
    let _ = write!(out, "{}", ns / MS);
    if !ns.is_multiple_of(MS) {
        let _ = write!(out, ".{:06}", ns % MS);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

/// A text for a message, cut where it is long.
pub(super) fn shown(text: &str) -> String {
    const CHARS: usize = 40;
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// Digits with at most one point, which need no floating point; `None` for anything else.
fn decimal(text: &str, places: u32) -> Option<Result<u64, String>> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let ns = scaled(whole, fraction, places as usize);
    Some(match ns {
        Some(0) => Ok(0),
        _ if text.starts_with('-') => Err(format!("{} is negative", shown(text))),
        Some(ns) => Ok(ns),
        None => Err(too_large(text)),
    })
}

/// What is finer than a nanosecond is cut off.
fn scaled(whole: &str, fraction: &str, places: usize) -> Option<u64> {
    let mut ns = whole.parse::<u64>().ok()?;
    let mut digits = fraction.bytes();
    for _ in 0..places {
        let digit = digits.next().unwrap_or(b'0') - b'0';
        ns = ns.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(ns)
}

fn from_float(number: f64, text: &str, places: u32) -> Result<u64, String> {
    const LARGEST: f64 = u64::MAX as f64;
    let ns = number * 10_f64.powi(places.cast_signed());
    match ns {
        _ if number < 0.0 => Err(format!("{} is negative", shown(text))),
        _ if ns >= LARGEST => Err(too_large(text)),
        // In range, and cut to a whole number on purpose.
        _ => Ok(ns as u64),
    }
}

fn too_large(text: &str) -> String {
    format!("{} is too large for a time: is its unit right (--time-unit s or ms)?", shown(text))
}

/// `2023-11-16 18:17:03.9799600`, with `T` for the space, and with `Z` or `+01:00` after it;
/// ns since 1970.
fn date_time(text: &str) -> Option<i128> {
    let (date, clock) = text.split_once(['T', ' '])?;
    let mut date = date.split('-').map(small);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let valid = (1..=12).contains(&month) && (1..=31).contains(&day) && date.next().is_none();
    let (clock, offset_s) = split_offset(clock)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut clock = clock.split(':').map(small);
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next().unwrap_or(Some(0))?);
    let in_day = hour < 24 && minute < 60 && second <= 60 && clock.next().is_none();
    if !valid || !in_day || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset_s;
    let ns = scaled("0", fraction, TimeUnit::Seconds.places() as usize)?;
    Some(i128::from(seconds) * 1_000_000_000 + i128::from(ns))
}

/// The clock without its offset from UTC, and that in seconds.
fn split_offset(clock: &str) -> Option<(&str, i64)> {
    let clock = clock.strip_suffix(" UTC").unwrap_or(clock);
    let clock = clock.strip_suffix(['Z', 'z']).unwrap_or(clock);
    let Some(at) = clock.find(['+', '-']) else { return Some((clock, 0)) };
    let (sign, offset) = (if clock[at..].starts_with('-') { -1 } else { 1 }, &clock[at + 1..]);
    let digits = offset.replace(':', "");
    let (hours, minutes) = digits.split_at_checked(2)?;
    let minutes = if minutes.is_empty() { 0 } else { small(minutes)? };
    Some((clock[..at].trim_end(), sign * (small(hours)? * 3_600 + minutes * 60)))
}

/// A number of at most four digits.
fn small(text: &str) -> Option<i64> {
    let is_number = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Days from 1970-01-01 in the Gregorian calendar. A year is taken to begin in March, so that the
/// day that leap years add is its last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let months_since_march = (month + 9) % 12;
    let day_of_year = (153 * months_since_march + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_to_the_nanosecond() {
        for (text, unit, ns) in [
            ("0", TimeUnit::Milliseconds, 0),
            ("-0", TimeUnit::Milliseconds, 0),
            ("1700000000123.456789", TimeUnit::Milliseconds, 1_700_000_000_123_456_789),
            ("1.5", TimeUnit::Seconds, 1_500_000_000),
            ("0.1", TimeUnit::Milliseconds, 100_000),
            ("1e3", TimeUnit::Milliseconds, 1_000_000_000),
        ] {
            assert_eq!(parse(text, unit), Ok(ns), "{text}");
        }
        for text in ["-1", "NaN", "inf", "1e300", "99999999999999999999", "", "soon", "-1e3"] {
            assert!(parse(text, TimeUnit::Milliseconds).is_err(), "{text}");
        }
    }

    #[test]
    fn date_times_are_read_in_all_their_forms() {
        let time = 1_700_158_623_979_960_000;
        for text in [
            "2023-11-16 18:17:03.9799600",
            "2023-11-16T18:17:03.97996Z",
            "2023-11-16 18:17:03.979960+00:00",
            "2023-11-16 20:17:03.979960+02:00",
            "2023-11-16T18:17:03.97996 +0000",
            "2023-11-16 18:17:03.97996 UTC",
        ] {
            assert_eq!(parse(text, TimeUnit::Milliseconds), Ok(time), "{text}");
        }
        let leap = parse("2024-02-29 00:00:00", TimeUnit::Seconds);
        assert_eq!(leap, Ok(1_709_164_800_000_000_000));
        for text in ["2023-13-01 00:00:00", "2023-11-16", "1960-01-01 00:00:00", "2023-1-1 25:00"] {
            assert!(parse(text, TimeUnit::Seconds).is_err(), "{text}");
        }
    }

    #[test]
    fn milliseconds_are_written_as_they_are_read() {
        for ns in [0, 1, 1_000_000, 1_500_000, 1_234_567, 1_700_000_000_123_456_789] {
            let mut text = Vec::new();
            write_ms(ns, &mut text);
            let text = String::from_utf8(text).unwrap();
            assert_eq!(parse(&text, TimeUnit::Milliseconds), Ok(ns), "{text}");
        }
    }
}
