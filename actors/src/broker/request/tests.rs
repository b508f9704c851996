//! Addresses: whatever text an argument holds, it stays one segment or one parameter of the address that the contract names.

use proptest::prelude::*;

use super::*;

fn tool() -> Tool {
    let file = "../scenarios/library/tools/read_incident.yaml";
    let bytes = std::fs::read(file).expect("the library has it");
    let loaded = coppice_topology::load::tool(file, &bytes).expect("it is a tool's contract");
    loaded.value
}

fn filled(template: &str, text: &str) -> Result<Url, Unsendable> {
    let endpoints = [("desk".to_owned(), "http://desk.example:7801/".to_owned())].into();
    let run = "root-1".parse().unwrap();
    let filling = Filling {
        run: &run,
        endpoints: &endpoints,
        tenant: &TenantId::default_tenant(),
        key: None,
        trace: None,
        receipt: None,
        arguments: &Value::map([("a", Value::from(text))]),
    };
    address(&tool(), template, filling)
}

fn decoded(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let hex = [bytes.next(), bytes.next()].map(|digit| char::from(digit.unwrap_or(0)));
            let hex: String = hex.iter().collect();
            decoded.push(u8::from_str_radix(&hex, 16).expect("two digits"));
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).expect("what was encoded was text")
}

proptest! {
    #[test]
    fn any_text_stays_one_segment_or_is_refused(text in "\\PC{0,12}|[./%?#&a]{0,4}|[\\x00-\\x20]{1,3}") {
        match filled("{desk}/incidents/{arguments.a}/text", &text) {
            Ok(url) => {
                prop_assert_eq!(url.host_str(), Some("desk.example"));
                prop_assert_eq!(url.query(), None);
                prop_assert_eq!(url.fragment(), None);
                let segments: Vec<_> = url.path_segments().into_iter().flatten().collect();
                prop_assert_eq!(segments.len(), 3);
                prop_assert_eq!(decoded(segments[1]), text);
            }
            Err(_) => prop_assert!(matches!(text.as_str(), "" | "." | "..")),
        }
    }

    #[test]
    fn any_text_stays_one_parameter(text in "\\PC{0,12}|[./%?#&=+a]{0,4}") {
        let url = filled("{desk}/runbooks?q={arguments.a}&n=1", &text).expect("a query takes any text");
        prop_assert_eq!(url.path(), "/runbooks");
        let query = url.query().unwrap_or_default();
        let value = query.strip_prefix("q=").and_then(|rest| rest.strip_suffix("&n=1"));
        prop_assert_eq!(value.map(decoded), Some(text));
    }
}
