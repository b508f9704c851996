//! The store against the real nats-server and the real fjall.

mod recording;
mod support;
