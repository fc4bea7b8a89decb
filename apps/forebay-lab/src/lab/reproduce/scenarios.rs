//! Runs claims that have a scenario file.

use std::path::Path;

use forebay_claims::age::Ages;
use forebay_claims::scenarios::{
    self, COLUMNS, Catalogue, Claim, Outcome, Row, Settings, draw_outcome, load_outcome,
    save_outcome,
};
use forebay_cli::terminal::{note, print_beside};
use forebay_lab::engine::Interrupt;
use forebay_outcome::Store;

use super::super::{Failure, engine, interrupt, write};
use super::options::{ages, engines, page};
use crate::cli::{Engine, ReproduceArgs};

/// Runs the claims of the catalogue `name` and writes its page.
pub(super) fn run(name: &str, args: &ReproduceArgs) -> Result<(), Failure> {
    let dir = args.experiments.join(name);
    let catalogue = scenarios::load(&dir).map_err(|e| {
        let hint = "`forebay lab reproduce` lists all claims; run it in the repository";
        if dir.is_dir() { Failure::from(e) } else { format!("{e}; {hint}").into() }
    })?;
    let claims = chosen(&catalogue, &args.only)?;
    let dir = if args.quick { "results" } else { "docs/results" };
    let usual = Path::new(dir).join(format!("{}.md", catalogue.name));
    let page = page(args, &usual)?;
    let store = Store::beside(&page);
    let engines = engines(args);
    let interrupt = interrupt()?;
    let mut failed = Vec::new();
    for claim in claims {
        for &engine in engines {
            if let Some(why) = try_claim(claim, engine, args, &store, &interrupt)? {
                failed.push(why);
            }
            // The page is made after each run, so that it can be read while the rest runs.
            let rows = stored(&catalogue, &store)?;
            let ages = Ages::load(store.dir())?;
            write(&page, &scenarios::page(&catalogue, &rows, &store, &ages))?;
        }
    }
    let rows = stored(&catalogue, &store)?;
    for (claim, outcomes) in &rows {
        outcomes.iter().try_for_each(|o| draw_outcome(&store, o, &claim.title))?;
    }
    let ages = ages(scenarios::ages(&catalogue, &rows, &args.experiments), &store)?;
    write(&page, &scenarios::page(&catalogue, &rows, &store, &ages))?;
    let all: Vec<Outcome> = rows.into_iter().flat_map(|(_, outcomes)| outcomes).collect();
    if let Some(json) = &args.json {
        write(json, &(serde_json::to_string_pretty(&all)? + "\n"))?;
    }
    print_beside(args.json.as_deref(), &format!("The page: {}\n", page.display()))?;
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
}

fn chosen<'a>(catalogue: &'a Catalogue, only: &[String]) -> Result<Vec<&'a Claim>, Failure> {
    let named = |id: &String| {
        let claim = catalogue.claims.iter().find(|c| c.id == *id);
        claim.ok_or_else(|| {
            let all: Vec<_> = catalogue.claims.iter().map(|c| c.id.as_str()).collect();
            format!("there is no claim `{id}`: the claims are {}", all.join(", ")).into()
        })
    };
    if only.is_empty() {
        return Ok(catalogue.claims.iter().collect());
    }
    only.iter().map(named).collect()
}

/// Runs `claim` on an engine and stores the outcome. Returns the reason if this engine cannot run
/// the claim, since the other claims are run nevertheless.
fn try_claim(
    claim: &Claim,
    name: Engine,
    args: &ReproduceArgs,
    store: &Store,
    interrupt: &Interrupt,
) -> Result<Option<String>, Failure> {
    use forebay_lab::engine::EngineError::Interrupted;
    use forebay_lab::runner::RunError;
    let engine = engine(name, args.dataplane)?;
    if claim.extent(engine.name()).is_none() {
        return Ok(None);
    }
    let fresh = |o: &Outcome| o.is_of(claim) && o.quick == args.quick;
    if args.missing && load_outcome(store, &claim.id, engine.name())?.as_ref().is_some_and(fresh) {
        return Ok(None);
    }
    note(&format!("{} on {}: {}", claim.id, engine.name(), claim.title));
    let records = args.records.as_ref();
    let records = records.map(|dir| dir.join(format!("{}-{}", claim.id, engine.name())));
    let settings = Settings {
        seeds: args.seeds,
        quick: args.quick,
        jobs: args.jobs,
        keep: records.as_deref(),
        checkout: Some(&args.experiments),
    };
    match scenarios::run(claim, &*engine, settings, interrupt) {
        Ok(outcome) => {
            save_outcome(store, &outcome, &claim.title)?;
            let tally = outcome.tally(claim).sentence();
            let text = format!("{} on {}: {tally}\n", claim.id, engine.name());
            print_beside(args.json.as_deref(), &text)?;
            Ok(None)
        }
        Err(e @ RunError::Engine(Interrupted)) => Err(e.into()),
        Err(e) => Ok(Some(format!("{} on {}: {e}", claim.id, engine.name()))),
    }
}

/// Loads the stored outcomes of all claims.
fn stored<'a>(catalogue: &'a Catalogue, store: &Store) -> Result<Vec<Row<'a>>, Failure> {
    let mut rows = Vec::new();
    for claim in &catalogue.claims {
        let stored = COLUMNS.map(|column| load_outcome(store, &claim.id, column));
        let stored: Vec<_> = stored.into_iter().collect::<Result<_, _>>()?;
        rows.push((claim, stored.into_iter().flatten().collect()));
    }
    Ok(rows)
}
