//! A desk that knows the key of a host: only what that host vouches for, for this very request, is carried out.

use std::collections::BTreeMap;

use coppice_actors::token::{Claims, TOKEN_HEADER, TokenSigner};
use coppice_messages::{Millis, Timestamp};
use coppice_scenarios::desk::Outside;
use coppice_store::clock;

use super::*;

struct Vouched {
    desk: Running,
    signer: TokenSigner,
    _dir: tempfile::TempDir,
}

impl Vouched {
    async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let signer = TokenSigner::open(dir.path()).expect("a key can be made");
        let outside = Outside {
            endpoint: dir.path().join("endpoint.json"),
            secrets: BTreeMap::new(),
            tool_key: Some(signer.key().text()),
        };
        let file = dir.path().join("outside.json");
        let text = serde_json::to_vec(&outside).expect("it is plain data");
        std::fs::write(&file, text).expect("a file can be written");
        let desk = start_with(&dir.path().join("desk"), World::default(), Some(file)).await;
        Self {
            desk,
            signer,
            _dir: dir,
        }
    }

    /// What a request to make a ticket for tenant `a` under `k-1` says of itself.
    fn claims(&self) -> Claims {
        let text = str::to_owned;
        Claims {
            audience: self.desk.url.clone(),
            tenant: text("a"),
            run: text("root-1"),
            key: text("k-1"),
            method: text("POST"),
            path: text("/tickets"),
        }
    }

    /// Status and code of that request with this token.
    async fn post(&self, token: Option<String>) -> (u16, Value) {
        let url = format!("{}/tickets", self.desk.url);
        let request = self.desk.http.post(url).json(&ticket("one"));
        let request = request
            .header("Idempotency-Key", "k-1")
            .header("Coppice-Tenant", "a");
        let request = match token {
            Some(token) => request.header(TOKEN_HEADER, token),
            None => request,
        };
        told(request.send().await.expect("the desk replies")).await
    }

    fn token(&self, change: impl FnOnce(&mut Claims), at: Timestamp) -> String {
        let mut claims = self.claims();
        change(&mut claims);
        self.signer.sign(&claims, at)
    }
}

#[tokio::test]
async fn a_token_of_this_very_request_opens_the_door() {
    let vouched = Vouched::start().await;
    let token = vouched.token(|_| (), clock::now());
    assert_eq!(vouched.post(Some(token)).await.0, 200);
    vouched.desk.stop().await;
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_nothing_is_counted_or_done() {
    let vouched = Vouched::start().await;
    let now = clock::now();
    let elsewhere = tempfile::tempdir().unwrap();
    let stranger = TokenSigner::open(elsewhere.path()).unwrap();
    let cases = [
        ("it has no token", None),
        ("the token is none", Some("x".to_owned())),
        (
            "not signed by the host",
            Some(stranger.sign(&vouched.claims(), now)),
        ),
        (
            "time is over",
            Some(vouched.token(|_| (), now.minus(Millis(61_000)))),
        ),
        (
            "another tenant",
            Some(vouched.token(|claims| claims.tenant = "b".to_owned(), now)),
        ),
        // It was given to another service, which passes it on.
        (
            "another audience",
            Some(vouched.token(
                |claims| claims.audience = "http://127.0.0.1:1".to_owned(),
                now,
            )),
        ),
        (
            "another path",
            Some(vouched.token(|claims| claims.path = "/refunds".to_owned(), now)),
        ),
        (
            "another method",
            Some(vouched.token(|claims| claims.method = "GET".to_owned(), now)),
        ),
        (
            "another key",
            Some(vouched.token(|claims| claims.key = "k-2".to_owned(), now)),
        ),
    ];
    for (why, token) in cases {
        let (status, reply) = vouched.post(token).await;
        assert_eq!(
            (status, &reply["code"]),
            (401, &json!("unvouched")),
            "{why}"
        );
        let message = reply["message"].as_str().unwrap();
        assert!(message.contains(why), "{why}: {message}");
    }
    let witness = vouched.desk.witness().await;
    assert_eq!((witness.tickets, witness.requests.len()), (0, 0));
    vouched.desk.stop().await;
}

#[tokio::test]
async fn another_tenants_ticket_is_nobodys() {
    let vouched = Vouched::start().await;
    let token = vouched.token(|_| (), clock::now());
    assert_eq!(vouched.post(Some(token)).await.0, 200);
    let path = "/tickets/ticket_1/close";
    let claims = Claims {
        tenant: "b".to_owned(),
        path: path.to_owned(),
        ..vouched.claims()
    };
    let token = vouched.signer.sign(&claims, clock::now());
    let request = vouched
        .desk
        .http
        .post(format!("{}{path}", vouched.desk.url));
    let request = request
        .header("Idempotency-Key", "k-1")
        .header("Coppice-Tenant", "b")
        .header(TOKEN_HEADER, token);
    let (status, reply) = told(request.json(&json!({})).send().await.unwrap()).await;
    assert_eq!((status, &reply["code"]), (404, &json!("not_found")));
    vouched.desk.stop().await;
}
