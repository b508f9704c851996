//! Small disks: file systems in memory that really fill up, in a mount namespace that goes with the test, whatever becomes of it.
//!
//! A system that lets nobody make such a namespace fails these tests, and is told what is missing: whether a full disk loses anything cannot be
//! seen there.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

/// Says to the process that runs a test in its own namespace which test it is.
const INSIDE: &str = "COPPICE_TEST_ALONE";
/// What that process says when it has come to the end of the test.
const DONE: &str = "the test came to its end";

/// Runs the body of the test of this name in a process where disks can be mounted.
pub fn alone(test: &str, body: impl Future<Output = ()>) {
    if std::env::var(INSIDE).is_ok_and(|inside| inside == test) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(body);
        println!("{DONE}");
        return;
    }
    let program = std::env::current_exe().expect("a test knows its own program");
    let output = Command::new("unshare")
        .args(namespace())
        // A write beyond the greatest size of a file is to fail, and not to end the process.
        .args(["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(program)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, test)
        .output()
        .expect("unshare runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains(DONE),
        "{}\n{said}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The arguments with which this system makes a namespace that lets this user mount: a privileged user's own, or one with a root of its own.
fn namespace() -> &'static [&'static str] {
    let place = tempfile::tempdir().expect("a directory");
    let mut said = String::new();
    for arguments in [&["-m"][..], &["-m", "-r"]] {
        let mounted = Command::new("unshare")
            .args(arguments)
            .args(["mount", "-t", "tmpfs", "-o", "size=64k", "coppice-test"])
            .arg(place.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => return arguments,
            Ok(output) => said.push_str(&String::from_utf8_lossy(&output.stderr)),
            Err(error) => said.push_str(&error.to_string()),
        }
    }
    panic!(
        "this test fills a small disk, for which it needs `unshare` (util-linux) and either CAP_SYS_ADMIN or user namespaces \
         (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0; in Docker --cap-add SYS_ADMIN \
         --security-opt apparmor=unconfined). What was tried says:\n{said}"
    );
}

fn run(program: &str, arguments: &[&str], at: &[&Path]) {
    let ended = Command::new(program).args(arguments).args(at).output();
    let ended = ended.expect("the program runs");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{program} {at:?}: {said}");
}

/// A disk of so many bytes.
pub struct Disk {
    /// Where all of it is mounted.
    whole: PathBuf,
    /// The directories that lie on it.
    used_as: Vec<PathBuf>,
}

impl Disk {
    /// Makes one, beside the data.
    pub fn new(whole: impl Into<PathBuf>, bytes: u64) -> Self {
        let whole = whole.into();
        fs::create_dir_all(&whole).expect("a directory");
        let size = format!("size={bytes}");
        run(
            "mount",
            &["-t", "tmpfs", "-o", &size, "coppice-test"],
            &[&whole],
        );
        Self {
            whole,
            used_as: Vec::new(),
        }
    }

    /// Lets a directory lie on it.
    pub fn holds(mut self, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        let own = self.whole.join(self.used_as.len().to_string());
        fs::create_dir_all(&own).expect("a directory");
        fs::create_dir_all(&directory).expect("a directory");
        run("mount", &["--bind"], &[&own, &directory]);
        self.used_as.push(directory);
        self
    }

    fn filler(&self) -> PathBuf {
        self.whole.join("filler")
    }

    pub fn free(&self) -> u64 {
        coppice_store::room::free_bytes(&self.whole).expect("the system says")
    }

    /// Somebody else fills it until so many bytes are left.
    pub fn fill(&self, left: u64) {
        let mut options = File::options();
        let filler = options.create(true).append(true).open(self.filler());
        let mut filler = filler.expect("a file");
        while self.free() > left {
            let bytes = (self.free() - left).min(1 << 16);
            let bytes = vec![7; usize::try_from(bytes).expect("small")];
            // Others write here too.
            if filler.write_all(&bytes).is_err() {
                break;
            }
        }
    }

    /// What filled it goes away.
    pub fn clear(&self) {
        fs::remove_file(self.filler()).expect("it was filled");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for directory in self.used_as.iter().chain([&self.whole]) {
            // Should it fail, the namespace ends with this process anyway.
            let _unmounted = Command::new("umount").arg("-l").arg(directory).status();
        }
    }
}
