//! The row of each run that a commit opens, ends, or settles a doubt of.

use coppice_messages::{Commit, Event, event::run};

use super::{Batch, RunKey};
use crate::{
    log::{Row, RowEnd, rows},
    recorder::Halt,
};

impl Batch<'_> {
    /// A run has its row from its opening on; its end, and what is found out later about its doubts, change it.
    pub(super) fn update_row(&mut self, commit: &Commit) -> Result<(), Halt> {
        let key = (commit.tenant.clone(), commit.run.clone());
        for entry in &commit.events {
            match &entry.event {
                Event::Run(run::Event::Opened(opened)) => {
                    let row = Row {
                        tenant: commit.tenant.clone(),
                        tree: commit.tree.clone(),
                        run: commit.run.clone(),
                        parent: commit.parent.as_ref().map(|p| p.run.clone()),
                        path: opened.path.clone(),
                        opened_at: commit.at,
                        ended: None,
                        labels: opened.labels.clone(),
                    };
                    self.rows.insert(key.clone(), row);
                }
                Event::Run(run::Event::Ended(ended)) => {
                    let end = RowEnd {
                        reason: ended.reason,
                        class: ended.class.clone(),
                        at: commit.at,
                        in_doubt: u32::try_from(ended.in_doubt.len()).unwrap_or(u32::MAX),
                    };
                    self.change_row(&key, |row| row.ended = Some(end))?;
                }
                Event::Run(run::Event::Late(_)) => {
                    self.change_row(&key, |row| {
                        if let Some(end) = &mut row.ended {
                            end.in_doubt = end.in_doubt.saturating_sub(1);
                        }
                    })?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Changes a run's row, if it has one.
    fn change_row(&mut self, key: &RunKey, change: impl FnOnce(&mut Row)) -> Result<(), Halt> {
        let row = match self.rows.remove(key) {
            Some(row) => Some(row),
            None => rows::get(&self.view.tables.rows, &key.0, &key.1)?,
        };
        if let Some(mut row) = row {
            change(&mut row);
            self.rows.insert(key.clone(), row);
        }
        Ok(())
    }
}
