//! The smallest program that is a host and its own guard.
//!
//!     cargo run -p coppice-actors --example whole_host -- '{"data": "DIRECTORY", "stop_with_stdin": true}'
//!
//! Its only argument are its options as JSON ([`coppice_actors::host::HostOptions`]). It runs until SIGTERM, SIGINT or, with
//! `stop_with_stdin`, the end of its standard input.

use std::{error::Error, process::ExitCode};

use coppice_actors::host::{HostOptions, host_main};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().ok_or("give the host's options as JSON")?;
    if first == "nats-guard" {
        return Ok(coppice_store::guard_main(arguments));
    }
    let options: HostOptions = serde_json::from_slice(first.as_encoded_bytes())?;
    Ok(host_main(options))
}
