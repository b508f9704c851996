//! The store against the real nats-server and the real fjall.

mod admission;
mod archive;
mod backup;
mod blobs;
mod bus;
mod directory;
mod feed;
mod full_disk;
mod healing;
mod hooks;
mod kill_cycles;
mod load;
mod open_effects;
mod recording;
mod roles;
mod round_trip;
mod rows;
mod server;
mod small_disk;
mod space;
mod stream;
mod stream_file;
mod support;
mod trim;
mod verify;
mod went_back;
