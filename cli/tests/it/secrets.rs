//! No secret that the tool broker holds is in any durable byte, whatever a tool sends back.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
};

use crate::support::{Place, text};

const SECRET: &str = "canary-5d1e88+/q";
/// As python3's base64, urllib.parse.quote and bytes.hex say it.
const FORMS: [&str; 4] = [
    SECRET,
    "Y2FuYXJ5LTVkMWU4OCsvcQ==",
    "canary-5d1e88%2B%2Fq",
    "63616e6172792d3564316538382b2f71",
];

const TOOL: &str = r#"
tool: write_note
namespace: notes
owner: tests
version: 1
operation: create
effect: reversible_write
input: { type: object, required: [text], additionalProperties: false, properties: { text: { type: string } } }
output: { type: object, required: [id], properties: { id: { type: string } } }
http:
  request: { method: POST, url: "{notes}/notes", key_header: Idempotency-Key, timeout: 5s, max_bytes: 64KiB }
  receipt: { id: /id }
  lookup_by_key: { method: GET, url: "{notes}/notes?key={key}", found: { exists: { from: body, at: /0 } }, absent_is_final: true, settles_within: 1s }
  credential: { from: "env:CANARY", scope: "notes:create" }
postcondition: { method: GET, url: "{notes}/notes/{receipt.id}", expect: { exists: { from: body, at: /id } } }
idempotency: { attempts: at_least_once }
"#;

const TOPOLOGY: &str = r#"
topology: note
version: 1
contract: notes
input: { type: object, required: [text], properties: { text: { type: string } } }
nodes:
  write: { call: { tool: write_note, arguments: { text: { from: input, at: /text } } } }
  done: { after: [write], end: { reason: succeeded, answer: { note: { from: write } } } }
"#;

/// A tool that sends the credential back in every form: in results, in refusals, and in what is no data.
fn echoing() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it listens"));
    std::thread::spawn(move || {
        let mut posts = 0;
        for stream in listener.incoming().map_while(Result::ok) {
            answer(stream, &mut posts);
        }
    });
    url
}

fn answer(mut stream: TcpStream, posts: &mut u32) {
    let mut bytes = vec![0; 64 << 10];
    let Ok(read) = stream.read(&mut bytes) else {
        return;
    };
    let asked = String::from_utf8_lossy(&bytes[..read]).into_owned();
    assert!(asked.contains(&format!("Bearer {SECRET}")), "{asked}");
    let forms = FORMS.join(" ");
    let good = format!(r#"{{"id":"n-1","said":"{forms}","{SECRET}":1}}"#);
    let (status, body) = if asked.starts_with("POST") {
        *posts += 1;
        match posts {
            1 => (429, format!(r#"{{"code":"{SECRET}"}}"#)),
            2 => (503, format!("<p>{forms}")),
            _ => (200, good),
        }
    } else {
        (200, good)
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    let _gone = stream.write_all(format!("{head}{body}").as_bytes());
}

/// Every file below a directory in which a form of the secret stands.
fn found(directory: &Path, in_files: &mut Vec<String>, files: &mut u32) {
    for entry in std::fs::read_dir(directory).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            found(&path, in_files, files);
            continue;
        }
        *files += 1;
        let bytes = std::fs::read(&path).unwrap_or_default();
        // The last signs of a base64 form are shared with what stands behind it.
        for form in FORMS.map(|form| form.trim_end_matches("cQ==")) {
            let is_here = |window: &[u8]| window.eq_ignore_ascii_case(form.as_bytes());
            if bytes.windows(form.len()).any(is_here) {
                in_files.push(format!("{form} in {}", path.display()));
            }
        }
    }
}

#[test]
fn no_durable_byte_holds_a_secret_of_the_broker_in_any_of_four_encodings() {
    let place = Place::new();
    place.write("tools/write_note.yaml", TOOL);
    place.write("topologies/note.yaml", TOPOLOGY);
    place.run(&["new", "contract", "notes"]).good();
    let contract = std::fs::read_to_string(place.path().join("contracts/notes.yaml"));
    let contract = contract.expect("it was made");
    let line = contract.lines().find(|line| line.contains("tools: ["));
    let line = line.expect("it names tools");
    let indent = &line[..line.len() - line.trim_start().len()];
    place.write(
        "contracts/notes.yaml",
        &contract.replace(line, &format!("{indent}tools: [write_note]")),
    );
    let notes = format!("notes={}", echoing());

    // A host that was not told of the credential starts nothing that needs it.
    let up = place.up_with(&["--endpoint", &notes]);
    let input = r#"{"text": "Looked at."}"#;
    let submit = [
        "submit",
        "topologies/note.yaml",
        "--input",
        input,
        "--wait",
        "--json",
    ];
    let refused = place.run(&submit);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("--credential 'env:CANARY'"),
        "{}",
        refused.stderr
    );
    up.stop();

    let up = place.up_under(
        &["--endpoint", &notes, "--credential", "env:CANARY"],
        &[("CANARY", SECRET), ("RUST_LOG", "trace")],
    );
    let done = place.run(&submit).json(0);
    assert_eq!(text(&done, "/run/ended/reason"), "succeeded");
    let events = place.run(&["events", "--json"]).good().to_owned();
    assert!(events.contains("[masked]"), "{events}");
    up.stop();

    let (mut in_files, mut files) = (Vec::new(), 0);
    found(place.path(), &mut in_files, &mut files);
    assert!(
        files > 10,
        "log, stream, blobs and the host's own log are there"
    );
    assert_eq!(in_files, [] as [String; 0]);
    let verified = place.run(&["log", "verify", "--json"]).json(0);
    assert_eq!(verified.pointer("/findings"), Some(&serde_json::json!([])));
}
