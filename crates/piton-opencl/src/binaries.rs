//! Compiled programs, kept so that each is compiled once: for the driver's life in memory, and from run to run in a
//! folder where the configuration names one.
//!
//! A binary is known by what it was made for and of: the device's name, its driver's version, the source. All three are
//! written in front of it, so a file is taken for what it says and not for what it is called; and its length and a sum,
//! as drivers do not look twice: pocl dies of a binary that was cut short. What a driver does not take is compiled anew.

use crate::{device::OpenClDevice, ffi::Program, status::Status};
use piton_sync::Mutex;
use std::{
    collections::HashMap,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    sync::Arc,
};

/// What every file begins with; the number is the layout's.
const MAGIC: &[u8] = b"piton-opencl-binary-1\0";

type Bytes = Arc<[u8]>;

/// Binaries by what they were made for and of.
#[derive(Debug)]
pub(crate) struct Binaries {
    kept: Mutex<HashMap<Bytes, Bytes>>,
    folder: Option<PathBuf>,
}

impl Binaries {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self {
            kept: Mutex::new(HashMap::new()),
            folder,
        }
    }

    fn find(&self, key: &[u8]) -> Option<Bytes> {
        let kept = self.kept.lock().get(key).cloned();
        kept.or_else(|| {
            let file = fs::read(path(self.folder.as_deref()?, key)).ok()?;
            whole(file.strip_prefix(key)?).map(Into::into)
        })
    }

    /// Keeps a binary. A folder that cannot be written costs a compilation the next time and nothing else.
    fn keep(&self, key: Bytes, binary: Vec<u8>) {
        if let Some(folder) = &self.folder {
            // Written beside and moved, so that nobody reads half a file.
            let (path, part) = (path(folder, &key), unfinished(folder, &key));
            let content = packed(&key, &binary);
            let written = fs::create_dir_all(folder)
                .and_then(|()| fs::write(&part, content))
                .and_then(|()| fs::rename(&part, path));
            if written.is_err() {
                let _removed = fs::remove_file(&part);
            }
        }
        self.kept.lock().insert(key, binary.into());
    }
}

/// A binary with what it was made for and of, its length and its sum in front.
fn packed(key: &[u8], binary: &[u8]) -> Vec<u8> {
    let (length, sum) = (binary.len() as u64, hash(binary));
    [key, &length.to_le_bytes(), &sum.to_le_bytes(), binary].concat()
}

/// What stands behind its length and its sum, if it is all of it.
fn whole(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (sum, binary) = rest.split_first_chunk()?;
    let is_whole = u64::from_le_bytes(*length) == binary.len() as u64
        && u64::from_le_bytes(*sum) == hash(binary);
    is_whole.then_some(binary)
}

/// The binary in a packed one, if it was made for this device.
fn unpacked<'a>(device: &OpenClDevice, packed: &'a [u8]) -> Option<&'a [u8]> {
    let rest = packed.strip_prefix(&*made_for(device))?;
    let (length, rest) = rest.split_first_chunk()?;
    let source = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    whole(rest.get(source..)?)
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn path(folder: &Path, key: &[u8]) -> PathBuf {
    folder.join(format!("{:016x}.bin", hash(key)))
}

fn unfinished(folder: &Path, key: &[u8]) -> PathBuf {
    folder.join(format!("{:016x}.{}", hash(key), std::process::id()))
}

/// What every binary for this device begins with.
fn made_for(device: &OpenClDevice) -> Vec<u8> {
    let mut key = MAGIC.to_vec();
    add(&mut key, &device.info.name);
    add(&mut key, &device.version);
    key
}

fn add(key: &mut Vec<u8>, part: &str) {
    key.extend((part.len() as u64).to_le_bytes());
    key.extend(part.as_bytes());
}

/// What a binary for this device of this source begins with.
fn key(device: &OpenClDevice, source: &str) -> Bytes {
    let mut key = made_for(device);
    add(&mut key, source);
    key.into()
}

/// A binary that [`of_source`] gave, loaded on the device it was made for.
///
/// # Errors
/// That it is none, or what the driver says.
pub(crate) fn load(device: &OpenClDevice, packed: &[u8]) -> Result<Program, (Status, String)> {
    let refused = |status| (status, String::new());
    let binary = unpacked(device, packed).ok_or_else(|| refused(Status::INVALID_BINARY))?;
    let program = Program::of_binary(&device.shared.context, device.handle, binary);
    let program = program.map_err(refused)?;
    program.build(device.handle)?;
    Ok(program)
}

/// The binary that the driver makes of a source, for [`load`]; nothing where it gives none. May take long.
///
/// # Errors
/// As [`program`].
pub(crate) fn of_source(
    device: &OpenClDevice,
    source: &str,
) -> Result<Option<Vec<u8>>, (Status, String)> {
    let program = program(device, source)?;
    let binary = program.binary(device.index);
    let binary = binary.map_err(|status| (status, String::new()))?;
    Ok(binary.map(|binary| packed(&key(device, source), &binary)))
}

/// The source's program, built for the device. May take long.
///
/// # Errors
/// The code, and what the compiler wrote.
pub(crate) fn program(device: &OpenClDevice, source: &str) -> Result<Program, (Status, String)> {
    let shared = &device.shared;
    let key = key(device, source);
    if let Some(binary) = shared.binaries.find(&key) {
        let program = Program::of_binary(&shared.context, device.handle, &binary);
        if let Ok(program) = program
            && program.build(device.handle).is_ok()
        {
            return Ok(program);
        }
    }
    let program = Program::of_source(&shared.context, source);
    let program = program.map_err(|status| (status, String::new()))?;
    program.build(device.handle)?;
    if let Ok(Some(binary)) = program.binary(device.index) {
        shared.binaries.keep(key, binary);
    }
    Ok(program)
}
