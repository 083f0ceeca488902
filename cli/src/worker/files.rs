//! The files of a result on their way from a worker, in pieces that are deflated one by one.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use tokclock_engine::shard::message::Reply;

/// Bytes of a file in one piece.
const PIECE_BYTES: usize = 1 << 20;

/// Hands every file in `dir` to `say`, piece by piece, in the order of names. What is no plain file is
/// left out.
///
/// # Errors
/// If one cannot be read.
pub(super) fn send(dir: &Path, mut say: impl FnMut(&Reply)) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if entry.file_type()?.is_file() && is_name(&name) {
            names.push(name);
        }
    }
    names.sort();
    for name in names {
        send_file(&dir.join(&name), &name, &mut say)?;
    }
    Ok(())
}

fn send_file(path: &Path, name: &str, say: &mut impl FnMut(&Reply)) -> io::Result<()> {
    let mut file = File::open(path)?;
    loop {
        let mut piece = Vec::new();
        (&mut file).take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
        let last = piece.len() < PIECE_BYTES;
        let mut deflated = ZlibEncoder::new(Vec::new(), Compression::fast());
        deflated.write_all(&piece)?;
        let data = STANDARD.encode(deflated.finish()?);
        say(&Reply::File { name: name.to_owned(), data, last });
        if last {
            return Ok(());
        }
    }
}

/// Writes into a directory what a worker sends.
#[derive(Debug)]
pub(crate) struct Receiving {
    dir: PathBuf,
    open: Option<(String, File)>,
}

impl Receiving {
    /// Into `dir`, which is made.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn begin(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        Ok(Self { dir: dir.to_owned(), open: None })
    }

    /// Takes a piece.
    ///
    /// # Errors
    /// A piece that is none, or a file that cannot be written.
    pub(crate) fn take(&mut self, name: &str, data: &str, last: bool) -> io::Result<()> {
        if !is_name(name) {
            return Err(io::Error::other("a file whose name is none"));
        }
        let deflated = STANDARD.decode(data).map_err(io::Error::other)?;
        let mut piece = Vec::new();
        // One byte more than there can be shows that there is more.
        let most = PIECE_BYTES as u64 + 1;
        ZlibDecoder::new(&deflated[..]).take(most).read_to_end(&mut piece)?;
        if piece.len() > PIECE_BYTES {
            return Err(io::Error::other(format!("{name}: a piece that is too long")));
        }
        let (own, mut file) = match self.open.take() {
            Some((own, file)) if own == name => (own, file),
            _ => (name.to_owned(), File::create(self.dir.join(name))?),
        };
        file.write_all(&piece)?;
        self.open = (!last).then_some((own, file));
        Ok(())
    }
}

/// Whether this is the name of a file of a result: nothing that leads elsewhere, nothing hidden.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.len() <= 100 && name.chars().all(fits)
}

/// Where the results of a load of this name lie below `root`; `None` if it is no such name.
#[must_use]
pub(super) fn place(root: &Path, name: &str) -> Option<PathBuf> {
    const DEPTH_MAX: usize = 4;
    let parts: Vec<&str> = name.split('/').collect();
    let is_place = parts.len() <= DEPTH_MAX && parts.iter().all(|part| is_name(part));
    is_place.then(|| parts.iter().fold(root.to_owned(), |path, part| path.join(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_arrive_as_they_were() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let long: Vec<u8> = (0..PIECE_BYTES * 2 + 77).map(|at| (at * 31 % 251) as u8).collect();
        let whole = vec![b'x'; PIECE_BYTES];
        for (name, bytes) in [("a.jsonl", &long), ("b.json", &whole), ("c.csv", &Vec::new())] {
            fs::write(from.path().join(name), bytes).unwrap();
        }
        fs::write(from.path().join(".b.json.part"), "x").unwrap();
        fs::create_dir(from.path().join("levels")).unwrap();
        let mut receiving = Receiving::begin(&to.path().join("0")).unwrap();
        let mut pieces = 0;
        send(from.path(), |reply| {
            let Reply::File { name, data, last } = reply else { unreachable!("only files") };
            receiving.take(name, data, *last).unwrap();
            pieces += 1;
        })
        .unwrap();
        assert_eq!(pieces, 3 + 2 + 1);
        for name in ["a.jsonl", "b.json", "c.csv"] {
            let there = fs::read(to.path().join("0").join(name)).unwrap();
            assert_eq!(there, fs::read(from.path().join(name)).unwrap(), "{name}");
        }
        assert_eq!(fs::read_dir(to.path().join("0")).unwrap().count(), 3);
    }

    #[test]
    fn a_worker_writes_nowhere_else_and_not_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut receiving = Receiving::begin(&dir.path().join("in")).unwrap();
        let deflate = |bytes: &[u8]| {
            let mut to = ZlibEncoder::new(Vec::new(), Compression::fast());
            to.write_all(bytes).unwrap();
            STANDARD.encode(to.finish().unwrap())
        };
        let fine = deflate(b"x");
        for name in ["../x", "/etc/x", "", ".x", "a/b", "..", "a\0b"] {
            assert!(receiving.take(name, &fine, true).is_err(), "{name:?}");
        }
        assert!(receiving.take("x", "no base64!", true).is_err());
        assert!(receiving.take("x", "AAAA", true).is_err());
        let bomb = deflate(&vec![0; PIECE_BYTES + 1]);
        assert!(receiving.take("x", &bomb, true).is_err());
        assert!(receiving.take("x", &fine, true).is_ok());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn places_lie_below_the_root() {
        let root = Path::new("/r");
        assert_eq!(place(root, "levels/03-2").unwrap(), Path::new("/r/levels/03-2"));
        for wrong in ["", "/x", "..", "a/../b", "a//b", "a/b/c/d/e", ".x"] {
            assert_eq!(place(root, wrong), None, "{wrong}");
        }
    }
}
