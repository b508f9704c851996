//! Holds the direction of dependencies: the pure crates reach no runtime, network, store, clock or random source,
//! and the workspace's crates build on each other in one direction only.
//!
//! It reads `cargo metadata` for this platform and follows what is linked in: build scripts, procedural macros and
//! what only tests need are left out. Features are those of the whole workspace, so a crate that turns on
//! chrono's clock anywhere is seen here too.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};

/// The crates that may not know that time passes or that a network exists.
const PURE: [&str; 3] = ["coppice-messages", "coppice-topology", "coppice-kernel"];

/// What they may not reach. A trailing `*` stands for any ending.
const IMPURE: [&str; 17] = [
    "cedar-policy*",
    "tokio*",
    "async-std*",
    "smol",
    "mio",
    "ractor*",
    "async-nats",
    "fjall",
    "rand",
    "rand_*",
    "getrandom*",
    "fastrand",
    "uuid",
    "reqwest",
    "hyper*",
    "iana-time-zone",
    "time",
];

/// Which workspace crates each may name. Whatever is not here is refused, so a new crate must be placed first.
fn may_use(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "coppice-messages" => &[],
        "coppice-topology" => &["coppice-messages"],
        "coppice-kernel" => &["coppice-messages", "coppice-topology"],
        "coppice-store" => &["coppice-messages"],
        "coppice-actors" => &[
            "coppice-messages",
            "coppice-topology",
            "coppice-kernel",
            "coppice-store",
        ],
        "coppice-scenarios" => &[
            "coppice-messages",
            "coppice-topology",
            "coppice-kernel",
            "coppice-store",
            "coppice-actors",
        ],
        "coppice-cli" => &[
            "coppice-messages",
            "coppice-topology",
            "coppice-kernel",
            "coppice-store",
            "coppice-actors",
            "coppice-scenarios",
        ],
        _ => return None,
    })
}

/// What is linked into what: for each package its name, whether it runs only in the compiler, and what it needs.
struct Graph {
    packages: BTreeMap<String, Package>,
}

struct Package {
    name: String,
    features: Vec<String>,
    compiler_only: bool,
    needs: Vec<String>,
}

impl Graph {
    fn of_this_workspace() -> Graph {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let about = run(Command::new(&cargo).arg("-vV"));
        let host = about
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .expect("cargo -vV names the host");
        let metadata = run(Command::new(&cargo)
            .args([
                "metadata",
                "--format-version",
                "1",
                "--locked",
                "--filter-platform",
                host,
            ])
            .current_dir(super::tidy::repository()));
        Graph::read(&serde_json::from_str(&metadata).expect("cargo metadata prints JSON"))
    }

    fn read(metadata: &Value) -> Graph {
        let described: BTreeMap<&str, &Value> = list(&metadata["packages"])
            .iter()
            .map(|package| (text(&package["id"]), package))
            .collect();
        let packages = list(&metadata["resolve"]["nodes"])
            .iter()
            .map(|node| {
                let id = text(&node["id"]);
                let package = Package {
                    name: text(&described[id]["name"]).to_string(),
                    features: list(&node["features"])
                        .iter()
                        .map(|feature| text(feature).to_string())
                        .collect(),
                    compiler_only: list(&described[id]["targets"])
                        .iter()
                        .any(|target| list(&target["kind"]).contains(&json!("proc-macro"))),
                    needs: list(&node["deps"])
                        .iter()
                        .filter(|need| {
                            list(&need["dep_kinds"])
                                .iter()
                                .any(|kind| kind["kind"].is_null())
                        })
                        .map(|need| text(&need["pkg"]).to_string())
                        .collect(),
                };
                (id.to_string(), package)
            })
            .collect();
        Graph { packages }
    }

    fn id(&self, name: &str) -> &str {
        let found = self
            .packages
            .iter()
            .find(|(_, package)| package.name == name);
        found
            .unwrap_or_else(|| panic!("{name} is not in the workspace"))
            .0
    }

    /// Every package linked into `root`, each with one path that leads to it.
    fn linked_into<'a>(&'a self, root: &'a str) -> BTreeMap<&'a str, Vec<&'a str>> {
        let mut reached = BTreeMap::new();
        let mut open = vec![(self.id(root), vec![root])];
        while let Some((id, path)) = open.pop() {
            if reached.contains_key(id) {
                continue;
            }
            for need in &self.packages[id].needs {
                let package = &self.packages[need];
                if !package.compiler_only {
                    open.push((need, [path.as_slice(), &[package.name.as_str()]].concat()));
                }
            }
            reached.insert(id, path);
        }
        reached
    }

    fn impurities(&self, root: &str) -> Vec<String> {
        let mut found = Vec::new();
        for (id, path) in self.linked_into(root) {
            let package = &self.packages[id];
            let path = path.join(" -> ");
            if IMPURE.iter().any(|pattern| fits(pattern, &package.name)) {
                found.push(format!("{path}: not in a pure crate"));
            }
            let clock = |feature: &&String| ["clock", "now", "default"].contains(&feature.as_str());
            if package.name == "chrono" && package.features.iter().any(|feature| clock(&feature)) {
                found.push(format!(
                    "{path}: chrono may not have a clock, take it without default features"
                ));
            }
        }
        found
    }

    fn wrong_directions(&self) -> Vec<String> {
        let mut found = Vec::new();
        for package in self
            .packages
            .values()
            .filter(|package| package.name.starts_with("coppice-"))
        {
            let Some(allowed) = may_use(&package.name) else {
                found.push(format!(
                    "{}: has no place in the order of crates",
                    package.name
                ));
                continue;
            };
            for need in &package.needs {
                let need = self.packages[need].name.as_str();
                if need.starts_with("coppice-") && !allowed.contains(&need) {
                    found.push(format!(
                        "{} -> {need}: against the direction of dependencies",
                        package.name
                    ));
                }
            }
        }
        found
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list in cargo metadata")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string in cargo metadata")
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("cargo starts");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

/// A made-up workspace: `links` are (from, to, kind), kind as cargo metadata has it: null, "dev" or "build".
fn made_up(packages: &[(&str, &str)], links: &[(&str, &str, Value)]) -> Graph {
    let nodes: Vec<Value> = packages
        .iter()
        .map(|(name, _)| {
            let deps: Vec<Value> = links
                .iter()
                .filter(|(from, _, _)| from == name)
                .map(|(_, to, kind)| json!({"pkg": to, "dep_kinds": [{"kind": kind}]}))
                .collect();
            let features = if *name == "chrono" {
                json!(["alloc", "clock"])
            } else {
                json!([])
            };
            json!({"id": name, "features": features, "deps": deps})
        })
        .collect();
    let packages: Vec<Value> = packages
        .iter()
        .map(|(name, kind)| json!({"id": name, "name": name, "targets": [{"kind": [kind]}]}))
        .collect();
    Graph::read(&json!({"packages": packages, "resolve": {"nodes": nodes}}))
}

#[test]
fn the_pure_crates_reach_no_runtime_network_store_clock_or_random_source() {
    let graph = Graph::of_this_workspace();
    let found: Vec<String> = PURE
        .iter()
        .flat_map(|name| graph.impurities(name))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_crates_of_the_workspace_depend_on_each_other_in_one_direction() {
    let found = Graph::of_this_workspace().wrong_directions();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_runtime_behind_another_crate_is_found_and_its_path_named() {
    let graph = made_up(
        &[
            ("coppice-kernel", "lib"),
            ("helper", "lib"),
            ("tokio-util", "lib"),
        ],
        &[
            ("coppice-kernel", "helper", Value::Null),
            ("helper", "tokio-util", Value::Null),
        ],
    );
    assert_eq!(
        graph.impurities("coppice-kernel"),
        ["coppice-kernel -> helper -> tokio-util: not in a pure crate"]
    );
}

#[test]
fn a_clock_in_chrono_is_found() {
    let graph = made_up(
        &[("coppice-messages", "lib"), ("chrono", "lib")],
        &[("coppice-messages", "chrono", Value::Null)],
    );
    assert_eq!(
        graph.impurities("coppice-messages"),
        [
            "coppice-messages -> chrono: chrono may not have a clock, take it without default features"
        ]
    );
}

#[test]
fn what_only_tests_build_scripts_and_macros_need_is_not_linked_in() {
    let graph = made_up(
        &[
            ("coppice-kernel", "lib"),
            ("macros", "proc-macro"),
            ("rand", "lib"),
            ("getrandom", "lib"),
        ],
        &[
            ("coppice-kernel", "rand", json!("dev")),
            ("coppice-kernel", "getrandom", json!("build")),
            ("coppice-kernel", "macros", Value::Null),
            ("macros", "rand", Value::Null),
        ],
    );
    assert!(graph.impurities("coppice-kernel").is_empty());
}

#[test]
fn a_dependency_against_the_direction_and_an_unplaced_crate_are_found() {
    let graph = made_up(
        &[
            ("coppice-messages", "lib"),
            ("coppice-store", "lib"),
            ("coppice-new", "lib"),
        ],
        &[("coppice-messages", "coppice-store", Value::Null)],
    );
    assert_eq!(
        graph.wrong_directions(),
        [
            "coppice-messages -> coppice-store: against the direction of dependencies",
            "coppice-new: has no place in the order of crates"
        ]
    );
}
