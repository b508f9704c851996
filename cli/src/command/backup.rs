//! `coppice backup` and `coppice restore`: a copy of the whole log at one position, and a data directory made of it.

mod kept;

use std::{
    fs,
    path::{Path, PathBuf},
};

use coppice_actors::api::CopyOf;
use coppice_store::archive::{self, ReadArchiveError, Reader, RestoreError, WholeError};
use serde_json::json;

use self::kept::Kept;
use crate::{
    args::{BackupArgs, Common, RestoreArgs},
    command::log::{Fresh, Progress, Source, copy},
    data,
    failure::{Failure, Problem},
    out,
    reach::Reach,
};

/// The archive in the directory of a backup.
const ARCHIVE: &str = coppice_store::ARCHIVE_OF_BACKUP;

/// What follows on the name of a backup that is being made, before the number of the process that makes it.
const PART: &str = ".part-";

/// Removes what backups to the same place have left whose processes were killed.
fn clear_left_over(place: &Path) {
    let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else {
        return;
    };
    let parent = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    let begins = format!("{}{PART}", name.to_string_lossy());
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name
            .to_str()
            .and_then(|name| name.strip_prefix(&begins))
            .and_then(|process| process.parse().ok())
        else {
            continue;
        };
        if !is_alive(process)
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            tracing::warn!(%error, path = %entry.path().display(), "what a killed backup left is not removed");
        }
    }
}

/// Whether there is such a process, as far as can be known: one of which that cannot be known counts as living.
fn is_alive(process: i32) -> bool {
    let Some(process) = rustix::process::Pid::from_raw(process) else {
        return true;
    };
    rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH)
}

/// A directory under way, removed again unless it is kept.
struct UnderWay {
    path: PathBuf,
    kept: bool,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// `coppice backup`
pub async fn backup(args: &BackupArgs, common: &Common) -> Result<(), Failure> {
    let place = &args.directory;
    if place.symlink_metadata().is_ok() {
        let message = format!("{} is there already", place.display());
        let help = "name a directory that is not there: a backup is never written over";
        return Err(Failure::Input(Problem::new(message).help(help)));
    }
    let reach = Reach::open(common).await?;
    clear_left_over(place);
    let mut beside = place.as_os_str().to_owned();
    beside.push(format!("{PART}{}", std::process::id()));
    let mut under_way = UnderWay {
        path: beside.into(),
        kept: false,
    };
    let unmade = |error: std::io::Error| {
        let message = format!("{} cannot be made: {error}", place.display());
        Failure::Environment(Problem::new(message))
    };
    data::make(&under_way.path).map_err(unmade)?;
    let mut file = Fresh::begin(&under_way.path.join(ARCHIVE))?;
    let bytes = copy(&reach, &CopyOf::Log, &mut file).await?;
    let (pos, verified) = read_back(&file).map_err(|error| {
        let Problem { message, .. } = Problem::of(&error);
        let help = "no backup is kept of it. coppice log verify says more, and coppice log export copies the trees that are whole";
        Failure::Environment(Problem::new(format!("{}: {message}", reach.data.display())).help(help))
    })?;
    // Before the archive has its name: without it the directory is no backup.
    Kept::of(&reach.data)?
        .write(&under_way.path)
        .map_err(unmade)?;
    file.keep()?;
    fs::rename(&under_way.path, place).map_err(unmade)?;
    under_way.kept = true;
    let shown = place.display().to_string();
    if common.json {
        return out::json(&json!({
            "backup": shown, "pos": pos, "bytes": bytes, "chains": verified.chains,
            "commits": verified.commits, "events": verified.events, "blobs": verified.blobs,
        }));
    }
    out::line(format!(
        "{shown}: the log up to position {pos}: {} chains, {} commits, {} blobs, {bytes} bytes, verified",
        verified.chains, verified.commits, verified.blobs
    ))
}

/// Verifies what was written, as it lies in the file.
fn read_back(file: &Fresh) -> Result<(u64, coppice_store::verify::Verified), WholeError> {
    let from = file.reader().map_err(ReadArchiveError::from)?;
    let mut reader = Reader::open(from)?;
    let mut progress = Progress::new("verified");
    let verified = archive::check(&mut reader, |bytes| progress.at(bytes))?;
    Ok((reader.header().pos, verified))
}

/// `coppice restore`
pub fn restore(args: &RestoreArgs, common: &Common) -> Result<(), Failure> {
    let data = data::of_up(common.data.as_deref());
    let file = args.directory.join(ARCHIVE);
    if !file.is_file() {
        let message = format!(
            "{} holds no backup: there is no {ARCHIVE} in it",
            args.directory.display()
        );
        return Err(Failure::Input(
            Problem::new(message).help("coppice backup DIR makes one"),
        ));
    }
    let source = Source::open(&file, Path::new("."))?;
    let kept = Kept::read(&args.directory)?;
    if kept.is_none() {
        eprintln!(
            "{} has no {}: callbacks get new secrets (coppice env --callbacks)",
            args.directory.display(),
            kept::FILE
        );
    }
    let kept = kept.unwrap_or_default();
    let mut progress = Progress::new("restored");
    let seen = |bytes| progress.at(bytes);
    let beside = |data: &Path| kept.put(data);
    let once_more = !args.nothing_done_since;
    let restored = archive::restore(|| source.reader(), &data, once_more, beside, seen);
    let restored = restored.map_err(|error| refused(&file, &error))?;
    let shown = data.display().to_string();
    let verified = &restored.verified;
    if common.json {
        return out::json(&json!({
            "data": shown, "pos": restored.pos, "chains": verified.chains, "commits": verified.commits,
            "events": verified.events, "blobs": verified.blobs, "look_up_first": !args.nothing_done_since,
        }));
    }
    out::line(format!(
        "{shown}: the log up to position {}: {} chains, {} commits, {} blobs, verified",
        restored.pos, verified.chains, verified.commits, verified.blobs
    ))?;
    if !args.nothing_done_since {
        out::line(
            "what was recorded after the backup is not in it: writes of its unfinished trees are looked up by key before they are sent",
        )?;
    }
    Ok(())
}

fn refused(file: &Path, error: &RestoreError) -> Failure {
    let Problem { message, .. } = Problem::of(error);
    let problem = Problem::new(message);
    match error {
        RestoreError::Taken { .. } => {
            Failure::Input(problem.help("name a new one with --data DIR"))
        }
        RestoreError::Archive(WholeError::Archive(ReadArchiveError::Io(_)))
        | RestoreError::Directory(_)
        | RestoreError::Io { .. }
        | RestoreError::Write(_)
        | RestoreError::Read(_) => Failure::Environment(problem.help("nothing was restored")),
        RestoreError::Archive(_) | RestoreError::Shorter(_) => {
            let message = format!("{}: {}", file.display(), problem.message);
            Failure::Input(Problem::new(message).help("nothing was restored; take another backup"))
        }
    }
}
