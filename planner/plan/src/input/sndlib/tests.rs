use super::*;
use crate::input::demands::tests::provider;
use crate::topology::RouterId;

/// Three nodes in a triangle: an installed capacity, two modules, and neither.
const NATIVE: &str = "\
?SNDlib native format; type: network; version: 1.0
# network small

NODES (
  West ( -7.50 50.25 )
  Mid
  East ( 2.35 48.85 )
)

LINKS (
  # id ( source target ) installed cost routing setup ( modules )
  L1 ( West Mid ) 155.00 0.00 3.00 12.50 ( 622.00 10.00 )
  L2 ( Mid East ) 0.00 0.00 0.00 12.50 ( 155.00 3.00 2.5e3 40.00 622.00 10.00 )
  L3 ( East West ) 0.00 0.00 2.40 12.50 ( )
)

DEMANDS (
  D1 ( West East ) 1 12.50 UNLIMITED
  D2 ( East Mid ) 2 3.00 4
)

ADMISSIBLE_PATHS (
  D1 ( P_0 ( L1 L2 ) P_1 ( L3 ) )
)
";

/// The same in XML.
const XML: &str = "\
<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>
<!-- small -->
<network xmlns=\"http://sndlib.zib.de/network\" version=\"1.0\">
 <networkStructure>
  <nodes coordinatesType=\"geographical\">
   <node id=\"West\"><coordinates><x>-7.50</x><y>50.25</y></coordinates></node>
   <node id=\"Mid\"/>
   <node id=\"East\"><coordinates><x>2.35</x><y>48.85</y></coordinates></node>
  </nodes>
  <links>
   <link id=\"L1\">
    <source>West</source><target>Mid</target>
    <preInstalledModule><capacity>155.00</capacity><cost>0.00</cost></preInstalledModule>
    <routingCost>3.00</routingCost><setupCost>12.50</setupCost>
    <additionalModules><addModule><capacity>622.00</capacity><cost>10.00</cost></addModule>
    </additionalModules>
   </link>
   <link id=\"L2\">
    <source>Mid</source><target>East</target>
    <additionalModules><addModule><capacity>155.00</capacity><cost>3.00</cost></addModule>
     <addModule><capacity>2.5e3</capacity><cost>40.00</cost></addModule>
     <addModule><capacity>622.00</capacity><cost>10.00</cost></addModule></additionalModules>
   </link>
   <link id=\"L3\"><source>East</source><target>West</target><routingCost>2.40</routingCost></link>
  </links>
 </networkStructure>
 <demands>
  <demand id=\"D1\"><source>West</source><target>East</target>
   <routingUnit>1</routingUnit><demandValue>12.50</demandValue></demand>
  <demand id=\"D2\"><source>East</source><target>Mid</target>
   <routingUnit>2</routingUnit><demandValue>3.00</demandValue><maxPathLength>4</maxPathLength>
   <admissiblePaths><admissiblePath id=\"P_0\"><linkId>L2</linkId></admissiblePath>
   </admissiblePaths></demand>
 </demands>
</network>
";

fn parse(text: &str) -> Result<Topology, String> {
    sndlib("a.txt".as_ref(), text).map_err(|e| e.to_string())
}

fn links(topology: &Topology) -> Vec<(u32, u32, Option<u64>, u32)> {
    let links = topology.links().iter();
    links
        .map(|l| (l.from.0, l.to.0, l.capacity.map(|c| c.as_bps() / 1_000_000), l.metric))
        .collect()
}

#[test]
fn a_network_in_both_formats() {
    for text in [NATIVE, XML] {
        let topology = parse(text).unwrap();
        let names: Vec<_> = topology.routers().iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["West", "Mid", "East"]);
        // In Mbit/s, both ways: 155 are installed in L1. The largest module of L2 has 2500. L3 has
        // none. A routing cost of 0 is the metric 1, and 2.4 is rounded to 2.
        let expected = [
            (0, 1, Some(155), 3),
            (0, 2, None, 2),
            (1, 0, Some(155), 3),
            (1, 2, Some(2500), 1),
            (2, 0, None, 2),
            (2, 1, Some(2500), 1),
        ];
        assert_eq!(links(&topology), expected);
    }
}

#[test]
fn links_with_a_link_back_have_one_direction() {
    let text = "?SNDlib native format; type: network; version: 1.0\nNODES ( A B )\n\
                LINKS ( L1 ( A B ) 10 0 1 0 ( ) L2 ( B A ) 20 0 4 0 ( ) )";
    assert_eq!(links(&parse(text).unwrap()), [(0, 1, Some(10), 1), (1, 0, Some(20), 4)]);
}

fn demands(text: &str) -> Result<Vec<Demand>, String> {
    let topology = parse(NATIVE).unwrap();
    let providers = [provider("x", &[0]), provider("y", &[1, 2]), provider("z", &[1])];
    crate::input::demands("a.txt".as_ref(), text, &providers, &topology).map_err(|e| e.to_string())
}

#[test]
fn demands_in_both_formats() {
    let demand = |provider, entry, egress, bps| Demand {
        provider,
        entry,
        egress: RouterId(egress),
        rate: Rate::from_bps(bps),
    };
    // 12.5 Mbit/s, and two units of 3 Mbit/s.
    let expected = [demand(0, 0, 2, 12_500_000), demand(1, 1, 1, 6_000_000)];
    assert_eq!(demands(NATIVE).unwrap(), expected);
    assert_eq!(demands(XML).unwrap(), expected);
}

#[test]
fn a_unit_of_the_file_counts() {
    let unit = |unit: &str| {
        let meta = format!("META (\n  granularity = 5 min\n  unit = {unit}\n)\nNODES (");
        NATIVE.replacen("NODES (", &meta, 1)
    };
    let capacity = |text: &str| parse(text).map(|t| t.links()[0].capacity.unwrap().as_bps());
    assert_eq!(capacity(&unit("GBITPERSEC")), Ok(155_000_000_000));
    assert_eq!(capacity(&unit("KBITPERSEC")), Ok(155_000));
    let wrong = "a.txt:6: the unit EUR is unknown: write BITPERSEC, KBITPERSEC, MBITPERSEC or \
                 GBITPERSEC";
    assert_eq!(capacity(&unit("EUR")), Err(wrong.to_owned()));
    let meta = " <meta><granularity>15min</granularity><unit>BITPERSEC</unit></meta>\n <demands>";
    let xml = XML.replacen(" <demands>", meta, 1);
    assert_eq!((capacity(&xml), demands(&xml).unwrap()[0].rate.as_bps()), (Ok(155), 13));
}

#[test]
fn errors_say_what_was_expected() {
    let native = |old: &str, new: &str| NATIVE.replacen(old, new, 1);
    let xml = |old: &str, new: &str| XML.replacen(old, new, 1);
    let cases = [
        (String::new(), "a.txt:1: is neither SNDlib's XML nor its native format"),
        (
            native("network;", "solution;"),
            "a.txt:1: \"?SNDlib native format; type: solution; version: 1.0\" is not a network: give \
             a file of `type: network`",
        ),
        (native("NODES (", "NODES"), "a.txt:5: \"West\" is here instead of `(` after NODES"),
        (native("( West Mid )", "( West )"), "a.txt:12: \")\" is here instead of the target"),
        (
            native("155.00", "-1"),
            "a.txt:12: \"-1\" is not the installed capacity: write a number that is not negative",
        ),
        (
            native("155.00 3.00 2.5e3", "155.00 3.00"),
            "a.txt:13: \")\" is here instead of the cost of a module",
        ),
        (
            native("3.00 12.50", "16777215 1"),
            "a.txt:12: the routing cost 16777215 is not a metric: write 0 to 16777214",
        ),
        (
            native("155.00", "1e12"),
            "a.txt:12: 1000000000000 is not a capacity or demand: write 0 to 10^15 bit/s",
        ),
        (native("( East West )", "( East Q )"), "a.txt:14: an edge names the unknown router Q"),
        (
            native("  D1 ( P_0 ( L1 L2 ) P_1 ( L3 ) )\n)\n", ""),
            "a.txt:23: the file ends instead of `)` at the end of a section",
        ),
        (
            native("NODES (", ") NODES ("),
            "a.txt:4: \")\" is here instead of the name of a section, such as NODES",
        ),
        (
            xml("<network ", "<net "),
            "a.txt:3: is not SNDlib's XML: its root is <net>, not <network>",
        ),
        (xml(" id=\"Mid\"", ""), "a.txt:7: a node has no id: give it one"),
        (
            xml("<source>Mid</source>", ""),
            "a.txt:18: a link has no <source> or no <target>: give it both",
        ),
        (
            xml("155.00", "x"),
            "a.txt:13: \"x\" is not a capacity: write a number that is not negative",
        ),
        (xml("</network>", ""), "a.txt:36: is not complete XML: it ends inside an element"),
        (
            xml("<!-- small -->", "<!DOCTYPE network>"),
            "a.txt:2: has a document type, which is not supported: remove it",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(&text).unwrap_err(), expected);
    }
    assert!(parse(&format!("{}{}", "<network>", "<x>".repeat(100))).unwrap_err().contains("deep"));
    let deep = format!("?SNDlib native format\nX {}", "( ".repeat(100));
    assert!(parse(&deep).unwrap_err().contains("nested too deeply"));
}

#[test]
fn errors_of_demands_name_their_line() {
    let cases = [
        (
            NATIVE.replace("D2 ( East Mid )", "D2 ( Mid East )"),
            "a.txt:19: several providers have an entry at Mid: y and z; this format cannot say whose \
             demand it is",
        ),
        (
            NATIVE.replace("( West East ) 1", "( Wst East ) 1"),
            "a.txt:18: the topology has no router \"Wst\"; did you mean \"West\"?",
        ),
        (
            XML.replace("<demandValue>3.00</demandValue>", ""),
            "a.txt:30: a demand has no <demandValue>: give it one",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(demands(&text).unwrap_err(), expected);
    }
}
