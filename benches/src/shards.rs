//! Shards of many hosts, made of one that was really run: the others are its copies under their own
//! number, with the requests that would have been theirs. So all figures of a whole are known beforehand.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokclock_engine::run::REQUESTS_FILE;
use tokclock_engine::shard::{SHARD_FILE, ShardFile};
use tokclock_engine::workload::Shard;

/// Shard 0 of a load, and what it takes to make the others of it.
#[derive(Debug)]
pub struct Template {
    dir: PathBuf,
    file: Value,
    of: u32,
    rows: Vec<Value>,
}

impl Template {
    /// Reads shard 0 from its result directory.
    ///
    /// # Errors
    /// If there is none, or it is another.
    pub fn read(dir: &Path) -> io::Result<Self> {
        let text = fs::read(dir.join(SHARD_FILE))?;
        let Shard { index, of } = ShardFile::read(&text).map_err(io::Error::other)?.header.shard;
        if index != 0 {
            return Err(io::Error::other(format!("{}: shard {index} is not 0", dir.display())));
        }
        let rows = fs::read_to_string(dir.join(REQUESTS_FILE))?;
        let rows = rows.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        Ok(Self { dir: dir.to_owned(), file: serde_json::from_slice(&text)?, of, rows })
    }

    /// How many requests each shard holds.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.rows.len()
    }

    /// How many hosts share the load.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        self.of
    }

    /// Writes all shards, each into a directory of `into`; with their requests or without.
    ///
    /// # Errors
    /// If something cannot be written.
    pub fn write_all(&self, into: &Path, with_requests: bool) -> io::Result<()> {
        (0..self.of).try_for_each(|index| {
            let dir = into.join(index.to_string());
            fs::create_dir_all(&dir)?;
            self.write(&dir, index, with_requests)
        })
    }

    fn write(&self, dir: &Path, index: u32, with_requests: bool) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let ours = [SHARD_FILE, REQUESTS_FILE].map(Into::into);
            if entry.file_type()?.is_file() && !ours.contains(&entry.file_name()) {
                fs::copy(entry.path(), dir.join(entry.file_name()))?;
            }
        }
        let mut file = self.file.clone();
        file["shard"]["index"] = index.into();
        fs::write(dir.join(SHARD_FILE), serde_json::to_vec(&file)?)?;
        if !with_requests {
            return Ok(());
        }
        let mut out = BufWriter::new(fs::File::create(dir.join(REQUESTS_FILE))?);
        for row in &self.rows {
            serde_json::to_writer(&mut out, &theirs(row, index))?;
            out.write_all(b"\n")?;
        }
        out.flush()
    }
}

/// A request of shard 0 as the shard of this index would have sent it.
fn theirs(row: &Value, index: u32) -> Value {
    let mut row = row.clone();
    let item = row["index"].as_u64().unwrap_or_default() + u64::from(index);
    row["index"] = item.into();
    if let Some((run, _)) = row["request_id"].as_str().and_then(|id| id.rsplit_once('-')) {
        row["request_id"] = format!("{run}-{item}").into();
    }
    row
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;
    use tokclock_engine::shard::{ClockMoment, Header};

    use super::*;

    #[test]
    fn copies_hold_every_request_of_the_load_once() {
        let dir = tempfile::tempdir().unwrap();
        let one = dir.path().join("one");
        fs::create_dir(&one).unwrap();
        let header = Header {
            shard: Shard::new(0, 3).unwrap(),
            plan: "sha256:0".into(),
            seed: 7,
            run_id: "ab".into(),
            start_at_ns: None,
            version: "0.1.0".into(),
            host: Value::Null,
        };
        let file = ShardFile::begun(header, ClockMoment { monotonic_ns: 1, realtime_ns: 2 }, None);
        fs::write(one.join(SHARD_FILE), serde_json::to_vec(&file).unwrap()).unwrap();
        fs::write(one.join("seconds.hlog"), "as it is").unwrap();
        let row = |index: u64| json!({"index": index, "request_id": format!("ab-{index}")});
        let rows = format!("{}\n{}\n", row(0), row(3));
        fs::write(one.join(REQUESTS_FILE), rows).unwrap();

        let template = Template::read(&one).unwrap();
        assert_eq!((template.requests(), template.hosts()), (2, 3));
        let all = dir.path().join("all");
        template.write_all(&all, true).unwrap();
        let mut found = BTreeSet::new();
        for index in 0..3 {
            let dir = all.join(index.to_string());
            let file = ShardFile::read(&fs::read(dir.join(SHARD_FILE)).unwrap()).unwrap();
            assert_eq!(file.header.shard, Shard::new(index, 3).unwrap());
            assert_eq!(fs::read_to_string(dir.join("seconds.hlog")).unwrap(), "as it is");
            for line in fs::read_to_string(dir.join(REQUESTS_FILE)).unwrap().lines() {
                let row: Value = serde_json::from_str(line).unwrap();
                let index = row["index"].as_u64().unwrap();
                assert_eq!(row["request_id"], format!("ab-{index}"));
                assert!(found.insert(index), "{index} twice");
            }
        }
        assert_eq!(found, (0..6).collect());
        let without = dir.path().join("without");
        template.write_all(&without, false).unwrap();
        assert!(!without.join("2").join(REQUESTS_FILE).exists());
        assert!(Template::read(&all.join("1")).is_err(), "shard 1 is no template");
    }
}
