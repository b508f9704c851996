//! The command `coppice`.

fn main() {}
