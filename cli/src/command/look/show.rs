//! `coppice show`: a run's events, or a tree and its events.

use coppice_actors::api::{EventFilter, TreeRequest};
use coppice_messages::ids::TreeId;
use serde_json::json;

use crate::{
    args::{Common, ShowArgs},
    command::{
        events::{Paths, all},
        host::said,
    },
    failure::Failure,
    live, out,
    reach::Reach,
};

/// `coppice show`
pub async fn show(args: &ShowArgs, common: &Common) -> Result<(), Failure> {
    let reach = Reach::open(common).await?;
    let tenant = reach.tenant(args.tenant.as_ref());
    let run = match &args.run {
        Some(run) => run.clone(),
        None => reach.the_tree(&tenant, None).await?.root(),
    };
    let view = reach.get(&tenant, &run).await?;
    let is_root = view.row.parent.is_none();
    let filter = EventFilter {
        tree: Some(view.row.tree.clone()),
        run: (!is_root).then(|| run.clone()),
        kind: None,
    };
    let events = all(&reach, &tenant, filter).await?;
    let frame = if is_root {
        let request = TreeRequest::now(TreeId::of_root(&run));
        Some(reach.tree(&tenant, &request).await?)
    } else {
        None
    };
    if common.json {
        return out::json(&json!({ "run": view, "tree": frame, "events": events }));
    }
    if let Some(frame) = &frame {
        let options = live::text_options(&std::io::stdout());
        out::text(&format!("{}\n", frame.text(&options)))?;
    }
    let mut paths = Paths::default();
    paths.learn(&view.row.run, &view.row.path);
    for event in &events {
        out::line(paths.line(event))?;
    }
    if let Some(ended) = &view.ended {
        out::line(format!("\n{}: {}", view.row.path, said(Some(ended))))?;
    }
    Ok(())
}
