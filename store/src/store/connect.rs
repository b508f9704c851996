//! The connections of a store: three, each with a task of its own, so that none stands before another.

use async_nats::Client;

use super::{BusOptions, Endpoint, OpenError, Options};
use crate::{
    bus::{self, Bus, BusError, Refusals},
    clock,
    limits::{GUARD_TICK, SERVER_START_WAIT},
    presence,
    recorder::feed::{self, Feed},
};

/// Connects; to a private server again and again for a while, because one that dies just then is started again.
pub(crate) async fn patiently<T, F: Future<Output = Result<T, BusError>>>(
    private: bool,
    connect: impl Fn() -> F,
) -> Result<T, BusError> {
    let from = clock::mono();
    loop {
        // On the heap: whoever opens a store need not carry every connection under way.
        match Box::pin(connect()).await {
            Err(error @ (BusError::Connect { .. } | BusError::GetStream { .. }))
                if private && from.elapsed() < SERVER_START_WAIT =>
            {
                tracing::warn!(%error, "nats-server is not there: trying again");
                clock::pause(GUARD_TICK).await;
            }
            other => return other,
        }
    }
}

pub(super) type FeedTask = (Feed, tokio::task::JoinHandle<()>);

/// Three connections, each with a task of its own: for commits, for answers, for the feed where one is wanted.
pub(super) async fn connections(
    options: &Options,
    endpoint: &Endpoint,
    service: &Endpoint,
    refusals: &Refusals,
) -> Result<(Bus, Client, Option<FeedTask>), OpenError> {
    let private = matches!(options.bus, BusOptions::Private { .. });
    // Who asks for a reply that is not allowed does not make this host a broken one.
    let of_service = Refusals::default();
    let (service, _) = patiently(private, || {
        bus::connect(service, "coppice-api", &of_service)
    })
    .await?;
    if !private {
        presence::alone(&service, endpoint, options.before.as_ref()).await?;
    }
    let bytes = options.stream_bytes_max;
    let bus = patiently(private, || Bus::open(endpoint, bytes, refusals)).await?;
    let feed = start_feed(options, endpoint, refusals).await?;
    Ok((bus, service, feed))
}

/// The feed with its task, where one is wanted.
async fn start_feed(
    options: &Options,
    endpoint: &Endpoint,
    refusals: &Refusals,
) -> Result<Option<FeedTask>, OpenError> {
    if !options.feed {
        return Ok(None);
    }
    let private = matches!(options.bus, BusOptions::Private { .. });
    let (client, _) = patiently(private, || {
        bus::connect(endpoint, feed::CONNECTION, refusals)
    })
    .await?;
    Ok(Some(Feed::start(
        client,
        endpoint.realm.clone(),
        refusals.clone(),
    )))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::{address::ServerAddress, bus::Credentials, subjects::Realm};

    #[tokio::test]
    async fn a_private_server_that_is_away_for_a_moment_is_tried_again_and_a_shared_one_is_not() {
        let nobody = Endpoint {
            url: ServerAddress::loopback(1),
            realm: Realm::local(),
            credentials: Credentials::None,
            inbox_prefix: "_INBOX".to_owned(),
        };
        let (tried, refusals) = (AtomicU32::new(0), Refusals::default());
        let back_at_the_third = || async {
            if tried.fetch_add(1, Ordering::Relaxed) < 2 {
                bus::connect(&nobody, "test", &refusals).await.map(drop)
            } else {
                Ok(())
            }
        };
        assert!(patiently(true, back_at_the_third).await.is_ok());
        tried.store(0, Ordering::Relaxed);
        assert!(patiently(false, back_at_the_third).await.is_err());
        assert_eq!(tried.load(Ordering::Relaxed), 1);
    }
}
