//! Two hosts that are started at the same moment on one realm of a shared server.

use coppice_messages::{event::system::HostStarted, ids::HostId};
use coppice_store::{BusOptions, Credentials, Options, Realm, Store, SystemEventError};

use crate::{bus::Server, support::options};

fn of_round(server: &Server, data: &std::path::Path, round: u32, host: &str) -> Options {
    let mut options = options(data);
    options.host = host.parse().expect("a host id");
    options.bus = BusOptions::Shared {
        url: server.url().parse().expect("an address"),
        realm: Realm::shared(&format!("staging{round}")).expect("a realm"),
        credentials: Credentials::None,
    };
    options.stream_bytes_max = 16 << 20;
    options
}

async fn started(store: &Store, host: &HostId) -> Result<u64, SystemEventError> {
    let started = HostStarted {
        host: host.clone(),
        version: "0".to_owned(),
        pid: std::process::id(),
    };
    store.host_started(started).await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_hosts_started_at_the_same_moment_one_is_recorded_and_the_other_is_told_its_name() {
    const ROUNDS: u32 = 6;
    let server = Server::start().await;
    let mut refused_by_the_log = 0;
    for round in 0..ROUNDS {
        let (one, two) = (
            tempfile::tempdir().expect("a directory"),
            tempfile::tempdir().expect("a directory"),
        );
        let (first, second) = (
            of_round(&server, one.path(), round, "h-one"),
            of_round(&server, two.path(), round, "h-two"),
        );
        let hosts = [first.host.clone(), second.host.clone()];
        let (one_open, two_open) = tokio::join!(Store::open(first), Store::open(second));
        let (one_open, two_open) = match (one_open, two_open) {
            (Ok(one), Ok(two)) => (one, two),
            // The one was there before the other asked.
            (Ok(one), Err(error)) | (Err(error), Ok(one)) => {
                assert!(error.to_string().contains("has a host: h-"), "{error}");
                one.close().await;
                continue;
            }
            (Err(one), Err(two)) => panic!("none is up: {one}; {two}"),
        };
        let (of_one, of_two) =
            tokio::join!(started(&one_open, &hosts[0]), started(&two_open, &hosts[1]));
        let (error, winner) = match (of_one, of_two) {
            (Ok(_), Err(error)) => (error, &hosts[0]),
            (Err(error), Ok(_)) => (error, &hosts[1]),
            // The log has one after the other: the first one ends by itself, and says who came.
            (Ok(at), Ok(other)) => {
                let (first, next) = if at < other {
                    (&one_open, 1)
                } else {
                    (&two_open, 0)
                };
                let fatal = first.fatal().await.to_string();
                assert!(fatal.contains(hosts[next].as_str()), "{fatal}");
                one_open.close().await;
                two_open.close().await;
                continue;
            }
            (Err(one), Err(two)) => panic!("none is recorded: {one}; {two}"),
        };
        refused_by_the_log += 1;
        let said = error.to_string();
        assert!(matches!(error, SystemEventError::OtherHost(_)), "{said}");
        assert!(said.contains(&format!("has a host: {winner} ")), "{said}");
        assert!(said.contains("name another --realm"), "{said}");
        one_open.close().await;
        two_open.close().await;
    }
    assert!(refused_by_the_log > 0, "they were never at the same moment");
    println!("{refused_by_the_log} of {ROUNDS} were refused by the log");
}
