//! What the commands on archives share: where the bytes come from, files that appear whole or not at all, and how far the work is.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufReader, Read, Seek as _, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use coppice_actors::api::{ApiError, CopyOf, CopyRequest};
use coppice_messages::ids::TenantId;
use coppice_store::{
    archive::{Pages, PlanError, ReadArchiveError, Reader},
    clock::{self, Mono},
};

use crate::{
    failure::{Failure, Problem},
    reach::{Opened, Reach, Way, failed, refused},
};

/// Bytes asked from a log that this process has open at one time.
const PAGE_BYTES: usize = 1 << 20;
/// Time between two words about how far the work is.
const SAY_EVERY: Duration = Duration::from_secs(2);

/// Says on stderr how far long work is.
pub struct Progress {
    what: &'static str,
    said: Mono,
}

impl Progress {
    pub fn new(what: &'static str) -> Self {
        let said = clock::mono();
        Self { what, said }
    }

    /// So many bytes are done.
    pub fn at(&mut self, bytes: u64) {
        if self.said.elapsed() >= SAY_EVERY {
            self.said = clock::mono();
            eprintln!("{}: {} MiB", self.what, bytes >> 20);
        }
    }
}

/// Where the bytes of an archive come from.
enum From<'a> {
    Host(&'a coppice_actors::api::ApiClient, Option<u64>),
    Log(Pages),
}

/// Writes an archive of what is recorded, from the living host or the log, and says how many bytes it has.
pub async fn copy(reach: &Reach, of: &CopyOf, to: &mut impl Write) -> Result<u64, Failure> {
    let mut from = match &reach.way {
        Way::Host(client) => From::Host(client, None),
        Way::Log(opened) => From::Log(pages(opened, of)?),
    };
    let mut progress = Progress::new("written");
    let mut offset = 0;
    loop {
        let (bytes, end) = match &mut from {
            From::Host(client, copy) => {
                let request = CopyRequest {
                    copy: *copy,
                    offset,
                    of: of.clone(),
                };
                let page = client.copy(&TenantId::host(), &request).await;
                let page = page.map_err(failed)?;
                *copy = Some(page.copy);
                let bytes = page.bytes().filter(|_| page.offset == offset);
                let bytes = bytes.ok_or_else(|| {
                    Failure::Environment(Problem::new(
                        "a page of the archive arrived incomplete: ask again",
                    ))
                })?;
                (bytes, page.end)
            }
            From::Log(pages) => {
                let page = pages
                    .page(offset, PAGE_BYTES)
                    .map_err(|e| refused(&ApiError::from(e)))?;
                page.map_or((Vec::new(), true), |page| (page.bytes, page.end))
            }
        };
        offset += bytes.len() as u64;
        to.write_all(&bytes).map_err(|e| unwritten(&e))?;
        progress.at(offset);
        if end {
            to.flush().map_err(|e| unwritten(&e))?;
            return Ok(offset);
        }
    }
}

fn pages(opened: &Opened, of: &CopyOf) -> Result<Pages, Failure> {
    opened.inspect().archive(of).map_err(|e| refused(&e))
}

fn unwritten(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::OutputClosed;
    }
    Failure::Environment(Problem::new(format!(
        "the archive cannot be written: {error}"
    )))
}

/// A file under way beside its place; removed again unless it is kept.
pub struct Fresh {
    file: File,
    under_way: PathBuf,
    place: PathBuf,
    kept: bool,
}

impl Fresh {
    /// Begins a file whose place must be free.
    pub fn begin(place: &Path) -> Result<Self, Failure> {
        if place.symlink_metadata().is_ok() {
            let message = format!("{} is there already", place.display());
            return Err(Failure::Input(
                Problem::new(message).help("name another file; nothing is written over"),
            ));
        }
        let mut name = place.file_name().unwrap_or_default().to_owned();
        name.push(format!(".part-{}", std::process::id()));
        let under_way = place.with_file_name(name);
        // What it holds is nobody else's to read.
        let made = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&under_way);
        let file = made.map_err(|error| {
            let message = format!("{} cannot be made: {error}", under_way.display());
            Failure::Environment(Problem::new(message))
        })?;
        Ok(Self {
            file,
            under_way,
            place: place.to_owned(),
            kept: false,
        })
    }

    /// What is written so far, from its beginning.
    pub fn reader(&self) -> io::Result<BufReader<File>> {
        rewound(&self.file)
    }

    /// Gives the file its name.
    pub fn keep(mut self) -> Result<(), Failure> {
        let named = self.file.sync_all().and_then(|()| {
            // A link is refused where a renaming would write over what came there meanwhile.
            fs::hard_link(&self.under_way, &self.place)?;
            fs::remove_file(&self.under_way)?;
            let beside = self.place.parent().filter(|p| !p.as_os_str().is_empty());
            File::open(beside.unwrap_or(Path::new(".")))?.sync_all()
        });
        self.kept = named.is_ok();
        named.map_err(|e| unwritten(&e))
    }
}

impl Write for Fresh {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.under_way);
        }
    }
}

/// A file from its beginning.
fn rewound(file: &File) -> io::Result<BufReader<File>> {
    let mut file = file.try_clone()?;
    file.rewind()?;
    Ok(BufReader::new(file))
}

/// An archive that is read more than once.
pub struct Source {
    file: File,
    name: String,
}

impl Source {
    /// Opens a file; what comes on stdin is put into one first, below `beside`.
    pub fn open(path: &Path, beside: &Path) -> Result<Self, Failure> {
        let unusable = |name: &str, error: &io::Error| {
            Failure::Input(Problem::new(format!("{name} cannot be read: {error}")))
        };
        if path != Path::new("-") {
            let name = path.display().to_string();
            let file = File::open(path).map_err(|e| unusable(&name, &e))?;
            return Ok(Self { file, name });
        }
        let name = "stdin".to_owned();
        let place = beside.join(format!(".archive-{}", std::process::id()));
        let made = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&place);
        let mut file = made.map_err(|e| unusable(&place.display().to_string(), &e))?;
        // It lives as long as it is open, and no longer.
        let _ = fs::remove_file(&place);
        io::copy(&mut io::stdin().lock(), &mut file).map_err(|e| unusable(&name, &e))?;
        Ok(Self { file, name })
    }

    /// The archive from its beginning.
    pub fn reader(&self) -> Result<Reader<BufReader<File>>, ReadArchiveError> {
        Reader::open(rewound(&self.file)?)
    }

    /// What is wrong with it, with its name.
    pub fn refused(&self, error: &PlanError) -> Failure {
        let Problem { message, .. } = Problem::of(error);
        let problem = Problem::new(format!("{}: {message}", self.name));
        match error {
            PlanError::Log(_) | PlanError::Archive(ReadArchiveError::Io(_)) => {
                Failure::Environment(problem)
            }
            PlanError::Conflict(_) => Failure::Input(problem.help(
                "nothing was imported; import it into a data directory of its own: --data DIR",
            )),
            _ => Failure::Input(problem.help("nothing was imported")),
        }
    }
}

/// Reads what was written once more, as an import would.
pub fn verified<R: Read>(
    archive: Result<Reader<R>, ReadArchiveError>,
) -> Result<coppice_store::archive::Plan, PlanError> {
    let mut progress = Progress::new("verified");
    coppice_store::archive::plan(&mut archive?, None, |bytes| progress.at(bytes))
}
