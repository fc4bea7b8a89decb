//! `forebay lab zd`, and `forebay lab reproduce zd`.

use std::path::Path;

use forebay_claims::zd::{self as evaluation, Catalogue, Store, Stored};
use forebay_guest::zd;

use super::{Failure, interrupt, print, reproduce, write};
use crate::cli::{Engine, ReproduceArgs};

/// The evaluation's name: that of its directory.
pub(super) const NAME: &str = "zd";

/// Runs one experiment and prints its table.
pub(super) fn run(file: &Path, json: Option<&Path>) -> Result<(), Failure> {
    let experiment = zd::Experiment::load(file)?;
    let mut lines = String::new();
    let runs = zd::run_all(&experiment, &interrupt()?, &mut |run| {
        eprintln!("{}", run.line());
        lines += &(run.json() + "\n");
    })?;
    print(&zd::table(&experiment, &runs))?;
    match json {
        Some(json) => write(json, &lines),
        None => Ok(()),
    }
}

/// What is said of the evaluation where all are listed.
pub(super) fn list(dir: &Path) -> Result<(), Failure> {
    for claim in Catalogue::load(dir)?.claims {
        print(&format!("  {:<16} {} [{}]\n", claim.id, claim.title, claim.how.engine()))?;
    }
    Ok(())
}

/// Runs the evaluation's claims and makes its page.
pub(super) fn evaluate(args: &ReproduceArgs) -> Result<(), Failure> {
    if args.quick || args.seeds.is_some() || args.jobs.is_some() || args.records.is_some() {
        return Err("`zd` is run as its claims say: leave out --quick, --seeds, --jobs and \
                    --records"
            .into());
    }
    let catalogue = Catalogue::load(&args.experiments.join(NAME))?;
    let known = |id: &&String| !catalogue.claims.iter().any(|claim| claim.id == **id);
    if let Some(id) = args.only.iter().find(known) {
        let all: Vec<_> = catalogue.claims.iter().map(|c| c.id.as_str()).collect();
        return Err(format!("no claim is called `{id}`: there are {}", all.join(", ")).into());
    }
    let page = reproduce::page(args, Path::new("docs/results/zd.md"))?;
    let store = Store::beside(&page);
    let engines: Vec<&str> = reproduce::engines(args).iter().map(|e| name(*e)).collect();
    let interrupt = interrupt()?;
    let mut failed = Vec::new();
    for claim in &catalogue.claims {
        let wanted = args.only.is_empty() || args.only.contains(&claim.id);
        if !wanted || !engines.contains(&claim.how.engine()) {
            continue;
        }
        let stored = store.load(&claim.id)?;
        if args.missing && stored.is_some_and(|stored| stored.hash == claim.hash) {
            continue;
        }
        eprintln!("{}: {}", claim.id, claim.title);
        let mut count = 0;
        let told = &mut |row: &evaluation::rows::Row| {
            count += 1;
            let labels: Vec<_> =
                row.labels.iter().map(|(key, own)| format!("{key} {own}")).collect();
            eprintln!("  {count}: {}", labels.join(", "));
        };
        match evaluation::run(claim, &interrupt, told) {
            Ok(rows) => store.save(&claim.id, &Stored::now(&claim.hash, rows))?,
            Err(e) if interrupt.is_raised() => return Err(e.into()),
            Err(e) => failed.push(format!("{}: {e}", claim.id)),
        }
        // Again after each: what is there can be read while the rest runs.
        write(&page, &evaluation::page(&catalogue, &store)?)?;
    }
    write(&page, &evaluation::page(&catalogue, &store)?)?;
    if let Some(json) = &args.json {
        let all = catalogue.claims.iter().map(|claim| Ok((&claim.id, store.load(&claim.id)?)));
        let all = all.collect::<Result<std::collections::BTreeMap<_, _>, Failure>>()?;
        write(json, &(serde_json::to_string_pretty(&all)? + "\n"))?;
    }
    print(&format!("The page: {}\n", page.display()))?;
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
}

fn name(engine: Engine) -> &'static str {
    match engine {
        Engine::Netns => "netns",
        Engine::Sim => "sim",
        Engine::Uml => "uml",
    }
}
