//! A desk on its own, to try a tool against: `cargo run -p coppice-scenarios --example desk -- DIR [WORLD as JSON]`.
//!
//! It listens on a free port, says so in one line of JSON, and ends when its stdin closes.

use std::{error::Error, net::Ipv4Addr};

use coppice_scenarios::desk::{self, Options, World};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("name a directory for its store")?;
    let world = match arguments.next() {
        Some(json) => serde_json::from_str(&json)?,
        None => World::default(),
    };
    let options = Options {
        dir: dir.into(),
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        world,
        outside: None,
    };
    Ok(desk::run_until_stdin_closes(options).await?)
}
