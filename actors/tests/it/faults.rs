//! Addresses of faults: as text, as a map, and what is refused.

use coppice_actors::faults::{Fault, InvalidFault};

fn parse(text: &str) -> Result<Fault, InvalidFault> {
    text.parse()
}

#[test]
fn an_address_is_printed_as_it_is_read() {
    for text in [
        "root/research[2]@effect.landed:before=kill_host",
        "*@effect.*(create_ticket)#3:after=delay(500ms)*2",
        "root@run.ended:synced=kill_actor",
        "root/research[0]/read[1]@model.proposed#12:acked=kill_host*9",
        "root@child.delegated:before=panic",
        "root/*[1]@run.ended:after=panic",
        "root/research[*]/*@run.ended:after=panic",
        "*@host.started#2:synced=kill_host",
        "*@callback=duplicate*3",
        "*@callback=drop",
        "*@callback=delay(500ms)",
    ] {
        assert_eq!(parse(text).unwrap().to_string(), text);
    }
}

#[test]
fn an_address_survives_the_map_of_a_scenario_file() {
    let fault = parse("*@effect.landed(create_ticket)#2:before=kill_host*3").unwrap();
    let map = serde_json::to_value(&fault).unwrap();
    assert_eq!(
        map,
        serde_json::json!({ "where": "*", "event": "effect.landed", "tool": "create_ticket", "nth": 2, "when": "before", "do": "kill_host", "times": 3 })
    );
    assert_eq!(serde_json::from_value::<Fault>(map).unwrap(), fault);
}

#[test]
fn the_points_with_names_stand_for_event_and_moment() {
    for (text, meant) in [
        ("root@FP1=panic", "root@effect.intended:after=panic"),
        ("root@FP2=panic", "root@effect.landed:before=panic"),
        ("root@FP5#2=panic", "root@effect.landed#2:after=panic"),
        (
            "*@run.opened:FP3=kill_host",
            "*@run.opened:synced=kill_host",
        ),
        ("*@run.opened:FP4=kill_host", "*@run.opened:acked=kill_host"),
        (
            "root@join.decided=kill_actor",
            "root@join.decided:after=kill_actor",
        ),
    ] {
        assert_eq!(parse(text).unwrap().to_string(), meant);
    }
}

#[test]
fn what_is_no_address_is_refused_with_what_would_be_one() {
    for (text, said) in [
        ("root", "expected WHERE@EVENT"),
        ("root@effect.landed", "expected WHERE@EVENT"),
        ("root=kill_host", "expected WHERE@EVENT"),
        ("@effect.landed=kill_host", "WHERE is a path"),
        ("root/[@effect.landed=kill_host", "WHERE is a path"),
        ("root/research[@effect.landed=kill_host", "WHERE is a path"),
        (
            "root/research[x]@effect.landed=kill_host",
            "WHERE is a path",
        ),
        (
            "root//research[1]@effect.landed=kill_host",
            "WHERE is a path",
        ),
        ("*@host.started=kill_host", "is written by the host"),
        (
            "root@host.started:synced=kill_host",
            "is written by the host",
        ),
        ("*@host.stopped:acked=kill_actor", "is written by the host"),
        ("root@effect.exploded=kill_host", "there is no event"),
        (
            "root@effect.landed:during=kill_host",
            "before, after, synced",
        ),
        ("root@effect.landed=explode", "no such action"),
        ("root@effect.landed=delay(soon)", "no such action"),
        ("root@effect.landed#0=panic", "whole number from 1"),
        ("root@effect.landed=panic*0", "whole number from 1"),
        ("root@run.ended(create_ticket)=panic", "concerns no tool"),
        ("root@effect.landed:synced=panic", "no actor is at work"),
        ("root@FP1:before=panic", "say the moment themselves"),
        ("root@callback=duplicate", "all of them are meant"),
        ("*@callback#2=duplicate", "all of them are meant"),
        ("*@callback:before=drop", "all of them are meant"),
        ("*@callback=kill_host", "all of them are meant"),
        ("*@effect.landed=duplicate", "only a callback is duplicated"),
    ] {
        let refused = parse(text).unwrap_err().to_string();
        assert!(refused.contains(said), "{text}: {refused}");
    }
}
