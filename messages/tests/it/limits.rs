//! `docs/limits.md` is made from the code: every constant of each `limits.rs`, and every other one whose name ends in `_MAX`
//! or `_MIN`, with its value and the words beside it. The page cannot differ from what is compiled.

use std::collections::BTreeMap;

use crate::tidy::{repository, sources};

const PAGE: &str = "docs/limits.md";
const INTRODUCTION: &str = "\
# Bounds

Every bound of Coppice, and what happens when it is reached. This page is made from the code and a test holds it to that; after a
change of a bound, make it again: `UPDATE_LIMITS=1 cargo test -p coppice-messages --test it limits`. What a contract grants (budgets,
deadlines, children) is bounded by the contract first, and by this page in any case.
";

/// The crates, in the direction of their dependencies.
const CRATES: [(&str, &str); 7] = [
    ("messages/", "What can be said"),
    ("topology/", "The shape of a tree"),
    ("actors/kernel/", "A run"),
    ("store/", "NATS and the log"),
    ("actors/", "The host, its actors and ports"),
    ("scenarios/", "Scenarios and the desk"),
    ("cli/", "The command"),
];

struct Bound {
    name: String,
    value: String,
    words: String,
}

/// The crate that a file belongs to.
fn crate_of(path: &str) -> Option<&'static str> {
    let mut all = CRATES.iter().map(|(root, _)| *root);
    // `actors/kernel/` lies in `actors/` and stands before it.
    all.find(|root| path.starts_with(&format!("{root}src/")))
}

fn bounds(path: &str, text: &str) -> Vec<Bound> {
    let all = path.ends_with("/limits.rs");
    let mut words: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(said) = line.strip_prefix("/// ") {
            words.push(said);
            continue;
        }
        if let Some(declared) = constant(line) {
            let mut whole = declared.to_owned();
            while !whole.ends_with(';') {
                let Some(more) = lines.next() else { break };
                whole = format!("{whole} {}", more.trim());
            }
            if let Some((name, value)) = whole.trim_end_matches(';').split_once(" = ") {
                let name = name.split(':').next().unwrap_or_default();
                if all || name.ends_with("_MAX") || name.ends_with("_MIN") {
                    found.push(Bound {
                        name: name.to_owned(),
                        value: readable(name, value.trim()),
                        words: words.join(" "),
                    });
                }
            }
        }
        words.clear();
    }
    found
}

fn constant(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub").map_or(line, |rest| {
        let rest = rest.strip_prefix("(super)").unwrap_or(rest);
        rest.strip_prefix("(crate)").unwrap_or(rest).trim_start()
    });
    rest.strip_prefix("const ")
}

/// The value as people read it; an expression that is more than a product or a shift stays as it is written.
fn readable(name: &str, value: &str) -> String {
    let inside = |wrapper: &str| value.strip_prefix(wrapper)?.strip_suffix(')');
    let seconds = inside("Duration::from_secs(").and_then(number);
    let millis = inside("Duration::from_millis(").or_else(|| inside("Millis("));
    let millis = millis.and_then(number);
    if let Some(seconds) = seconds {
        return time(seconds * 1_000);
    }
    if let Some(millis) = millis {
        return time(millis);
    }
    let bytes = inside("Bytes(");
    match number(bytes.unwrap_or(value)) {
        Some(number) if name.ends_with("_MS") => time(number),
        Some(number) if bytes.is_some() || name.contains("BYTES") => size(number),
        Some(number) => grouped(number),
        None => format!("`{value}`"),
    }
}

fn number(text: &str) -> Option<u64> {
    if let Some((left, right)) = text.split_once(" << ") {
        return number(left)?.checked_shl(u32::try_from(number(right)?).ok()?);
    }
    let mut product: u64 = 1;
    for part in text.split(" * ") {
        product = product.checked_mul(part.replace('_', "").parse().ok()?)?;
    }
    Some(product)
}

fn time(millis: u64) -> String {
    match millis {
        whole if whole.is_multiple_of(3_600_000) => format!("{} h", whole / 3_600_000),
        whole if whole.is_multiple_of(60_000) => format!("{} min", whole / 60_000),
        whole if whole.is_multiple_of(1_000) => format!("{} s", whole / 1_000),
        millis => format!("{millis} ms"),
    }
}

fn size(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{} bytes", grouped(bytes))
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The page, as the code has it now.
fn page() -> String {
    let mut by_crate: BTreeMap<&str, Vec<Bound>> = BTreeMap::new();
    let mut files = sources();
    files.sort_by(|one, other| one.path().cmp(other.path()));
    for file in files.iter().filter(|file| !file.is_test()) {
        if let Some(root) = crate_of(file.path()) {
            let found = bounds(file.path(), file.text());
            by_crate.entry(root).or_default().extend(found);
        }
    }
    let mut text = INTRODUCTION.to_owned();
    for (root, title) in CRATES {
        let Some(found) = by_crate.get(root).filter(|found| !found.is_empty()) else {
            continue;
        };
        text.push_str(&format!(
            "\n## {title} (`{root}`)\n\n| bound | value | what it bounds |\n|---|---|---|\n"
        ));
        for Bound { name, value, words } in found {
            text.push_str(&format!("| `{name}` | {value} | {words} |\n"));
        }
    }
    text
}

#[test]
fn the_page_of_bounds_is_what_the_code_has() {
    let made = page();
    let path = repository().join(PAGE);
    if std::env::var_os("UPDATE_LIMITS").is_some() {
        std::fs::write(&path, &made).expect("the page can be written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    for (line, (there, made)) in there.lines().zip(made.lines()).enumerate() {
        assert_eq!(
            there,
            made,
            "{PAGE}:{}: make it again with UPDATE_LIMITS=1",
            line + 1
        );
    }
    assert!(
        there == made,
        "{PAGE} ends otherwise: make it again with UPDATE_LIMITS=1"
    );
}

#[test]
fn a_bound_is_read_with_its_words_and_its_value_is_readable() {
    let text = "/// First\n/// words.\npub const A_BYTES_MAX: usize = 64 << 10;\nconst B_MIN: u64 = 10_000;\n/// Not a bound.\nconst OTHER: u8 = 1;\n";
    let found = bounds("store/src/x.rs", text);
    let shown = |bound: &Bound| format!("{} {} {}", bound.name, bound.value, bound.words);
    let shown: Vec<String> = found.iter().map(shown).collect();
    assert_eq!(shown, ["A_BYTES_MAX 64 KiB First words.", "B_MIN 10,000 "]);
    assert_eq!(bounds("store/src/limits.rs", text).len(), 3);
    for (value, readable_as) in [
        ("Duration::from_millis(750)", "750 ms"),
        ("Duration::from_secs(3_600)", "1 h"),
        ("10 * 60 * 1000", "600,000"),
        ("Bytes(1 << 20)", "1 MiB"),
        ("(1 << 53) - 1", "`(1 << 53) - 1`"),
    ] {
        assert_eq!(readable("X_MAX", value), readable_as);
    }
}
