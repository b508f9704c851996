//! A plain NATS subscriber in another language: `subscriber.py` knows NATS and this repository's docs, and nothing of Rust.

use std::{path::Path, process::Command};

use crate::support::Place;

#[test]
fn a_python_subscriber_sees_every_event_in_order_fills_a_gap_with_tail_and_may_do_nothing_else() {
    let place = Place::new();
    let up = place.up();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/subscriber.py");
    let mut python = Command::new("python3");
    python.arg(script).arg(env!("CARGO_BIN_EXE_coppice"));
    python.current_dir(place.path());
    if let Some(path) = std::env::var_os("COPPICE_TEST_PYTHONPATH") {
        python.env("PYTHONPATH", path);
    }
    let said = Place::end(&mut python);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.ends_with("all seen\n"), "{}", said.stdout);
    up.stop();
}
