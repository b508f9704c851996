//! What is checked and added when a request leaves, and what is taken out of an answer before it is kept.

use coppice_actors::token::{Claims, TokenSigner};
use coppice_messages::event::effect::ResultCheck;
use coppice_topology::tool::{Credential, Data, DataClass};

use super::*;

const SECRET: &str = "canary-7f3a9c+/x";

/// What a broker of a test may do beside the usual.
#[derive(Default)]
struct Door {
    allowed: Vec<String>,
    own: BTreeSet<std::net::SocketAddr>,
    signer: Option<TokenSigner>,
}

/// create_ticket at this address, through this door.
fn through(url: &str, door: Door) -> Calling {
    let mut calling = Calling::ticket(url);
    let broker = ToolBroker::new(BrokerOptions {
        policies: coppice_actors::policy::Policies::none(),
        record: calling.recorder.clone(),
        endpoints: [("desk".to_owned(), url.to_owned())].into(),
        tools: InProcessTools::new(),
        schemas: Schemas::new(),
        signer: door.signer,
        own: door.own,
        credentials: door
            .allowed
            .iter()
            .map(|from| from.parse().unwrap())
            .collect(),
        secrets: Secrets::default(),
        begins_at: 0,
    });
    calling.broker = broker.unwrap();
    calling
}

fn needing(from: &str) -> impl FnOnce(&mut Tool) {
    let credential = Credential {
        from: from.parse().unwrap(),
        scope: "tickets:create".to_owned(),
    };
    |tool| http(tool).credential = Some(credential)
}

fn allowing(from: &str) -> Door {
    Door {
        allowed: vec![from.to_owned()],
        ..Door::default()
    }
}

fn file(text: &str) -> (tempfile::NamedTempFile, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let from = format!("file:{}", file.path().display());
    (file, from)
}

#[tokio::test]
async fn a_credential_is_taken_for_the_call_and_sent_as_a_bearer_token() {
    let (_file, from_file) = file(&format!("{SECRET}\n"));
    for from in [from_file, format!("exec:printf {SECRET}")] {
        let outside = Outside::start([status(200, TICKET)]).await;
        let calling = through(&outside.url, allowing(&from)).with(needing(&from));
        let outcome = calling.send().await;
        assert!(
            matches!(outcome, EffectOutcome::Landed { .. }),
            "{from}: {outcome:?}"
        );
        let headers = &outside.came()[0].headers;
        assert!(
            headers.contains(&format!("authorization: Bearer {SECRET}")),
            "{headers}"
        );
    }
}

#[tokio::test]
async fn a_command_is_told_the_scope_of_the_credential() {
    let from = "exec:printenv COPPICE_SCOPE";
    let outside = Outside::start([status(200, TICKET)]).await;
    let calling = through(&outside.url, allowing(from)).with(needing(from));
    calling.send().await;
    let headers = &outside.came()[0].headers;
    assert!(
        headers.contains("authorization: Bearer tickets:create"),
        "{headers}"
    );
}

#[tokio::test]
async fn without_its_credential_nothing_leaves() {
    let (_short, short) = file("short");
    let cases = [
        (
            "env:COPPICE_NO_SUCH_VARIABLE",
            true,
            "the host has no variable COPPICE_NO_SUCH_VARIABLE",
        ),
        ("file:/no/such/file", true, "/no/such/file"),
        (
            short.as_str(),
            true,
            "is too short to be told from other text",
        ),
        (
            "exec:printf x",
            false,
            "this host was not told that it may use exec:printf x",
        ),
    ];
    for (from, told, why) in cases {
        let outside = Outside::start([]).await;
        let door = if told {
            allowing(from)
        } else {
            Door::default()
        };
        let calling = through(&outside.url, door).with(needing(from));
        let EffectOutcome::Withdrawn { why: said } = calling.send().await else {
            panic!("{from}: it is withdrawn");
        };
        assert!(
            said.starts_with("credential: ") && said.contains(why),
            "{said}"
        );
        assert!(outside.came().is_empty());
    }
    let outside = Outside::start([]).await;
    let calling = through(&outside.url, allowing("exec:false")).with(needing("exec:false"));
    let outcome = calling.send().await;
    assert!(
        matches!(&outcome, EffectOutcome::NotSent { why } if why.contains("ended with")),
        "what fails now may succeed later: {outcome:?}"
    );
}

/// The secret as a tool may send it back.
fn forms() -> Vec<String> {
    let hex: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent = SECRET.replace('+', "%2B").replace('/', "%2F");
    // python3 -c "import base64; print(base64.b64encode(b'canary-7f3a9c+/x'))"
    let base64 = "Y2FuYXJ5LTdmM2E5YysveA==".to_owned();
    vec![SECRET.to_owned(), base64, percent, hex]
}

fn holds_none(said: &str) {
    for form in forms() {
        let kernel = form.trim_end_matches('=');
        assert!(!said.contains(kernel), "{form} in {said}");
    }
}

#[tokio::test]
async fn whatever_comes_back_has_no_secret_in_any_of_four_encodings() {
    let (_file, from) = file(SECRET);
    for form in forms() {
        let good = format!(r#"{{"id":"T-{form}","version":3,"echo":{{"{form}":["{form}"]}}}}"#);
        let replies = [
            status(200, &good),
            status(
                409,
                &format!(r#"{{"code":"no {form}","message":"not with {form}"}}"#),
            ),
            status(500, &format!("<p>{form}</p>")),
            status(200, &format!("not JSON: {form}")),
            status(429, &format!(r#"{{"code":"{form}"}}"#)),
        ];
        for reply in replies {
            let outside = Outside::start([reply]).await;
            let calling = through(&outside.url, allowing(&from)).with(needing(&from));
            let outcome = calling.send().await;
            holds_none(&format!("{outcome:?}"));
            holds_none(&calling.recorder.everything());
        }
    }
}

#[tokio::test]
async fn data_go_only_where_the_contract_lets_them_go() {
    let outside = Outside::start([]).await;
    let elsewhere = |tool: &mut Tool| {
        tool.data = Some(Data {
            class: DataClass::Internal,
            destinations: ["https://elsewhere.example".to_owned()].into(),
            redact: Vec::new(),
        });
    };
    let calling = through(&outside.url, Door::default()).with(elsewhere);
    let why = format!(
        "destination: the contract of create_ticket lets no data go to {}",
        outside.url
    );
    assert_eq!(calling.send().await, EffectOutcome::Withdrawn { why });
    assert!(outside.came().is_empty());
}

#[tokio::test]
async fn no_tool_is_a_port_of_the_host_itself() {
    let outside = Outside::start([]).await;
    let own: std::net::SocketAddr = outside.url["http://".len()..].parse().unwrap();
    for host in ["127.0.0.1", "localhost", "[::1]", "0.0.0.0"] {
        let door = Door {
            own: [own].into(),
            ..Door::default()
        };
        let url = format!("http://{host}:{}", own.port());
        let EffectOutcome::Withdrawn { why } = through(&url, door).send().await else {
            panic!("{host}: it is withdrawn");
        };
        assert!(why.contains("is a port of this host itself"), "{why}");
    }
    assert!(outside.came().is_empty());
}

#[tokio::test]
async fn every_request_carries_a_token_of_this_very_request() {
    let data = tempfile::tempdir().unwrap();
    let key = TokenSigner::open(data.path()).unwrap().key();
    let outside = Outside::start([status(200, TICKET)]).await;
    let door = Door {
        signer: Some(TokenSigner::open(data.path()).unwrap()),
        ..Door::default()
    };
    let calling = through(&outside.url, door);
    calling.send().await;
    let came = &outside.came()[0];
    let token = came
        .headers
        .lines()
        .find_map(|line| line.strip_prefix("coppice-token: "));
    let asked = Claims {
        audience: outside.url.clone(),
        tenant: "default".to_owned(),
        run: String::new(),
        key: calling.intended("at:file").key.hex(),
        method: "POST".to_owned(),
        path: "/tickets".to_owned(),
    };
    let said = key.verify(token.expect("it has one"), &asked, clock::now());
    assert_eq!(said.map(|said| said.run), Ok("compare-1".to_owned()));
}

fn of_people(tool: &mut Tool) {
    tool.data = Some(Data {
        class: DataClass::Personal,
        destinations: ["{desk}".to_owned()].into(),
        redact: vec!["/customer/email".to_owned(), "/none".to_owned()],
    });
}

const CUSTOMER: &str = r#"{"id":"T-1","version":3,"customer":{"email":"a@b.example","name":"A"}}"#;

#[tokio::test]
async fn a_sensitive_result_is_kept_as_a_blob_without_what_is_redacted() {
    let outside = Outside::start([status(200, CUSTOMER)]).await;
    let calling = through(&outside.url, Door::default()).with(of_people);
    let EffectOutcome::Landed { value, result, .. } = calling.send().await else {
        panic!("it has landed");
    };
    assert_eq!(result, ResultCheck::Ok);
    let Payload::Blob { digest, .. } = value else {
        panic!("it is not in the event: {value:?}");
    };
    let kept = calling.recorder.text(&digest);
    assert!(
        kept.contains(r#""email":"[redacted]""#) && kept.contains(r#""name":"A""#),
        "{kept}"
    );
    assert!(!calling.recorder.everything().contains("a@b.example"));
}

#[tokio::test]
async fn a_bad_result_is_kept_apart_under_the_digest_of_its_receipt() {
    for bad in [r#"{"id":7}"#, "no data at all"] {
        let outside = Outside::start([status(200, bad)]).await;
        let calling = through(&outside.url, Door::default());
        let EffectOutcome::Landed {
            receipt,
            result,
            value,
            ..
        } = calling.send().await
        else {
            panic!("it has landed");
        };
        assert_eq!(result, ResultCheck::OutputInvalid);
        assert_eq!(value, Payload::Inline(Value::Null), "nothing reads it");
        assert_eq!(calling.recorder.text(&receipt.result), bad);
    }
}
