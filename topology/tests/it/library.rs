//! The files of the library are what a build of the product carries: each must make a release.

use coppice_topology::{bundle, compile};

use crate::files::Directory;

#[test]
fn every_topology_of_the_library_makes_a_release() {
    let library = Directory::library();
    let mut names: Vec<_> = std::fs::read_dir(library.0.join("topologies"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(
        names.contains(&"incident-comparison.yaml".to_owned()),
        "{names:?}"
    );
    for name in names {
        let file = format!("topologies/{name}");
        let made = bundle(&file, &library.bytes(&file), &library);
        let made = made.unwrap_or_else(|faults| panic!("{faults}"));
        assert!(made.documents.contains_key(&made.release));
        assert!(made.documents.contains_key(&made.manifest.topology));
    }
}

#[test]
fn a_release_compiles_from_its_documents_to_the_same_plan() {
    let library = Directory::library();
    let file = "topologies/incident-comparison.yaml";
    let made = bundle(file, &library.bytes(file), &library).unwrap();
    let again = compile(made.release, &|digest| made.documents.get(digest).cloned());
    assert_eq!(again.unwrap(), made.plan);
}

#[test]
fn a_release_with_a_document_missing_names_it() {
    let library = Directory::library();
    let file = "topologies/incident-comparison.yaml";
    let made = bundle(file, &library.bytes(file), &library).unwrap();
    let contract = made.manifest.contract;
    let without = |digest: &coppice_messages::Digest| {
        (*digest != contract)
            .then(|| made.documents.get(digest).cloned())
            .flatten()
    };
    let error = compile(made.release, &without).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the contract of this release is not there: {contract}")
    );
}
