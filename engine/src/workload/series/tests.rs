//! Series that are read and refused, and their figures.

use super::*;

fn read(text: &str) -> RateSeries {
    text.parse().unwrap()
}

fn refusal(text: &str) -> String {
    text.parse::<RateSeries>().unwrap_err().to_string()
}

fn from_file(lines: &str) -> Result<RateSeries, SeriesError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines).unwrap();
    format!("file:{}", file.path().display()).parse()
}

#[test]
fn steps_and_ramps_are_read() {
    let steps = read("50@2s, 100@2s");
    assert_eq!(steps.duration_ns(), Some(4_000_000_000));
    assert_eq!(steps.arrivals_expected(), 300.0);
    let rates = [0, 1_999_999_999, 2_000_000_000, 4_000_000_000].map(|ns| steps.rate_at(ns));
    assert_eq!(rates, [50.0, 50.0, 100.0, 0.0]);
    let ramp = read("0..100@4s,100@4s");
    assert_eq!(ramp.arrivals_expected(), 600.0);
    assert_eq!(ramp.rate_at(1_000_000_000), 25.0);
    let endless = RateSeries::ramp(100.0, 4_000_000_000).unwrap();
    assert_eq!(endless, read("0..100@4s,100"));
    assert_eq!(endless.duration_ns(), None);
    assert_eq!(endless.arrivals_expected(), f64::INFINITY);
    assert_eq!(endless.rate_at(u64::MAX), 100.0);
    assert_eq!(RateSeries::ramp(5.0, 0).unwrap(), read("5"));
}

#[test]
fn a_series_reads_back_from_its_text() {
    for text in ["50@2s,100@2s", "0..100@4s,0.5", "1..0@1500ms", "3@7ns,2@11us"] {
        assert_eq!(read(text).to_string(), text);
    }
}

#[test]
fn a_file_has_a_rate_from_each_second_to_the_next() {
    let expected = read("10@1s,0@500ms,20@500ms");
    for lines in
        ["seconds,rate\n0,10\n1,0\n1.5,20\n2,\n", "# by hand\r\n0,10\r\n\r\n1,0\r\n1.5,20\r\n2,0"]
    {
        assert_eq!(from_file(lines).unwrap(), expected);
    }
}

#[test]
fn series_that_make_no_sense_are_refused() {
    let cases = [
        ("", "piece 1: rate ``: give requests per second"),
        ("50@2s,x@1s", "piece 2: rate `x`"),
        ("-1@2s", "rate `-1`"),
        ("nan@2s", "rate `nan`"),
        ("1..1e9@2s", "rate `1e9`"),
        ("50@2", "give a time with a unit"),
        ("50@0", "piece 1: it lasts no time"),
        ("50,60@2s", "piece 1: only the last may have no end"),
        ("50..60", "cannot change for ever"),
        ("0@2s,0", "0 throughout"),
        ("file:/no/such", "/no/such: it cannot be read"),
    ];
    for (text, expected) in cases {
        let found = refusal(text);
        assert!(found.contains(expected), "{text}: {found}");
    }
    assert!(RateSeries::ramp(f64::NAN, 1).is_err());
    let long = Piece { duration_ns: u64::MAX - 1, from: 1.0, to: 1.0 };
    let text = RateSeries::new(vec![long; 2]).unwrap_err().to_string();
    assert!(text.contains("over 500 years"), "{text}");
}

#[test]
fn broken_files_are_refused_by_line() {
    let cases = [
        ("0,10\n1,20\n", "line 2: this rate has no end"),
        ("1,10\n2,\n", "line 1: the first line must be at second 0"),
        ("0,10\n0,20\n1,", "line 2: its second must be after"),
        ("0,10\n1,\n2,5\n", "line 3: the series was closed"),
        ("0,10\n5m,5\n", "line 2: `5m`: give seconds"),
        ("0,10\nx,5\n", "line 2: `x`: give seconds"),
        ("0,10\n1,-5\n", "line 2: rate `-5`"),
        ("0 10\n", "line 1: give `seconds,rate`"),
        ("", "rate series of 0 pieces"),
    ];
    for (lines, expected) in cases {
        let found = from_file(lines).unwrap_err().to_string();
        assert!(found.contains(expected), "{lines}: {found}");
    }
}
