//! What to do about what verification found: which directory to take out of the way, and who fills its place again.

use std::path::Path;

use coppice_actors::{
    api::{Finding, Law},
    endpoint::Endpoint,
};
use coppice_store::Realm;

/// What is to be mended. The log comes first: while it is damaged, the stream may have the only good copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damaged {
    Log,
    Stream,
    /// The state of a living host.
    Host,
}

/// What to do about the findings; nothing where there is nothing to find, or nothing to do about it here. `is_put_back`: the next host notices
/// by itself what the stream lacks.
pub fn remedy(findings: &[Finding], data: &Path, is_put_back: bool) -> Option<String> {
    Some(match damaged(findings)? {
        Damaged::Log => log(data),
        Damaged::Stream if is_put_back => format!(
            "the log has everything, nothing is lost: the next host puts back from the log what the stream lacks (coppice up --data {})",
            data.display()
        ),
        Damaged::Stream => stream(data),
        Damaged::Host => format!(
            "end the host and start it again (coppice up --data {}): it folds what it has from the log",
            data.display()
        ),
    })
}

fn damaged(findings: &[Finding]) -> Option<Damaged> {
    let of = |finding: &Finding| match finding.law {
        Law::Chain | Law::Index | Law::Blob => Some(Damaged::Log),
        // With a position it is a commit of the log; without, one that the log does not have.
        Law::Stream if finding.pos.is_none() => Some(Damaged::Log),
        Law::Stream => Some(Damaged::Stream),
        Law::Live => Some(Damaged::Host),
        Law::Fold
        | Law::Conservation
        | Law::Envelope
        | Law::Evidence
        | Law::Ended
        | Law::Effects => None,
    };
    let all: Vec<Damaged> = findings.iter().filter_map(of).collect();
    let order = [Damaged::Log, Damaged::Stream, Damaged::Host];
    order.into_iter().find(|damaged| all.contains(damaged))
}

/// About a log that is damaged.
pub fn log(data: &Path) -> String {
    let shown = data.display();
    format!(
        "stop the host, take the log out of the way (mv {shown}/log {shown}/log.damaged), and start a host again (coppice up --data {shown}): \
         it reads everything again from the stream. If it names what the stream does not have either, put {shown}/log back; that is in a backup only"
    )
}

/// About a stream that lacks what the log has.
pub fn stream(data: &Path) -> String {
    let shown = data.display();
    let shared = Endpoint::read(data)
        .ok()
        .map(|endpoint| endpoint.realm)
        .filter(|realm| *realm != Realm::local().to_string());
    match shared {
        None => format!(
            "the log has everything, nothing is lost: stop the host, remove {shown}/nats/store, and start a host again (coppice up --data {shown}): \
             it makes the stream anew and fills it from the log"
        ),
        Some(realm) => format!(
            "the log has everything, nothing is lost; only a log that had to be read again from this stream would miss it, so keep a backup of it (coppice backup DIR). \
             If no other host uses the realm {realm}: stop the host, delete the stream (nats stream rm COPPICE_{realm}), and start the host again: \
             it makes the stream anew and fills it from its log"
        ),
    }
}

#[cfg(test)]
mod tests {
    use coppice_messages::ids::TenantId;

    use super::*;

    fn finding(law: Law, pos: Option<u64>) -> Finding {
        Finding {
            law,
            tenant: TenantId::default_tenant(),
            run: None,
            pos,
            what: "of a test".to_owned(),
        }
    }

    #[test]
    fn while_the_log_is_damaged_nobody_is_told_to_remove_the_stream() {
        let data = Path::new("d");
        let lacking = finding(Law::Stream, Some(3));
        let altered = finding(Law::Chain, Some(7));
        let unknown = finding(Law::Stream, None);
        let only = remedy(std::slice::from_ref(&lacking), data, false).expect("something to do");
        assert!(only.contains("remove d/nats/store"), "{only}");
        for of_the_log in [altered, unknown] {
            let both = remedy(&[lacking.clone(), of_the_log], data, true).expect("something to do");
            assert!(both.contains("mv d/log d/log.damaged"), "{both}");
            assert!(!both.contains("remove"), "{both}");
        }
        let back = remedy(&[lacking], data, true).expect("something to do");
        assert!(back.contains("coppice up --data d"), "{back}");
        assert!(!back.contains("remove"), "{back}");
    }

    #[test]
    fn nothing_is_advised_where_no_file_is_at_fault() {
        assert_eq!(remedy(&[], Path::new("d"), false), None);
        let fold = [finding(Law::Fold, Some(1))];
        assert_eq!(remedy(&fold, Path::new("d"), true), None);
    }
}
