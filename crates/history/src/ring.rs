//! A file of records of one size, each in the place that its number gives it.
//!
//! Principles: record `n` stands in slot `n % slots`, so that there is no head and no index that a crash could leave
//! wrong; each slot ends with a checksum, so that a torn write loses that slot alone; a slot that was never written is
//! a hole in the file, which takes no room. A file that is not ours is put aside, never written into. Non-goals:
//! waiting for the disk: a power cut may lose the last half minute.
//!
//! The file: 64 bytes of head (8 of magic, version, size of a slot and number of slots as little-endian u32, zeros,
//! CRC-32 of all that), then the slots. A slot is the record, then CRC-32 of the record.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// First bytes of a file.
const MAGIC: [u8; 8] = *b"evenkeel";
/// The version that this code writes and reads.
const VERSION: u32 = 1;
/// Bytes of the head.
const HEAD: usize = 64;
/// Bytes of a checksum.
const SUM: usize = 4;
/// Readable by the group, and by nobody else: who uses a line when is not everybody's business.
const MODE: u32 = 0o640;
/// Slots that are read at once.
const AT_ONCE: usize = 1024;

/// Something of a fixed size that has a number.
pub trait Record: Sized {
    /// Bytes.
    const SIZE: usize;
    /// Third word of the head: what kind of records these are.
    const KIND: u32;
    /// So many are kept.
    const SLOTS: u64;
    /// Its number, from which its place follows.
    fn number(&self) -> u64;
    /// Writes it to `to`, which has [`Record::SIZE`] bytes.
    fn encode(&self, to: &mut [u8]);
    /// Reads what [`Record::encode`] wrote; `None`: that is none.
    fn decode(from: &[u8]) -> Option<Self>;
}

/// What was found in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<R> {
    /// Records, by their numbers.
    pub records: Vec<R>,
    /// Slots that hold something that is no record.
    pub damaged: u64,
    /// What else is wrong with the file.
    pub trouble: Option<String>,
}

impl<R> Default for Found<R> {
    fn default() -> Self {
        Found {
            records: Vec::new(),
            damaged: 0,
            trouble: None,
        }
    }
}

/// A file that is written to.
#[derive(Debug)]
pub struct Ring {
    file: File,
    path: PathBuf,
}

fn slot<R: Record>() -> usize {
    R::SIZE + SUM
}

fn head<R: Record>() -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let words = [VERSION, R::KIND, slot::<R>() as u32, R::SLOTS as u32];
    head[..8].copy_from_slice(&MAGIC);
    for (place, word) in head[8..].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let sum = crc32fast::hash(&head[..HEAD - SUM]);
    head[HEAD - SUM..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// Bytes of a file at most.
pub(crate) fn most<R: Record>() -> u64 {
    HEAD as u64 + R::SLOTS * slot::<R>() as u64
}

impl Ring {
    /// Opens the file at `path`, or makes it. One that is not of these records is put aside as `PATH.bad`, which the
    /// second value says.
    pub fn open<R: Record>(path: &Path) -> io::Result<(Self, Option<String>)> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let mut said = None;
        if let Some(why) = is_foreign::<R>(path)? {
            let aside = path.with_extension("bad");
            std::fs::rename(path, &aside)?;
            said = Some(format!(
                "{}: {why}; it is {} now",
                path.display(),
                aside.display()
            ));
        }
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.mode(MODE).open(path)?;
        let length = file.metadata()?.len();
        if length < HEAD as u64 {
            file.write_all_at(&head::<R>(), 0)?;
        }
        if length > most::<R>() {
            file.set_len(most::<R>())?;
        }
        let path = path.to_owned();
        Ok((Ring { file, path }, said))
    }

    /// Writes a record to its place.
    pub fn put<R: Record>(&self, record: &R) -> io::Result<()> {
        let mut bytes = vec![0; slot::<R>()];
        record.encode(&mut bytes[..R::SIZE]);
        let sum = crc32fast::hash(&bytes[..R::SIZE]);
        bytes[R::SIZE..].copy_from_slice(&sum.to_le_bytes());
        let at = HEAD as u64 + record.number() % R::SLOTS * bytes.len() as u64;
        self.file.write_all_at(&bytes, at)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All records of the file at `path`; none if there is no file.
    pub fn read<R: Record>(path: &Path) -> io::Result<Found<R>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Found::default()),
            Err(e) => return Err(e),
        };
        if let Some(why) = is_foreign::<R>(path)? {
            return Ok(Found {
                trouble: Some(why),
                ..Found::default()
            });
        }
        let mut found = read_slots(&file)?;
        found.records.sort_by_key(R::number);
        Ok(found)
    }
}

/// Why the file at `path` is not one of these; `None`: it is, or there is none, or it was never begun.
fn is_foreign<R: Record>(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut bytes = [0; HEAD];
    let length = fill(&file, &mut bytes, 0)?;
    Ok(match &bytes[..length] {
        [] => None,
        whole if *whole == head::<R>() => None,
        part if part.len() < HEAD && head::<R>().starts_with(part) => None,
        part if !part.starts_with(&MAGIC) => Some("it is no history".to_owned()),
        _ => Some("its head is damaged, or of another version".to_owned()),
    })
}

fn read_slots<R: Record>(file: &File) -> io::Result<Found<R>> {
    let mut found = Found::default();
    let size = slot::<R>();
    let mut buffer = vec![0; AT_ONCE * size];
    let mut first = 0;
    while first < R::SLOTS {
        let n = fill(file, &mut buffer, HEAD as u64 + first * size as u64)?;
        for (k, bytes) in buffer[..n].chunks(size).enumerate() {
            if bytes.iter().all(|b| *b == 0) {
                continue;
            }
            let place = first + k as u64;
            match record::<R>(bytes).filter(|r| r.number() % R::SLOTS == place) {
                Some(record) if place < R::SLOTS => found.records.push(record),
                _ => found.damaged += 1,
            }
        }
        if n < buffer.len() {
            break;
        }
        first += AT_ONCE as u64;
    }
    Ok(found)
}

fn record<R: Record>(slot: &[u8]) -> Option<R> {
    let (bytes, sum) = slot.split_at_checked(R::SIZE)?;
    let sum = u32::from_le_bytes(sum.try_into().ok()?);
    (crc32fast::hash(bytes) == sum).then(|| R::decode(bytes))?
}

/// Reads until `to` is full or the file ends.
fn fill(file: &File, to: &mut [u8], at: u64) -> io::Result<usize> {
    let mut n = 0;
    while n < to.len() {
        match file.read_at(&mut to[n..], at + n as u64) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(n)
}
