//! What a host and the processes below it (guard, nats-server) have used, as Linux says it under `/proc`; elsewhere nothing is known.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use serde::Serialize;

/// Ticks a second in `/proc/PID/stat`: fixed by the kernel's interface, whatever its own timer does.
const TICKS_PER_S: f64 = 100.0;

/// Everything that one workload used for each of its runs.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct PerRun {
    /// CPU seconds of host and nats-server.
    pub cpu_s_per_run: Option<f64>,
    /// Most memory that the host had, in MB.
    pub host_rss_mb: Option<f64>,
    /// Most memory that nats-server had, in MB.
    pub nats_rss_mb: Option<f64>,
    /// Bytes that the data directory takes more on the disk, log and stream.
    pub disk_bytes_per_run: u64,
    /// Batches of the log, each with one fsync.
    pub fsyncs_per_run: f64,
    /// Commits.
    pub commits_per_run: f64,
    /// Messages of the stream.
    pub messages_per_run: f64,
}

/// The processes of one host.
#[derive(Debug, Clone)]
pub struct Processes {
    host: u32,
    below: Vec<u32>,
}

impl Processes {
    /// The host and all below it, now.
    pub fn of(host: u32) -> Self {
        let all: Vec<(u32, u32)> = pids().filter_map(|pid| Some((pid, parent(pid)?))).collect();
        let mut known = vec![host];
        let mut at = 0;
        while let Some(parent) = known.get(at).copied() {
            let children = all.iter().filter(|(_, of)| *of == parent);
            known.extend(children.map(|(pid, _)| *pid));
            at += 1;
        }
        known.remove(0);
        Self { host, below: known }
    }

    /// CPU seconds so far.
    pub fn cpu_s(&self) -> Option<f64> {
        let below: f64 = self.below.iter().filter_map(|pid| cpu_s(*pid)).sum();
        Some(cpu_s(self.host)? + below)
    }

    /// From here on the most memory counts anew.
    pub fn forget_peaks(&self) {
        for pid in self.below.iter().chain([&self.host]) {
            // Where the system has no such file, the peak is that of the whole life.
            let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        }
    }

    /// Most memory of the host, in MB.
    pub fn host_peak_mb(&self) -> Option<f64> {
        memory_mb(self.host, "VmHWM:")
    }

    /// Memory of the host now, in MB.
    pub fn host_now_mb(&self) -> Option<f64> {
        memory_mb(self.host, "VmRSS:")
    }

    /// Most memory of what is below the host, in MB.
    pub fn below_peak_mb(&self) -> Option<f64> {
        let peaks = self
            .below
            .iter()
            .filter_map(|pid| memory_mb(*pid, "VmHWM:"));
        peaks.reduce(f64::max)
    }
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The fields of `/proc/PID/stat` behind the program's name, which may hold anything.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.get(1)?.parse().ok()
}

fn cpu_s(pid: u32) -> Option<f64> {
    let fields = stat(pid)?;
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_S)
}

fn memory_mb(pid: u32, key: &str) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some((kib / 1024.0 * 10.0).round() / 10.0)
}

/// Bytes that a directory takes on the disk.
pub fn disk_bytes(directory: &Path) -> u64 {
    let mut open: Vec<PathBuf> = vec![directory.to_owned()];
    let mut bytes = 0;
    while let Some(directory) = open.pop() {
        // What goes away while it is counted takes nothing any more.
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(data) if data.is_dir() => open.push(entry.path()),
                Ok(data) => bytes += data.blocks() * 512,
                Err(_) => {}
            }
        }
    }
    bytes
}
