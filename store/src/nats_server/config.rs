//! The configuration of the private server: loopback, JetStream, one user a role with what it may publish and hear.

use std::path::Path;

use super::credentials::{Kept, Role};
use crate::{
    limits::{PAYLOAD_BYTES_MIN, STREAM_BYTES_SLACK, STREAM_MEMORY_BYTES},
    subjects::Realm,
};

fn list(subjects: &[String]) -> String {
    // JSON strings are strings of the configuration language too.
    serde_json::to_string(subjects).unwrap_or_default()
}

/// The file's text.
pub(super) fn text(kept: &Kept, realm: &Realm, store: &Path, stream_bytes_max: u64) -> String {
    let feed = [realm.all_events(), realm.beat("*")];
    let inbox = |role: Role| format!("{}.>", role.inbox_prefix());
    let service_says = list(&[inbox(Role::Operator), inbox(Role::Watcher)]);
    let service_hears = list(&[
        realm.api("*", "*"),
        realm.host_api("*", "*"),
        "$SRV.>".to_owned(),
        inbox(Role::Service),
    ]);
    let operator_says = list(&[
        realm.api("*", "*"),
        realm.host_api("*", "*"),
        "$SRV.>".to_owned(),
    ]);
    let operator_hears = list(&[&feed[..], &[inbox(Role::Operator)]].concat());
    let watcher_says = list(&[realm.api("*", "tail")]);
    let watcher_hears = list(&[&feed[..], &[inbox(Role::Watcher)]].concat());
    let everything = list(&[">".to_owned()]);
    let user = |role: Role, says: &str, hears: &str| {
        format!(
            "    {{ user: {user}, password: {password:?}, permissions: {{ publish: {{ allow: {says} }}, subscribe: {{ allow: {hears} }} }} }}\n",
            user = role.user(),
            password = kept.of(role).password,
        )
    };
    format!(
        "# Written by coppice at every start.\n\
         listen: \"127.0.0.1:{port}\"\n\
         server_name: {name}\n\
         max_payload: {PAYLOAD_BYTES_MIN}\n\
         jetstream {{\n    store_dir: {store:?}\n    max_file_store: {file}\n    max_memory_store: {STREAM_MEMORY_BYTES}\n}}\n\
         authorization {{\n  users = [\n{host}{service}{operator}{watcher}  ]\n}}\n",
        port = kept.port,
        name = kept.server(),
        store = store.to_string_lossy(),
        file = stream_bytes_max + STREAM_BYTES_SLACK,
        host = user(Role::Host, &everything, &everything),
        service = user(Role::Service, &service_says, &service_hears),
        operator = user(Role::Operator, &operator_says, &operator_hears),
        watcher = user(Role::Watcher, &watcher_says, &watcher_hears),
    )
}
