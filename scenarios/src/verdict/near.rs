//! What was probably meant by the address of a fault that never struck: the nearest that the run offered.

use coppice_actors::faults::{Offer, offers};
use coppice_messages::{Commit, ids::TreeId};
use coppice_store::{LogReader, ReadError};
use coppice_topology::load::distance;

/// Everything that a tree offered, as it would be addressed, with how often it came.
pub(super) fn offered(
    log: &LogReader,
    tree: &TreeId,
    before: u64,
) -> Result<Vec<(String, u32)>, ReadError> {
    let mut commits = Vec::new();
    for positioned in log.commits_from(before + 1) {
        // What cannot be decoded is for verify to find.
        commits.extend(Commit::decode(&positioned?.bytes));
    }
    let address = |offer: Offer| {
        let tool = offer.tool.map_or(String::new(), |tool| format!("({tool})"));
        (format!("{}@{}{tool}", offer.path, offer.event), offer.count)
    };
    Ok(offers(tree, &commits).into_iter().map(address).collect())
}

/// In words, which of them a fault may have meant.
pub(super) fn hint(fault: &str, offered: &[(String, u32)]) -> String {
    let (place, rest) = fault.split_once('@').unwrap_or((fault, ""));
    let event = rest.split(['#', ':', '=']).next().unwrap_or_default();
    let meant = format!("{place}@{event}");
    // A place is often right and the event is not, or the other way round; the tool is often left out.
    let far = |address: &str| {
        let without_tool = address.split('(').next().unwrap_or(address);
        distance(&meant, address).min(distance(&meant, without_tool))
    };
    match offered.iter().min_by_key(|(address, _)| far(address)) {
        None => "never struck".to_owned(),
        Some((address, count)) if far(address) == 0 => {
            format!("never struck: {address} came {count} times")
        }
        Some((address, _)) => format!("never struck: did you mean {address}?"),
    }
}
