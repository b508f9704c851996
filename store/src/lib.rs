//! NATS in, fjall down: publisher, recorder, admission, log, blobs, managed nats-server.
