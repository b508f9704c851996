//! `coppice log verify` where there is no log that could be verified: what of it is in the stream, from which the next host would read it again.

use std::path::{Path, PathBuf};

use coppice_actors::endpoint::Endpoint;
use coppice_store::{
    Gone, GuardCommand, Realm,
    verify::{StreamAlone, stream_alone},
};

use crate::failure::{Failure, Problem};

/// What a command says that finds no usable log, and what the stream beside it has.
pub async fn beside(failure: Failure, data: &Path) -> Failure {
    let private = Endpoint::read(data).map_or(true, |endpoint| {
        endpoint.realm == Realm::local().to_string()
    });
    let Failure::Environment(problem) = failure else {
        return failure;
    };
    if !private || !data.join("nats").is_dir() {
        return Failure::Environment(problem);
    }
    let Ok(guard) = GuardCommand::this_program() else {
        return Failure::Environment(problem);
    };
    let Problem { message, help, .. } = problem;
    let (said, instead) = match stream_alone(data, guard).await {
        Ok(found) => told(&found, data),
        Err(error) => {
            let Problem { message, .. } = Problem::of(&error);
            (format!("the stream cannot be looked at: {message}"), None)
        }
    };
    let problem = Problem::new(format!("{message}; {said}"));
    Failure::Environment(match instead.or(help) {
        Some(help) => problem.help(help),
        None => problem,
    })
}

/// What the stream has, and what to do if a host cannot make the log of it again.
fn told(found: &StreamAlone, data: &Path) -> (String, Option<String>) {
    let StreamAlone {
        messages,
        commits,
        had,
        older,
        gone,
        aside,
    } = found;
    if let Some(gone) = gone {
        return (gone.to_string(), Some(lost(aside, data)));
    }
    match had.and_then(|had| Gone::at_the_end(*commits, *older, had)) {
        Some(missing) => (
            format!("the stream ends before as well: {missing}"),
            Some(lost(aside, data)),
        ),
        None => (
            format!("its stream can be read whole: {messages} messages with {commits} commits"),
            None,
        ),
    }
}

fn lost(aside: &[PathBuf], data: &Path) -> String {
    let shown = data.display();
    let kept: Vec<String> = aside
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let kept = match kept.is_empty() {
        true => String::new(),
        false => format!(
            "; what was set aside before may have it too: {}",
            kept.join(", ")
        ),
    };
    format!(
        "a host on it (coppice up --data {shown}) would say the same and stop: put back a copy of {shown}, taken while no host ran, that has them, \
         or make a new directory of a backup (coppice restore BACKUP --data NEW){kept}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(commits: u64, had: Option<u64>) -> StreamAlone {
        StreamAlone {
            messages: 9,
            commits,
            had,
            older: None,
            gone: None,
            aside: vec![PathBuf::from("d/log.set-aside-7")],
        }
    }

    #[test]
    fn a_stream_that_has_everything_is_left_to_a_host_and_one_that_ends_before_is_not() {
        let data = Path::new("d");
        for had in [None, Some(7)] {
            let (said, help) = told(&found(7, had), data);
            assert!(said.contains("9 messages with 7 commits"), "{said}");
            assert_eq!(help, None);
        }
        let (said, help) = told(&found(7, Some(9)), data);
        assert!(said.contains("positions 8 to 9 are in neither"), "{said}");
        let help = help.expect("what to do");
        assert!(help.contains("coppice restore"), "{help}");
        assert!(help.contains("d/log.set-aside-7"), "{help}");
    }
}
