//! The formats of topologies by their names, and the first lines of CSV.

use super::*;

#[test]
fn the_format_of_a_topology_is_in_its_name_and_has_to_be_that_of_its_text() {
    let json = "{\"nodes\": [{\"id\": 0}], \"links\": []}";
    let gml = "graph [ node [ id 0 ] ]";
    let xml = "<graphml><graph><node id=\"0\"/></graph></graphml>";
    let read = |name: &str, text: &str| {
        topology(name.as_ref(), text).map(|t| t.routers().len()).map_err(|e| e.to_string())
    };
    for (name, text) in [
        ("a.json", json),
        ("a.json.gz", json),
        ("a.gml.BZ2", gml),
        ("a.graphml.zst", xml),
        ("a.json", "\u{feff}\n{\"nodes\": [{\"id\": 0}], \"links\": []}"),
    ] {
        assert_eq!(read(name, text), Ok(1), "{name}");
    }
    for (name, text, expected) in [
        ("a.gml", json, "a.gml:1: is JSON, although its name ends in .gml"),
        ("a.gml.gz", xml, "a.gml.gz:1: is XML, although its name ends in .gml"),
        ("a.graphml", gml, "a.graphml:1: is text, although its name ends in .graphml"),
        ("a.json", gml, "a.json:1: is text, although its name ends in .json"),
        ("a.xml", json, "a.xml:1: is JSON, although its name ends in .xml"),
        ("a.graph", json, "a.graph:1: is JSON, although its name ends in .graph"),
        (
            "a.gml",
            "<!DOCTYPE html><html>",
            "a.gml:1: is a web page, although its name ends in .gml",
        ),
        ("a.json", " \n", "a.json: is empty"),
    ] {
        assert_eq!(read(name, text).unwrap_err(), expected);
    }
    assert!(read("a.gz", json).unwrap_err().contains("is not named as a topology"));
    assert!(read("-", json).unwrap_err().contains("is not named as a topology"));
}

#[test]
fn the_first_line_of_csv_may_be_quoted_and_has_commas() {
    let lines = |text: &str| {
        let found = csv("a.csv".as_ref(), text, &["prefix,router", "prefix,router,share"]);
        found.map(|(which, lines)| (which, lines.count())).map_err(|e| e.to_string())
    };
    assert_eq!(lines("prefix,router\n1\n\n2"), Ok((0, 2)));
    assert_eq!(lines("\u{feff}\"Prefix\", \"router\",\"share\"\r\n"), Ok((1, 0)));
    for (text, expected) in [
        ("", "a.csv:1: is empty: it should begin with prefix,router or prefix,router,share"),
        ("\nprefix;router\n", "a.csv:2: has semicolons between its columns: write commas"),
        ("prefix\trouter\tshare", "a.csv:1: has tabs between its columns: write commas"),
        ("router,prefix", "a.csv:1: the first line should be prefix,router or prefix,router,share"),
    ] {
        assert_eq!(lines(text).unwrap_err(), expected);
    }
}
