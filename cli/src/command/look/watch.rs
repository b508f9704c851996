//! `coppice watch`: a tree as text, once or until it has ended.

use std::time::Duration;

use coppice_actors::api::TreeRequest;
use coppice_store::clock;
use coppice_topology::tree::State;

use crate::{
    args::{Common, WatchArgs},
    failure::Failure,
    live::{self, Live},
    out,
    reach::{Reach, Way},
};

/// How often a tree is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// `coppice watch`
pub async fn watch(args: &WatchArgs, common: &Common) -> Result<(), Failure> {
    let reach = Reach::open(common).await?;
    let tenant = reach.tenant(args.tree.tenant.as_ref());
    let tree = reach.the_tree(&tenant, args.tree.tree.as_ref()).await?;
    let request = TreeRequest::now(tree);
    let mut frame = reach.tree(&tenant, &request).await?;
    let mut drawn = Live::new();
    // Without a host nothing is added to the log.
    if !args.once && matches!(reach.way, Way::Host(_)) {
        while let Some(root) = frame.runs.first()
            && root.state != State::Ended
        {
            drawn.picture(&frame);
            clock::pause(LOOK).await;
            frame = reach.tree(&tenant, &request).await?;
        }
    }
    if common.json {
        return out::json(&frame);
    }
    let options = live::text_options(&std::io::stdout());
    out::text(&frame.text(&options))
}
