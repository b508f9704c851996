//! What can be said: ids, delegation, contracts, commits, events, digests and their codec.
