//! What was looked at beside a shard's load, on the time axis of the whole.

use std::io::{self, Write};
use std::path::Path;

/// Copies a table whose column `column` holds moments, ns from the run's start, of a run that began
/// `by` ns later than that of all. A last line that is cut stays cut.
///
/// # Errors
/// If it cannot be read or written, or has no such column.
pub fn shift_table(from: &Path, out: &mut dyn Write, column: &str, by: u64) -> io::Result<()> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_path(from)?;
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(out);
    let head = reader.headers()?.clone();
    let place = head.iter().position(|name| name == column).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("it has no column {column}"))
    })?;
    writer.write_record(&head)?;
    for row in reader.into_records().map_while(Result::ok) {
        let moved = |(number, cell): (usize, &str)| match cell.parse::<u64>() {
            Ok(at) if number == place => at.saturating_add(by).to_string(),
            _ => cell.to_owned(),
        };
        writer.write_record(row.iter().enumerate().map(moved))?;
    }
    writer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_move_and_all_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        std::fs::write(&path, "url,t_ns,n\n\"a,b\",5,5\n,x,7\nc,7").unwrap();
        let mut out = Vec::new();
        shift_table(&path, &mut out, "t_ns", 100).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "url,t_ns,n\n\"a,b\",105,5\n,x,7\nc,107\n");
        assert!(shift_table(&path, &mut Vec::new(), "none", 1).is_err());
        assert!(shift_table(&dir.path().join("b"), &mut Vec::new(), "t_ns", 1).is_err());
    }
}
