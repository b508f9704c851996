//! Runs the built program in a directory of its own.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// A directory in which the program is run; removed at the end.
pub struct Place {
    directory: TempDir,
}

/// What one call said.
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    fn of(output: &Output) -> Self {
        Self {
            // None: a signal ended it.
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Stdout as JSON, when the call ended with `code`.
    #[track_caller]
    pub fn json(&self, code: i32) -> Value {
        assert_eq!(self.code, code, "{}\n{}", self.stdout, self.stderr);
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.stdout, self.stderr))
    }

    /// Stdout, when the call succeeded.
    #[track_caller]
    pub fn good(&self) -> &str {
        assert_eq!(self.code, 0, "{}\n{}", self.stdout, self.stderr);
        &self.stdout
    }
}

impl Place {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory can be made");
        Self { directory }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn write(&self, file: &str, text: &str) {
        let path = self.path().join(file);
        let parent = path.parent().expect("it lies in the place");
        std::fs::create_dir_all(parent).expect("a directory can be made");
        std::fs::write(path, text).expect("a file can be written");
    }

    /// The program with these arguments, to be changed further.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coppice"));
        command.args(arguments).current_dir(self.path());
        command.stdin(Stdio::null()).env_remove("RUST_LOG");
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Said {
        Self::end(&mut self.command(arguments))
    }

    pub fn end(command: &mut Command) -> Said {
        Said::of(&command.output().expect("the program can be started"))
    }

    /// A host with a desk, in the directory `.coppice`.
    pub fn up(&self) -> Up {
        self.up_with(&["--with-desk"])
    }

    /// A host with these arguments.
    pub fn up_with(&self, arguments: &[&str]) -> Up {
        let up = self.started(arguments);
        assert!(up.said.contains("\"host\""), "{}", up.said);
        up
    }

    /// A host with these arguments and variables.
    pub fn up_under(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Up {
        let up = self.started_under(arguments, variables);
        assert!(up.said.contains("\"host\""), "{}", up.said);
        up
    }

    /// The same, once it said that it is up or ended.
    pub fn started(&self, arguments: &[&str]) -> Up {
        self.started_under(arguments, &[])
    }

    fn started_under(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Up {
        let mut child = self
            .command(&[&["up", "--json"], arguments].concat())
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("it says that it is up");
        let said = line;
        Up {
            child: Some(child),
            said,
        }
    }
}

/// `coppice up` in a process of its own; stopped in order when it is dropped.
pub struct Up {
    child: Option<Child>,
    said: String,
}

impl Up {
    /// Stops it as Ctrl-C does, and waits for its end.
    pub fn stop(mut self) {
        let code = self.interrupt();
        assert_eq!(code, Some(0));
    }

    /// What `coppice up --json` said of it.
    pub fn host(&self) -> Value {
        let said: Value = serde_json::from_str(&self.said).expect("JSON");
        said["host"].clone()
    }

    /// Waits for its end by itself.
    pub fn ended(mut self) -> Option<i32> {
        self.child.take()?.wait().ok()?.code()
    }

    fn interrupt(&mut self) -> Option<i32> {
        let mut child = self.child.take()?;
        signal("INT", child.id());
        child.wait().ok()?.code()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        self.interrupt();
    }
}

/// Sends a signal to a process.
pub fn signal(name: &str, process: u32) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &process.to_string()])
        .status();
    assert!(sent.is_ok_and(|status| status.success()), "kill -{name}");
}

/// The number at a JSON pointer.
#[track_caller]
pub fn number(value: &Value, at: &str) -> u64 {
    let found = value.pointer(at).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("no number at {at} in {value}"))
}

/// The text at a JSON pointer.
#[track_caller]
pub fn text<'v>(value: &'v Value, at: &str) -> &'v str {
    let found = value.pointer(at).and_then(Value::as_str);
    found.unwrap_or_else(|| panic!("no text at {at} in {value}"))
}
