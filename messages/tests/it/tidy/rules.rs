//! The rules: functions from one file to the breaches in it, each naming file, line and what to do.
//!
//! They read lines, not syntax; that `cargo fmt` is checked makes lines reliable enough. This folder is not
//! read by the rules about words, because it spells what they forbid.

/// One text file, by its path below the root of the checkout.
pub struct Source {
    path: String,
    text: String,
}

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 80;
const README_LINES_MAX: usize = 120;

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        Source {
            path: path.replace('\\', "/"),
            text: text.to_string(),
        }
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_document(&self) -> bool {
        self.path.ends_with(".md")
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    fn is_pure(&self) -> bool {
        ["messages/src/", "topology/src/", "actors/kernel/src/"]
            .iter()
            .any(|root| self.path.starts_with(root))
    }

    fn spells_the_rules(&self) -> bool {
        self.path.starts_with("messages/tests/it/tidy")
    }

    /// Lines with their numbers, without those that are only a comment.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.numbered()
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    fn breach(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }

    /// A breach for every line of code that contains one of `words`.
    fn code_with(&self, words: &[&str], what: &str) -> Vec<String> {
        let has = |line: &str| words.iter().any(|word| line.contains(word));
        self.code()
            .filter(|(_, line)| has(line))
            .map(|(number, _)| self.breach(number, what))
            .collect()
    }
}

pub fn short_file(source: &Source) -> Vec<String> {
    let lines = source
        .text
        .lines()
        .take_while(|line| line.trim() != "#[cfg(test)]")
        .count();
    if source.is_rust() && !source.is_test() && lines > FILE_LINES_MAX {
        return vec![source.breach(
            lines,
            &format!("more than {FILE_LINES_MAX} lines: split it by concept"),
        )];
    }
    Vec::new()
}

/// A function begins at a line with `fn` and ends at the first closing brace of the same depth.
pub fn short_functions(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let mut begun: Option<(usize, String)> = None;
    for (number, line) in source
        .code()
        .filter(|_| source.is_rust() && !source.is_test())
    {
        match &begun {
            Some((first, end)) if line == end => {
                if number - first + 1 > FUNCTION_LINES_MAX {
                    let what = format!(
                        "a function of more than {FUNCTION_LINES_MAX} lines: give its parts names"
                    );
                    found.push(source.breach(*first, &what));
                }
                begun = None;
            }
            // A declaration over several lines, in a trait: it has no body.
            Some((_, end)) if line.starts_with(&end.replace('}', ")")) && line.ends_with(';') => {
                begun = None;
            }
            Some(_) => {}
            None if begins_function(line) => begun = Some((number, format!("{}}}", indent(line)))),
            None => {}
        }
    }
    found
}

fn begins_function(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let modifier = |word: &&str| {
        ["pub", "const", "async", "unsafe"].contains(word) || word.starts_with("pub(")
    };
    let mut rest = words.iter().skip_while(|word| modifier(word));
    rest.next() == Some(&"fn") && !line.trim_end().ends_with([';', '}'])
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

pub fn says_what_it_is(source: &Source) -> Vec<String> {
    if source.is_rust() && !source.text.starts_with("//! ") {
        return vec![source.breach(1, "begin with `//! ` and what the file promises")];
    }
    Vec::new()
}

pub fn nothing_parked(source: &Source) -> Vec<String> {
    if source.spells_the_rules() {
        return Vec::new();
    }
    let words = ["TODO", "FIXME", "dbg!(", "todo!(", "unimplemented!("];
    let parked = |line: &str| words.iter().any(|word| line.contains(word));
    let lines = source
        .numbered()
        .filter(|(_, line)| source.is_rust() && parked(line));
    lines
        .map(|(number, _)| source.breach(number, "finish it, or file an issue"))
        .collect()
}

/// rustc drops the value of such a statement without a word, so a test that is one cannot fail.
pub fn no_bare_matches(source: &Source) -> Vec<String> {
    let lines: Vec<(usize, &str)> = source.code().filter(|_| source.is_rust()).collect();
    let mut found = Vec::new();
    let mut before = "";
    for (index, (number, line)) in lines.iter().enumerate() {
        let begins_statement = before.is_empty() || before.ends_with([';', '{', '}']);
        if begins_statement && line.trim_start().starts_with("matches!(") {
            let mut depth = 0;
            let end = lines[index..].iter().find(|(_, line)| {
                depth += line.matches('(').count();
                depth = depth.saturating_sub(line.matches(')').count());
                depth == 0
            });
            if end.is_some_and(|(_, line)| line.trim_end().ends_with(");")) {
                found.push(source.breach(*number, "the value is dropped: assert it"));
            }
        }
        before = line.trim_end();
    }
    found
}

pub fn no_ignored_test(source: &Source) -> Vec<String> {
    if source.spells_the_rules() || !source.is_rust() {
        return Vec::new();
    }
    source.code_with(&["#[ignore"], "a test runs or is deleted")
}

pub fn pure_crates_are_not_async(source: &Source) -> Vec<String> {
    if !source.is_pure() {
        return Vec::new();
    }
    source.code_with(
        &["async fn", "async move", "async {", ".await"],
        "a pure crate waits for nothing",
    )
}

pub fn pure_crates_are_ordered(source: &Source) -> Vec<String> {
    if !source.is_pure() {
        return Vec::new();
    }
    source.code_with(
        &["HashMap", "HashSet"],
        "its order is chance: take BTreeMap or BTreeSet",
    )
}

/// clippy refuses these calls too, but an `expect` would silence it anywhere.
pub fn only_the_clock_knows_time(source: &Source) -> Vec<String> {
    if source.spells_the_rules() || !source.is_rust() || source.path == "store/src/clock.rs" {
        return Vec::new();
    }
    let words = [
        "thread::sleep",
        "time::sleep",
        "SystemTime::now",
        "Instant::now",
        "Utc::now",
    ];
    source.code_with(
        &words,
        "time is in store/src/clock.rs; wait for the event instead of sleeping",
    )
}

pub fn ids_are_types(source: &Source) -> Vec<String> {
    let alias = |line: &str| {
        let name = line
            .trim_start()
            .strip_prefix("pub type ")
            .and_then(|rest| rest.split([' ', '<', '=']).next());
        name.is_some_and(|name| name.ends_with("Id"))
    };
    let lines = source
        .code()
        .filter(|(_, line)| source.is_rust() && alias(line));
    lines
        .map(|(number, _)| source.breach(number, "an alias mixes up ids: make it a struct"))
        .collect()
}

pub fn short_readme(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    if source.path == "README.md" && lines > README_LINES_MAX {
        return vec![source.breach(
            lines,
            &format!("more than {README_LINES_MAX} lines: move some to docs/"),
        )];
    }
    Vec::new()
}

pub fn no_machine_paths(source: &Source) -> Vec<String> {
    if source.spells_the_rules() {
        return Vec::new();
    }
    let starts_path = |before: &str| {
        !before.ends_with(|last: char| last.is_alphanumeric() || "._-]}~".contains(last))
    };
    let has = |line: &str| {
        let mut paths = ["/home/", "/root/", "/work/", "/Users/"].into_iter();
        paths.any(|path| {
            line.match_indices(path)
                .any(|(at, _)| starts_path(&line[..at]))
        })
    };
    let lines = source.numbered().filter(|(_, line)| has(line));
    lines
        .map(|(number, _)| {
            source.breach(
                number,
                "a path of one machine: say it relative to the checkout",
            )
        })
        .collect()
}

/// Looks at `make NAME` in backticks and at the beginning of a line of a code block.
pub fn make_targets_exist(source: &Source, makefile: &str) -> Vec<String> {
    let exists = |target: &str| {
        makefile
            .lines()
            .any(|line| line.starts_with(&format!("{target}:")))
    };
    let mut found = Vec::new();
    let mut in_block = false;
    for (number, line) in source.numbered().filter(|_| source.is_document()) {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        let commands: Vec<&str> = if in_block {
            vec![line.trim_start_matches("$ ")]
        } else {
            line.split('`').skip(1).step_by(2).collect()
        };
        for command in commands {
            let Some(target) = command
                .strip_prefix("make ")
                .and_then(|rest| rest.split_whitespace().next())
            else {
                continue;
            };
            if !exists(target) {
                found.push(source.breach(number, &format!("there is no make target {target}")));
            }
        }
    }
    found
}

/// Every name below `[workspace.dependencies]` has a row in ARCHITECTURE.md.
pub fn dependencies_explained(source: &Source, manifest: &str) -> Vec<String> {
    if source.path != "ARCHITECTURE.md" {
        return Vec::new();
    }
    let section = manifest
        .split("[workspace.dependencies]")
        .nth(1)
        .unwrap_or_default();
    let names = section
        .lines()
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = "));
    names
        .filter(|(name, _)| {
            !name.starts_with("coppice-") && !source.text.contains(&format!("| `{name}` |"))
        })
        .map(|(name, _)| {
            source.breach(
                1,
                &format!("say in the table of dependencies what {name} is for"),
            )
        })
        .collect()
}

pub fn function_names(source: &Source) -> Vec<String> {
    let lines = source.code().filter(|_| source.is_rust());
    let names = lines.filter_map(|(_, line)| {
        let line = line.trim_start();
        line.strip_prefix("async ")
            .unwrap_or(line)
            .strip_prefix("fn ")?
            .split(['(', '<'])
            .next()
    });
    names.map(str::to_string).collect()
}

/// In the section `Rules` of ARCHITECTURE.md the last cell of each row names tests in backticks.
pub fn cited_tests_exist(source: &Source, tests: &[String]) -> Vec<String> {
    if source.path != "ARCHITECTURE.md" {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut in_rules = false;
    for (number, line) in source.numbered() {
        if line.starts_with("## ") {
            in_rules = line.starts_with("## Rules");
        }
        if !in_rules || !line.starts_with('|') {
            continue;
        }
        let last = line
            .trim_end_matches(['|', ' '])
            .rsplit('|')
            .next()
            .unwrap_or_default();
        for test in last.split('`').skip(1).step_by(2) {
            if !tests.iter().any(|name| name == test) {
                found.push(source.breach(number, &format!("there is no test {test}")));
            }
        }
    }
    found
}

/// Examples whose program would take the place of another crate's.
pub fn examples_of_one_name(paths: &[&str]) -> Vec<String> {
    let name = |path: &&str| {
        path.split_once("/examples/")
            .map(|(_, name)| name.to_owned())
    };
    let names: Vec<String> = paths.iter().filter_map(name).collect();
    let doubled = names
        .iter()
        .enumerate()
        .filter(|(at, name)| names[..*at].contains(name));
    doubled
        .map(|(_, name)| format!("two crates have an example {name}: rename one"))
        .collect()
}
