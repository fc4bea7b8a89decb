//! Runs claims whose runs give rows.

use std::path::Path;

use forebay_claims::age::Ages;
use forebay_claims::rows::{self, Catalogue};
use forebay_cli::terminal::{note, print_beside};
use forebay_outcome::{Row, Rows, Store};

use super::super::{Failure, interrupt, write};
use super::options;
use crate::cli::{Engine, ReproduceArgs};

/// Runs the claims of the evaluation and writes its page.
pub(super) fn run(name: &str, args: &ReproduceArgs) -> Result<(), Failure> {
    if args.quick || args.seeds.is_some() || args.jobs.is_some() || args.records.is_some() {
        return Err(format!(
            "`{name}` runs with the settings of its claims: leave out --quick, --seeds, --jobs \
             and --records"
        )
        .into());
    }
    let catalogue = Catalogue::load(&args.experiments.join(name))?;
    let known = |id: &&String| !catalogue.claims.iter().any(|claim| claim.id == **id);
    if let Some(id) = args.only.iter().find(known) {
        let all: Vec<_> = catalogue.claims.iter().map(|c| c.id.as_str()).collect();
        return Err(format!("there is no claim `{id}`: the claims are {}", all.join(", ")).into());
    }
    let page = options::page(args, &Path::new("docs/results").join(format!("{name}.md")))?;
    let store = Store::beside(&page);
    let mut engines: Vec<&str> = args.engines.iter().map(|e| engine_name(*e)).collect();
    if engines.is_empty() && !args.page {
        engines = catalogue.usual_engines();
    }
    let interrupt = interrupt()?;
    let mut failed = Vec::new();
    for claim in &catalogue.claims {
        let wanted = args.only.is_empty() || args.only.contains(&claim.id);
        if !wanted || !engines.contains(&claim.how.engine()) {
            continue;
        }
        let stored = store.read::<Rows>(&claim.id)?;
        if args.missing && stored.is_some_and(|stored| stored.hash == claim.hash) {
            continue;
        }
        note(&format!("{}: {}", claim.id, claim.title));
        let mut count = 0;
        let told = &mut |row: &Row| {
            count += 1;
            let labels: Vec<_> =
                row.labels.iter().map(|(key, own)| format!("{key} {own}")).collect();
            note(&format!("  {count}: {}", labels.join(", ")));
        };
        match rows::run(claim, &interrupt, told) {
            Ok(rows) => {
                let rows = Rows::now(&claim.hash, rows, &args.experiments);
                store.write(&claim.id, &Rows { bands: claim.bands(), ..rows })?;
            }
            Err(e) if interrupt.is_raised() => return Err(e.into()),
            Err(e) => failed.push(format!("{}: {e}", claim.id)),
        }
        // The page is made after each claim, so that it can be read while the rest runs.
        write(&page, &rows::page(&catalogue, &store, &Ages::load(store.dir())?)?)?;
    }
    let ages = options::ages(rows::ages(&catalogue, &store, &args.experiments), &store)?;
    write(&page, &rows::page(&catalogue, &store, &ages)?)?;
    if let Some(json) = &args.json {
        let all =
            catalogue.claims.iter().map(|claim| Ok((&claim.id, store.read::<Rows>(&claim.id)?)));
        let all = all.collect::<Result<std::collections::BTreeMap<_, _>, Failure>>()?;
        write(json, &(serde_json::to_string_pretty(&all)? + "\n"))?;
    }
    print_beside(args.json.as_deref(), &format!("The page: {}\n", page.display()))?;
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
}

fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Netns => "netns",
        Engine::Sim => "sim",
        Engine::Uml => "uml",
    }
}
