//! What the desk knows from the start: incidents, runbooks and queues.

use serde_json::{Value, json};

use super::{limits, refusal::Refusal};

/// The queue that tickets are filed in.
pub(super) const SUPPORT: &str = "support";
const QUEUES: [&str; 2] = [SUPPORT, "payments"];

struct Incident {
    id: &'static str,
    severity: &'static str,
    service: &'static str,
    summary: &'static str,
    text: &'static str,
    runbook: &'static str,
}

struct Runbook {
    id: &'static str,
    title: &'static str,
    text: &'static str,
}

const RUNBOOKS: [Runbook; 5] = [
    Runbook {
        id: "runbook_certificates",
        title: "Rotate a certificate before it expires",
        text: "List the certificates that end within 14 days, issue new ones, reload the gateways one by one, check the expiry that clients see.",
    },
    Runbook {
        id: "runbook_connections",
        title: "Drain a database connection pool",
        text: "Find the service that holds idle connections, lower its pool size, restart it, watch the number of waiting clients fall.",
    },
    Runbook {
        id: "runbook_queue",
        title: "Work off a queue that grows",
        text: "Stop the producers that can wait, add consumers up to the limit of the database, set poison messages aside, start the producers again.",
    },
    Runbook {
        id: "runbook_payments",
        title: "Settle payments in doubt after a timeout",
        text: "Look every payment up by its idempotency key, settle what is found, never send a second payment under a new key.",
    },
    Runbook {
        id: "runbook_rollback",
        title: "Roll a release back",
        text: "Freeze deployments, put the last good release back, compare the error rate over ten minutes, keep the logs of the bad one.",
    },
];

const INCIDENTS: [Incident; 7] = [
    Incident {
        id: "incident_104",
        severity: "high",
        service: "checkout",
        summary: "Checkout answered 502 for 23 minutes after a certificate had expired.",
        text: "At 09:12 the certificate between the gateway and checkout ended. Every new connection failed, open ones went on. The alert on expiry had been muted in March. A new certificate was issued at 09:31 and the gateways were reloaded by 09:35.",
        runbook: "runbook_certificates",
    },
    Incident {
        id: "incident_119",
        severity: "medium",
        service: "checkout",
        summary: "Checkout was slow for two hours while its connection pool was exhausted.",
        text: "From 14:05 the median of checkout rose from 80 ms to 4 s. A report job held 180 of 200 database connections. The job was stopped at 15:50; the pool size of reports was lowered the next day.",
        runbook: "runbook_connections",
    },
    Incident {
        id: "incident_120",
        severity: "high",
        service: "payments",
        summary: "41 payments were left in doubt after timeouts at the provider.",
        text: "The provider answered late between 18:00 and 18:20. Forty-one payments timed out after they had been sent. All were looked up by key: 39 had been made, 2 had not. None was paid twice.",
        runbook: "runbook_payments",
    },
    Incident {
        id: "incident_127",
        severity: "low",
        service: "mail",
        summary: "Order mails were up to six hours late.",
        text: "A template with a broken character stopped the consumer, which tried the same message again and again. The message was set aside and the queue was worked off by the evening.",
        runbook: "runbook_queue",
    },
    Incident {
        id: "incident_131",
        severity: "medium",
        service: "search",
        summary: "Search left out products that had been added since Monday.",
        text: "A release changed the name of an index field. The indexer skipped documents that it could not read, without an error. The release was rolled back and the index was built anew.",
        runbook: "runbook_rollback",
    },
    Incident {
        id: "incident_142",
        severity: "high",
        service: "login",
        summary: "Nobody could log in for nine minutes during a release.",
        text: "The new release expected a column that the migration had not yet made. Every login failed until the release was rolled back.",
        runbook: "runbook_rollback",
    },
    Incident {
        id: "incident_150",
        severity: "low",
        service: "reports",
        summary: "Nightly reports were empty for two days.",
        text: "The report job ran before the import was done, since the import had become slower. The job now waits for the import.",
        runbook: "runbook_queue",
    },
];

/// A known incident; one made from its number for any other `incident_<digits>`, so that a wide fan-out has data.
pub(super) fn incident(id: &str) -> Result<Value, Refusal> {
    if let Some(known) = INCIDENTS.iter().find(|incident| incident.id == id) {
        return Ok(shown(id, known, known.summary.to_owned()));
    }
    let digits = id.strip_prefix("incident_").filter(|digits| {
        (1..=limits::INCIDENT_DIGITS).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    let number: Option<usize> = digits.and_then(|digits| digits.parse().ok());
    let pattern = number.and_then(|number| {
        INCIDENTS
            .iter()
            .cycle()
            .nth(number % INCIDENTS.len())
            .map(|like| (number, like))
    });
    match pattern {
        Some((number, like)) => Ok(shown(
            id,
            like,
            format!("Number {number}, like {}: {}", like.id, like.summary),
        )),
        None => Err(missing("incident", id)),
    }
}

fn shown(id: &str, incident: &Incident, summary: String) -> Value {
    json!({
        "id": id,
        "version": 1,
        "severity": incident.severity,
        "service": incident.service,
        "summary": summary,
        "text": incident.text,
        "runbooks": [incident.runbook],
    })
}

/// The runbooks in which a word of the text occurs, those with most words first.
pub(super) fn runbooks(text: &str) -> Value {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let mut ranked: Vec<(usize, &Runbook)> = RUNBOOKS
        .iter()
        .map(|runbook| {
            let content =
                format!("{} {} {}", runbook.id, runbook.title, runbook.text).to_lowercase();
            (
                words
                    .iter()
                    .filter(|word| content.contains(word.as_str()))
                    .count(),
                runbook,
            )
        })
        .filter(|(hits, _)| *hits > 0)
        .collect();
    ranked.sort_by(|(some, _), (other, _)| other.cmp(some));
    let found: Vec<Value> = ranked
        .iter()
        .map(|(_, found)| json!({ "id": found.id, "version": 1, "title": found.title, "text": found.text }))
        .collect();
    json!({ "count": found.len(), "runbooks": found })
}

/// A queue; its version is that of its settings, which filing a ticket does not change.
pub(super) fn queue(id: &str, closed: &[String]) -> Result<Value, Refusal> {
    let version = queue_version(id)?;
    let open = !closed.iter().any(|queue| queue == id);
    Ok(json!({ "id": id, "open": open, "version": version }))
}

pub(super) fn queue_version(id: &str) -> Result<u64, Refusal> {
    if QUEUES.contains(&id) {
        return Ok(1);
    }
    Err(missing("queue", id))
}

fn missing(kind: &'static str, id: &str) -> Refusal {
    Refusal::NotFound {
        kind,
        id: id.to_owned(),
    }
}
