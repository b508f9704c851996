//! Cheap rules of the repository, each a test: every file of the checkout is read and every breach named with its
//! place. They hold what clippy cannot see; what it can is in `clippy.toml`.
//!
//! `rules` are functions from one file to its breaches; each is also shown a small bad file here, so that a rule
//! which no longer bites fails.

mod rules;

use std::path::{Path, PathBuf};

pub use rules::Source;

/// The root of the checkout.
pub fn repository() -> PathBuf {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_root
        .parent()
        .expect("the crate lies in the workspace")
        .to_path_buf()
}

/// Every text file of the checkout, without what is built or fetched.
pub fn sources() -> Vec<Source> {
    let root = repository();
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the checkout can be read") {
            let path = entry.expect("an entry of the checkout can be read").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let hidden = name.starts_with('.')
                && ![".ci", ".gitignore", ".editorconfig"].contains(&name.as_str());
            if hidden
                || name == "__pycache__"
                || path.join("CACHEDIR.TAG").exists()
                || name == "target"
            {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let below = path.strip_prefix(&root).expect("it lies in the checkout");
                found.push(Source::new(&below.to_string_lossy(), &text));
            }
        }
    }
    assert!(
        found.len() > 20,
        "only {} files found below {}",
        found.len(),
        root.display()
    );
    found
}

/// The rule holds in the whole checkout, and it bites: the bad file breaks it.
#[track_caller]
fn check(rule: impl Fn(&Source) -> Vec<String>, bad_path: &str, bad_text: &str) {
    let breaches: Vec<String> = sources().iter().flat_map(&rule).collect();
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
    assert_eq!(
        rule(&Source::new(bad_path, bad_text)).len(),
        1,
        "the rule misses {bad_path}:\n{bad_text}"
    );
}

#[test]
fn a_file_has_at_most_500_lines_that_are_not_tests() {
    check(
        rules::short_file,
        "cli/src/big.rs",
        &"//! Big.\n".repeat(501),
    );
}

#[test]
fn tests_at_the_end_of_a_file_do_not_count() {
    let text = format!(
        "//! Small.\n#[cfg(test)]\nmod tests {{\n{}}}\n",
        "    //\n".repeat(600)
    );
    assert!(rules::short_file(&Source::new("cli/src/small.rs", &text)).is_empty());
}

#[test]
fn a_function_has_at_most_80_lines() {
    let text = format!(
        "    pub async fn long() {{\n{}    }}\n",
        "        step();\n".repeat(80)
    );
    check(rules::short_functions, "cli/src/long.rs", &text);
}

#[test]
fn a_function_of_80_lines_is_not_too_long_and_its_neighbour_is_counted_alone() {
    let function = format!("fn long() {{\n{}}}\n", "    step();\n".repeat(78));
    assert!(
        rules::short_functions(&Source::new("cli/src/long.rs", &function.repeat(2))).is_empty()
    );
}

#[test]
fn a_file_begins_by_saying_what_it_is() {
    check(rules::says_what_it_is, "cli/src/mute.rs", "use std::fmt;\n");
}

#[test]
fn no_work_is_parked_in_the_code() {
    for bad in [
        "// TODO: later\n",
        "// FIXME\n",
        "    dbg!(x);\n",
        "    todo!()\n",
    ] {
        check(rules::nothing_parked, "cli/src/parked.rs", bad);
    }
}

#[test]
fn no_statement_is_a_bare_matches_that_asserts_nothing() {
    check(
        rules::no_bare_matches,
        "cli/src/bare.rs",
        "    matches!(outcome, Outcome::Held);\n",
    );
    check(
        rules::no_bare_matches,
        "cli/src/bare.rs",
        "    matches!(\n        outcome,\n        Held\n    );\n",
    );
}

#[test]
fn a_matches_whose_value_is_used_is_no_statement() {
    let last = "fn held() -> bool {\n    matches!(outcome, Held)\n}\n";
    let last_of_many_lines =
        "fn open() -> bool {\n    matches!(\n        outcome,\n        Open\n    )\n}\n";
    let bound = "fn bound() {\n    let held =\n        matches!(outcome, Held);\n}\n";
    let text = [last, last_of_many_lines, bound].concat();
    assert!(rules::no_bare_matches(&Source::new("cli/src/value.rs", &text)).is_empty());
}

#[test]
fn no_test_is_switched_off() {
    for bad in ["#[ignore]\n", "#[ignore = \"slow\"]\n"] {
        check(rules::no_ignored_test, "cli/tests/it/off.rs", bad);
    }
}

#[test]
fn the_pure_crates_are_not_async() {
    check(
        rules::pure_crates_are_not_async,
        "actors/kernel/src/late.rs",
        "pub async fn late() {}\n",
    );
}

#[test]
fn the_pure_crates_iterate_in_one_order() {
    check(
        rules::pure_crates_are_ordered,
        "topology/src/chance.rs",
        "use std::collections::HashMap;\n",
    );
}

#[test]
fn only_the_clock_sleeps_and_only_it_reads_the_time() {
    for bad in [
        "std::thread::sleep(pause);\n",
        "tokio::time::sleep(pause).await;\n",
        "let now = Instant::now();\n",
    ] {
        check(
            rules::only_the_clock_knows_time,
            "store/src/recorder.rs",
            bad,
        );
    }
}

#[test]
fn the_clock_may_sleep() {
    let clock = Source::new("store/src/clock.rs", "tokio::time::sleep(pause).await;\n");
    assert!(rules::only_the_clock_knows_time(&clock).is_empty());
}

#[test]
fn an_id_is_a_type_of_its_own() {
    check(
        rules::ids_are_types,
        "messages/src/ids.rs",
        "pub type RunId = String;\n",
    );
}

#[test]
fn a_readme_has_at_most_120_lines() {
    check(rules::short_readme, "README.md", &"A line.\n".repeat(121));
}

#[test]
fn no_file_names_a_path_of_somebodys_machine() {
    for bad in [
        "see `/home/ann/coppice`\n",
        "cd /root/x\n",
        "\"/work/main\"\n",
    ] {
        check(rules::no_machine_paths, "docs/tour.md", bad);
    }
}

#[test]
fn a_path_in_the_tree_of_runs_is_no_machine_path() {
    assert!(
        rules::no_machine_paths(&Source::new("docs/tour.md", "the run t1/root/read\n")).is_empty()
    );
}

#[test]
fn every_make_target_named_in_a_document_exists() {
    let makefile =
        std::fs::read_to_string(repository().join("Makefile")).expect("there is a Makefile");
    let rule = |source: &Source| rules::make_targets_exist(source, &makefile);
    check(rule, "README.md", "Run `make nothing` first.\n");
    check(rule, "README.md", "```\nmake demo\nmake nothing\n```\n");
}

#[test]
fn every_dependency_of_the_workspace_is_explained() {
    let manifest =
        std::fs::read_to_string(repository().join("Cargo.toml")).expect("there is a Cargo.toml");
    let rule = |source: &Source| rules::dependencies_explained(source, &manifest);
    let all = std::fs::read_to_string(repository().join("ARCHITECTURE.md"))
        .expect("there is an ARCHITECTURE.md");
    check(
        rule,
        "ARCHITECTURE.md",
        &all.replace("| `sha2` |", "| `md5` |"),
    );
}

#[test]
fn every_test_that_a_rule_of_the_architecture_cites_exists() {
    let tests: Vec<String> = sources().iter().flat_map(rules::function_names).collect();
    let rule = |source: &Source| rules::cited_tests_exist(source, &tests);
    check(
        rule,
        "ARCHITECTURE.md",
        "## Rules\n\n| 1 | Every fact is an event | `no_such_test` |\n",
    );
}

/// Programs of examples lie in one directory, whichever crate they are of: of two with one name the later one stays.
#[test]
fn no_two_crates_have_an_example_of_the_same_name() {
    let sources = sources();
    let paths: Vec<&str> = sources.iter().map(Source::path).collect();
    assert_eq!(rules::examples_of_one_name(&paths), [] as [String; 0]);
    let bad = ["store/examples/host.rs", "actors/examples/host.rs"];
    assert_eq!(rules::examples_of_one_name(&bad).len(), 1);
}
