//! Plans a small network: routing and entries together, printed as an allocation.
//!
//! `cargo run -p forebay-plan --example joint_plan`

use std::error::Error;
use std::num::NonZeroUsize;
use std::path::Path;

use forebay_plan::allocate::{Method, Wba};
use forebay_plan::input;
use forebay_plan::network::Network;
use forebay_plan::paths::PathCache;
use forebay_plan::plan::{Config, Scope, plan};

/// Two boundary routers in front of the users, `east` and `west`, and two routers with entries.
const TOPOLOGY: &str = r#"{
  "name": "example",
  "nodes": [
    {"id": 1, "label": "in1"},
    {"id": 2, "label": "in2"},
    {"id": 3, "label": "east"},
    {"id": 4, "label": "west"}
  ],
  "links": [
    {"source": 1, "target": 3, "capacity": "10 Gbit/s"},
    {"source": 1, "target": 2, "capacity": "2 Gbit/s"},
    {"source": 2, "target": 4, "capacity": "10 Gbit/s"},
    {"source": 3, "target": 4, "capacity": "2 Gbit/s"}
  ]
}"#;

/// One provider follows hints and has two entries, the other has one.
const PROVIDERS: &str = r#"
[[provider]]
name = "video"
entry = [{ router = "in1" }, { router = "in2" }]

[[provider]]
name = "games"
participates = false
entry = [{ router = "in1" }]
"#;

/// At present all traffic comes in at `in1`, and the traffic to `west` does not fit.
const DEMANDS: &str = "provider,entry,router,demand
video,in1,east,5 Gbit/s
video,in1,west,6 Gbit/s
games,in1,west,1 Gbit/s
";

fn main() -> Result<(), Box<dyn Error>> {
    let topology = input::node_link(Path::new("topology.json"), TOPOLOGY)?;
    let providers = input::providers(Path::new("providers.toml"), PROVIDERS, &topology)?.providers;
    let demands = input::demands_csv(Path::new("demands.csv"), DEMANDS, &providers, &topology)?;
    let network = Network { topology, providers, demands, avoided: Default::default() };

    // Fair shares by the WBA, with up to four paths for each pair of routers.
    let paths = NonZeroUsize::MIN.saturating_add(3);
    let method = Method::Wba(Wba::default());
    let config = Config { method, scope: Scope::All, sub_flows: None, paths };
    let report = plan(&network, &mut PathCache::new(paths), &config)?;

    println!("{report}");
    for aggregate in &report.routing {
        println!("{} to {}:", aggregate.provider, aggregate.router);
        for share in &aggregate.ways {
            println!("  {:.2} Gbit/s by {}", share.rate / 1e9, share.path.join(" > "));
        }
    }
    Ok(())
}
