//! The desk's business: what each route does to the rows.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    arguments::{self, CloseTicket, CreateTicket, Named, PayRefund, Wanted, WriteFile},
    arrival::{Arrival, sha256},
    limits,
    refusal::Refusal,
    seed,
    store::{Durable, Rows, Store},
    witness,
    world::{Route, World},
};

#[derive(Serialize, Deserialize)]
struct Ticket {
    id: String,
    version: u64,
    queue: String,
    status: Status,
    title: String,
    body: Value,
    note: Option<String>,
    request_id: Option<String>,
    closing_note: Option<String>,
}

#[derive(Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Status {
    Open,
    Closed,
}

#[derive(Serialize, Deserialize)]
struct Refund {
    id: String,
    version: u64,
    order: String,
    amount_minor: u64,
    currency: String,
    note: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct File {
    id: String,
    content: String,
    version: u64,
}

/// What a key was used for.
#[derive(Serialize, Deserialize)]
struct Stored {
    digest: String,
    reply: Value,
}

/// Carries a request out; an effect is on the disk when this returns.
pub(super) fn perform(
    store: &Store,
    world: &World,
    mut arrival: Arrival,
) -> Result<Value, Refusal> {
    let route = arrival.route;
    let given = std::mem::replace(&mut arrival.arguments, Ok(Value::Null))?;
    let desk = Book {
        store,
        world,
        arrival,
    };
    let one = |given| arguments::read::<Named>(route, given).map(|named| named.id);
    let wanted = |given| arguments::read::<Wanted>(route, given).map(|wanted| wanted.value);
    match route {
        Route::ReadIncident => seed::incident(&one(given)?),
        Route::ReadQueue => seed::queue(&one(given)?, &world.closed),
        Route::SearchRunbook => {
            let text = wanted(given)?;
            arguments::text("q", &text, limits::NAME_CHARS)?;
            Ok(seed::runbooks(&text))
        }
        Route::ReadTicket => desk.ticket(&one(given)?).map(|(_, ticket)| json!(ticket)),
        Route::ReadRefund => desk.refund(&one(given)?),
        Route::ReadFile => desk.file(&one(given)?),
        Route::FindTicket => {
            let tickets = desk.indexed::<Ticket>("request", "ticket", &wanted(given)?)?;
            Ok(json!({ "count": tickets.len(), "tickets": tickets }))
        }
        Route::LookupTicket => desk.looked_up::<Ticket>("key", "ticket", &wanted(given)?),
        Route::LookupClosure => desk.looked_up::<Ticket>("closed", "ticket", &wanted(given)?),
        Route::LookupRefund => desk.looked_up::<Refund>("key", "refund", &wanted(given)?),
        Route::CreateTicket => desk.create_ticket(arguments::read(route, given)?),
        Route::CloseTicket => desk.close_ticket(arguments::read(route, given)?),
        Route::PayRefund => desk.pay_refund(arguments::read(route, given)?),
        Route::WriteFile => desk.write_file(arguments::read(route, given)?),
    }
}

struct Book<'a> {
    store: &'a Store,
    world: &'a World,
    arrival: Arrival,
}

impl Book<'_> {
    fn create_ticket(&self, asked: CreateTicket) -> Result<Value, Refusal> {
        asked.check()?;
        self.once(|rows| {
            let (number, id) = self.next("ticket", rows)?;
            self.index(rows, "key", "ticket", &self.arrival.key, number)?;
            self.index(
                rows,
                "request",
                "ticket",
                asked.request_id.as_deref().unwrap_or(""),
                number,
            )?;
            let ticket = Ticket {
                id,
                version: 1,
                queue: seed::SUPPORT.to_owned(),
                status: Status::Open,
                title: asked.title,
                body: asked.body,
                note: asked.note,
                request_id: asked.request_id,
                closing_note: None,
            };
            rows.put(self.row("ticket", number), &ticket)?;
            Ok(json!({ "id": ticket.id, "version": ticket.version }))
        })
    }

    fn close_ticket(&self, asked: CloseTicket) -> Result<Value, Refusal> {
        self.once(|rows| {
            let (number, mut ticket) = self.ticket(&asked.id)?;
            if ticket.status == Status::Closed {
                return Err(Refusal::AlreadyClosed { id: asked.id });
            }
            ticket.status = Status::Closed;
            ticket.version += 1;
            ticket.closing_note = asked.note;
            self.index(rows, "closed", "ticket", &self.arrival.key, number)?;
            rows.put(self.row("ticket", number), &ticket)?;
            Ok(json!({ "id": ticket.id, "version": ticket.version }))
        })
    }

    fn pay_refund(&self, asked: PayRefund) -> Result<Value, Refusal> {
        let amount_minor = asked.check()?;
        self.once(|rows| {
            let (number, id) = self.next("refund", rows)?;
            self.index(rows, "key", "refund", &self.arrival.key, number)?;
            let refund = Refund {
                id,
                version: 1,
                order: asked.order,
                amount_minor,
                currency: asked.currency,
                note: asked.note,
            };
            rows.put(self.row("refund", number), &refund)?;
            Ok(json!({ "id": refund.id, "version": refund.version }))
        })
    }

    fn write_file(&self, asked: WriteFile) -> Result<Value, Refusal> {
        asked.check()?;
        self.once(|rows| {
            let row = self.file_row(&asked.id);
            let current = self.store.get::<File>(&row)?.map_or(0, |file| file.version);
            if let Some(expected) = asked.version.filter(|expected| *expected != current) {
                return Err(Refusal::VersionConflict {
                    name: asked.id,
                    expected,
                    current,
                });
            }
            let file = File {
                id: asked.id,
                content: asked.content,
                version: current + 1,
            };
            rows.put(row, &file)?;
            Ok(json!({ "id": file.id, "version": file.version }))
        })
    }

    /// Commits an effect with the memory of its key and the witness's count; a remembered key has none.
    fn once(
        &self,
        effect: impl FnOnce(&mut Rows) -> Result<Value, Refusal>,
    ) -> Result<Value, Refusal> {
        let Arrival {
            tenant,
            route,
            key,
            digest,
            ..
        } = &self.arrival;
        let remembered = (self.world.dedupe && !key.is_empty())
            .then(|| format!("reply/{tenant}/{route}/{}", sha256(key.as_bytes())));
        if let Some(row) = &remembered
            && let Some(stored) = self.store.get::<Stored>(row)?
        {
            if stored.digest == *digest {
                return Ok(stored.reply);
            }
            return Err(Refusal::KeyConflict {
                stored: stored.digest,
                given: digest.clone(),
            });
        }
        self.unchanged()?;
        let mut rows = Rows::default();
        let reply = effect(&mut rows)?;
        if let Some(row) = remembered {
            let stored = Stored {
                digest: digest.clone(),
                reply: reply.clone(),
            };
            rows.put(row, &stored)?;
        }
        witness::committed(self.store, &self.arrival, &mut rows)?;
        self.store.write(rows, Durable::Disk)?;
        Ok(reply)
    }

    /// What the sender saw of the resource is still so.
    fn unchanged(&self) -> Result<(), Refusal> {
        let Some((resource, expected)) = &self.arrival.seen else {
            return Ok(());
        };
        let current = match resource.split_once('/') {
            Some(("ticket", id)) => self.ticket(id)?.1.version,
            Some(("queue", id)) => seed::queue_version(id)?,
            _ => return Ok(()),
        };
        if *expected == current {
            return Ok(());
        }
        Err(Refusal::VersionConflict {
            name: resource.clone(),
            expected: *expected,
            current,
        })
    }

    fn ticket(&self, id: &str) -> Result<(u64, Ticket), Refusal> {
        let number = id
            .strip_prefix("ticket_")
            .and_then(|number| number.parse().ok());
        let found = match number {
            Some(number) => self
                .store
                .get::<Ticket>(&self.row("ticket", number))?
                .map(|ticket| (number, ticket)),
            None => None,
        };
        found
            .filter(|(_, ticket)| ticket.id == id)
            .ok_or_else(|| Refusal::NotFound {
                kind: "ticket",
                id: id.to_owned(),
            })
    }

    fn refund(&self, id: &str) -> Result<Value, Refusal> {
        let number = id.strip_prefix("refund_").and_then(|nth| nth.parse().ok());
        let found = match number {
            Some(number) => self.store.get::<Refund>(&self.row("refund", number))?,
            None => None,
        };
        found
            .filter(|refund| refund.id == id)
            .map(|refund| json!(refund))
            .ok_or_else(|| Refusal::NotFound {
                kind: "refund",
                id: id.to_owned(),
            })
    }

    fn file(&self, name: &str) -> Result<Value, Refusal> {
        let file = self.store.get::<File>(&self.file_row(name))?;
        file.map(|file| json!(file))
            .ok_or_else(|| Refusal::NotFound {
                kind: "file",
                id: name.to_owned(),
            })
    }

    fn looked_up<T: Serialize + for<'de> Deserialize<'de>>(
        &self,
        by: &str,
        kind: &str,
        value: &str,
    ) -> Result<Value, Refusal> {
        if !self.world.lookup {
            return Err(Refusal::LookupOff);
        }
        Ok(json!(self.indexed::<T>(by, kind, value)?))
    }

    /// The objects of a kind whose `by` has this value, oldest first.
    fn indexed<T: for<'de> Deserialize<'de>>(
        &self,
        by: &str,
        kind: &str,
        value: &str,
    ) -> Result<Vec<T>, Refusal> {
        let numbers: Vec<u64> = self.store.scan(&self.index_prefix(by, kind, value))?;
        let mut found = Vec::new();
        for number in numbers {
            found.extend(self.store.get::<T>(&self.row(kind, number))?);
        }
        Ok(found)
    }

    fn index(
        &self,
        rows: &mut Rows,
        by: &str,
        kind: &str,
        value: &str,
        number: u64,
    ) -> Result<(), Refusal> {
        if !value.is_empty() {
            rows.put(
                format!("{}{number:012}", self.index_prefix(by, kind, value)),
                &number,
            )?;
        }
        Ok(())
    }

    fn index_prefix(&self, by: &str, kind: &str, value: &str) -> String {
        format!(
            "by/{by}/{kind}/{}/{}/",
            self.arrival.tenant,
            sha256(value.as_bytes())
        )
    }

    fn next(&self, kind: &str, rows: &mut Rows) -> Result<(u64, String), Refusal> {
        let row = format!("last/{kind}");
        let number = self.store.get::<u64>(&row)?.unwrap_or(0) + 1;
        rows.put(row, &number)?;
        Ok((number, format!("{kind}_{number}")))
    }

    fn row(&self, kind: &str, number: u64) -> String {
        format!("{kind}/{}/{number:012}", self.arrival.tenant)
    }

    fn file_row(&self, name: &str) -> String {
        format!("file/{}/{name}", self.arrival.tenant)
    }
}
