//! Checking any file that people write, by what it says it is.

use crate::{
    bundle::{Documents, bundle},
    load::{self, Diagnostic, Diagnostics, Loaded, Position, Yaml},
};

/// What a file is, by its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// `scenario: …`
    Scenario,
    /// `topology: …`
    Topology,
    /// `tool: …`
    Tool,
    /// `model: …`
    Model,
    /// `contract: …`
    Contract,
    /// `delegation: …`
    Delegation,
    /// A `.json` file.
    Schema,
}

/// Each kind by the key that says it. A scenario has the key topology and a topology the key contract, so order counts.
const KINDS: [(&str, FileKind); 6] = [
    ("scenario", FileKind::Scenario),
    ("topology", FileKind::Topology),
    ("tool", FileKind::Tool),
    ("model", FileKind::Model),
    ("contract", FileKind::Contract),
    ("delegation", FileKind::Delegation),
];

impl FileKind {
    /// What `file` is.
    ///
    /// # Errors
    /// A file that cannot be read, or says of nothing known what it is.
    pub fn of(file: &str, bytes: &[u8]) -> Result<Self, Diagnostic> {
        if file.ends_with(".json") {
            return Ok(Self::Schema);
        }
        let yaml = Yaml::parse(file, bytes)?;
        let found = KINDS.iter().find(|(key, _)| yaml.find(&[key]).is_some());
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            Diagnostic::new(file, Position::START, "the file does not say what it is").help(
                "begin with one of topology: NAME, contract: NAME, tool: NAME, model: NAME, scenario: NAME",
            )
        })
    }
}

/// Checks a file and all that it names. Of a scenario only that it is one: it is read by the crate that runs it.
///
/// # Errors
/// All that is wrong.
pub fn file(file: &str, bytes: &[u8], documents: &dyn Documents) -> Result<FileKind, Diagnostics> {
    let kind = FileKind::of(file, bytes).map_err(one)?;
    match kind {
        FileKind::Topology => {
            bundle(file, bytes, documents)?;
        }
        FileKind::Tool => all(load::tool(file, bytes), super::tool)?,
        FileKind::Model => all(load::script(file, bytes), super::script)?,
        FileKind::Contract => all(load::contract(file, bytes), super::contract)?,
        FileKind::Schema => all(load::schema(file, bytes), super::schema)?,
        FileKind::Delegation => all(load::delegation(file, bytes), |_| Vec::new())?,
        FileKind::Scenario => {}
    }
    Ok(kind)
}

fn one(fault: Diagnostic) -> Diagnostics {
    Diagnostics(vec![fault])
}

fn all<T>(
    read: Result<Loaded<T>, Diagnostic>,
    check: impl Fn(&Loaded<T>) -> Vec<Diagnostic>,
) -> Result<(), Diagnostics> {
    let mut faults = check(&read.map_err(one)?);
    faults.sort();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(Diagnostics(faults))
    }
}
