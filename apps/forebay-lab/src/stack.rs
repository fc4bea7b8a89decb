//! `forebay stack`: what many connections cost this machine's network stack.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use forebay_cli::terminal::{Failure, fail, is_standard_output, note, print, print_beside, write};
use forebay_picture::number::{count, figure};
use forebay_stack::Error;
use forebay_stack::check::{Check, Machine, Verdict};
use forebay_stack::client::Client;
use forebay_stack::findings::findings;
use forebay_stack::measure::Stage;
use forebay_stack::point::Point;
use forebay_stack::report::{Line, Report, lines, read};
use forebay_stack::server::serve;
use forebay_stack::study::{
    Axes, Families, MAX_POINTS, Results, Study, Told, can_lose, chapter, flows_up_to,
    has_discipline,
};

use crate::cli::{IpChoice, StackArgs, State};
use crate::lab::interrupt;

/// The length of the queue in packets, if none is given: fq's default (tc-fq(8)).
const LIMIT: u32 = 10_000;

/// An argument or a file that cannot be used.
#[derive(Debug)]
struct BadInput(String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

pub(crate) fn run(args: &StackArgs) -> ExitCode {
    let Err(e) = run_any(args) else { return ExitCode::SUCCESS };
    let code = match e.downcast_ref() {
        Some(Error::Interrupted) => 130,
        _ if e.is::<BadInput>() => 2,
        _ => 1,
    };
    fail(e.as_ref(), code)
}

fn run_any(args: &StackArgs) -> Result<(), Failure> {
    if let Some(listen) = args.server {
        let mut tell = |received: forebay_stack::server::Received| {
            let (open, mbps) = (count(u64::from(received.open)), figure(received.mbps));
            print(&format!("{open} connections, {mbps} Mbit/s\n"))
                .map_err(Error::io("writing to standard output"))
        };
        return Ok(serve(listen, args.max_flows, args.threads, &interrupt()?, &mut tell)?);
    }
    if let Some(file) = &args.from {
        let text =
            fs::read_to_string(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        let stored = read(&text).map_err(|e| BadInput(format!("{}: {e}", file.display())))?;
        return show(args, &stored.results, stored.machine, stored.command, stored.notes);
    }
    let (points, notes) = points(args)?;
    if points.len() > MAX_POINTS {
        let n = points.len();
        let what = format!("{n} points are more than {MAX_POINTS}: give shorter lists");
        return Err(BadInput(what).into());
    }
    if args.check {
        return check(args, points);
    }
    measure(args, points, notes)
}

/// The points to measure, and what a reader must know about them.
fn points(args: &StackArgs) -> Result<(Vec<Point>, Vec<String>), Failure> {
    let base = Point {
        series: String::new(),
        flows: args.max_flows,
        rate_mbps: args.rate.0,
        qdisc: "pfifo".to_owned(),
        limit: LIMIT,
        congestion: "cubic".to_owned(),
        loss: 0.0,
        delay_ms: args.delay,
        paced: None,
        offload: true,
        tso_rtt_log: None,
        coalesce_us: None,
    };
    let axes = Axes {
        flows: args.flows.clone(),
        qdiscs: args.qdisc.clone(),
        limits: args.limit.clone(),
        congestion: args.congestion.clone(),
        loss: args.loss.clone(),
        paced: args.paced.iter().map(|paced| paced.0).collect(),
        offload: args.offload.iter().map(|state| *state == State::On).collect(),
        tso_rtt_log: args.tso_rtt_log.iter().map(|log| Some(*log)).collect(),
        coalesce_us: args.coalesce.iter().map(|us| Some(*us)).collect(),
    };
    if !axes.is_empty() {
        return Ok((axes.points(&base), Vec::new()));
    }
    if args.client.is_some() {
        // A study of queues and losses belongs to namespaces.
        let flows = flows_up_to(args.max_flows);
        return Ok((Axes { flows, ..axes }.points(&base), Vec::new()));
    }
    let mut missing = Vec::new();
    for name in ["fq", "fq_codel"] {
        if !has_discipline(name).unwrap_or(false) {
            missing.push(name);
        }
    }
    let mut points = chapter(&base, args.max_flows, &|name| !missing.contains(&name));
    let mut notes = Vec::new();
    if !missing.is_empty() {
        notes.push(format!(
            "This kernel does not have {}, which the study of 2021 used: the queue is a pfifo, and \
             paced flows are paced by TCP itself.",
            missing.join(" and ")
        ));
    }
    if let Err(e) = can_lose() {
        points.retain(|point| point.loss == 0.0);
        notes.push(format!("There are no points with loss: {e}."));
    }
    Ok((points, notes))
}

fn families(args: &StackArgs) -> Families {
    match args.ip {
        IpChoice::V4 => Families::V4,
        IpChoice::V6 => Families::V6,
        IpChoice::Both => Families::Both,
    }
}

/// The study in namespaces that the arguments ask for.
fn study(args: &StackArgs, points: Vec<Point>) -> Study {
    Study {
        points,
        families: families(args),
        sources: args.sources,
        settle: Duration::from_secs(args.settle),
        measure: Duration::from_secs(args.seconds),
        threads: args.threads,
        tune: args.tune,
        functions: !args.no_functions,
    }
}

/// The study to another machine that the arguments ask for, if they do.
fn client(args: &StackArgs, points: Vec<Point>) -> Option<Client> {
    Some(Client {
        points,
        server: args.client?,
        sources: args.source.clone(),
        device: args.device.clone(),
        set_queue: !args.qdisc.is_empty() || !args.limit.is_empty(),
        settle: Duration::from_secs(args.settle),
        measure: Duration::from_secs(args.seconds),
        threads: args.threads,
        tune: args.tune,
        functions: !args.no_functions,
    })
}

/// Checks the machine only. It is an error if the run is not possible.
fn check(args: &StackArgs, points: Vec<Point>) -> Result<(), Failure> {
    let (needs, fresh) = match client(args, points.clone()) {
        Some(client) => (client.needs(), false),
        None => (study(args, points).needs(), true),
    };
    let machine = Machine::gather(fresh)
        .map_err(|e| format!("checking this machine: {e}: run it with sudo"))?;
    let checks = machine.judge(&needs);
    for check in &checks {
        let Check { what, have, want, verdict, fix } = check;
        let mark = match verdict {
            Verdict::Fine => "ok  ",
            Verdict::Advice => "low ",
            Verdict::Set => "set ",
            Verdict::Stop => "stop",
        };
        print(&format!("{mark} {what}: {have}\n"))?;
        if check.is_open() {
            print(&format!("     wanted: {want}\n     {fix}\n"))?;
        }
    }
    match checks.iter().find(|check| check.verdict == Verdict::Stop) {
        Some(check) => Err(format!("{}: {}", check.what, check.fix).into()),
        None => Ok(()),
    }
}

/// Measures all points; writes what is known as soon as it is.
fn measure(args: &StackArgs, points: Vec<Point>, notes: Vec<String>) -> Result<(), Failure> {
    let (machine, command) = (machine(), command());
    let mut output = Output::open(args)?;
    output.write(&[Line::Study {
        machine: machine.clone(),
        command: command.clone(),
        notes: notes.clone(),
    }])?;
    let interrupt = interrupt()?;
    let bar = Bar::new(points.len());
    // What was measured before a failure is shown all the same.
    let mut results = Results::default();
    let mut tell = |told: Told<'_>| {
        match told {
            Told::Checked(checks) => {
                results.checks = checks.to_vec();
                let all: Vec<_> = checks.iter().cloned().map(Line::Check).collect();
                output.write(&all)?;
            }
            Told::Stage(index, point, stage) => bar.show(index, point, stage),
            Told::Measured(index, outcome) => {
                bar.done(index);
                output.write(&[Line::Point(Box::new(outcome.clone()))])?;
                results.outcomes.push(outcome.clone());
            }
        }
        Ok(())
    };
    let result = match client(args, points.clone()) {
        Some(client) => client.run(&interrupt, &mut tell),
        None => study(args, points).run(&interrupt, &mut tell),
    };
    bar.finish();
    if !results.outcomes.is_empty() {
        let found = findings(&results.outcomes);
        output.write(&found.into_iter().map(Line::Finding).collect::<Vec<_>>())?;
        show(args, &results, machine, command, notes)?;
    }
    Ok(result.map(drop)?)
}

/// Prints the summary and writes the page.
fn show(
    args: &StackArgs,
    results: &Results,
    machine: String,
    command: String,
    notes: Vec<String>,
) -> Result<(), Failure> {
    let findings = findings(&results.outcomes);
    let report = Report { results, findings, machine, command, notes };
    let page = args.out.join("report.html");
    write(&page, &report.html())?;
    let text = format!("{}\nThe pictures: {}\n", report.text(), page.display());
    Ok(print_beside(args.json.as_deref(), &text)?)
}

/// Where JSON lines go.
enum Output {
    Nowhere,
    Stdout,
    File(File, String),
}

impl Output {
    fn open(args: &StackArgs) -> Result<Self, Failure> {
        let Some(path) = &args.json else { return Ok(Self::Nowhere) };
        if is_standard_output(path) {
            return Ok(Self::Stdout);
        }
        let name = path.display().to_string();
        let file = File::create(path).map_err(|e| format!("cannot write {name}: {e}"))?;
        Ok(Self::File(file, name))
    }

    fn write(&mut self, all: &[Line]) -> Result<(), Error> {
        let failed = |name: &str| Error::io(format!("writing {name}"));
        let text = lines(all).map_err(io::Error::from).map_err(failed("JSON lines"))?;
        match self {
            Self::Nowhere => Ok(()),
            Self::Stdout => print(&text).map_err(failed("standard output")),
            Self::File(file, name) => file.write_all(text.as_bytes()).map_err(failed(name)),
        }
    }
}

/// The command as it was given.
fn command() -> String {
    let args = std::env::args().skip(1).map(|arg| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/%=".contains(c);
        if arg.chars().all(is_plain) { arg } else { format!("'{arg}'") }
    });
    let args: Vec<String> = args.collect();
    format!("forebay {}", args.join(" "))
}

/// The kernel, the processors and the memory in a sentence.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = read("/proc/meminfo");
    let total = forebay_stack::probe::counters::memory(&memory, "MemTotal").unwrap_or_default();
    format!("Linux {}, {cores} processors ({model}), {} GiB of memory.", kernel.trim(), total >> 30)
}

/// The progress on standard error, if that is a terminal; otherwise a line for each point.
struct Bar {
    points: usize,
    begun: Instant,
    is_terminal: bool,
}

impl Bar {
    fn new(points: usize) -> Self {
        Self { points, begun: Instant::now(), is_terminal: io::stderr().is_terminal() }
    }

    fn show(&self, index: usize, point: &Point, stage: Stage) {
        let what = match stage {
            Stage::Connecting(n) => format!("{} connections", count(u64::from(n))),
            Stage::Settling => "settling".to_owned(),
            Stage::Measuring => "measuring".to_owned(),
            Stage::Draining => "draining".to_owned(),
        };
        let number = index + 1;
        if self.is_terminal {
            let line = format!("{number} of {}: {point}: {what}", self.points);
            let line: String = line.chars().take(78).collect();
            over(&format!("\r{line:<78}"));
        } else if stage == Stage::Settling {
            let seconds = self.begun.elapsed().as_secs();
            note(&format!("{number} of {} ({seconds} s): {}: {point}", self.points, point.series));
        }
    }

    fn done(&self, index: usize) {
        if self.is_terminal && index + 1 < self.points {
            let each = self.begun.elapsed().as_secs() / (index as u64 + 1);
            let left = each * (self.points - index - 1) as u64;
            let line = format!("{} of {} done, about {left} s left", index + 1, self.points);
            over(&format!("\r{line:<78}"));
        }
    }

    fn finish(&self) {
        if self.is_terminal {
            over(&format!("\r{:<78}\r", ""));
        }
    }
}

/// Writes `text` over the last line of standard error; a terminal that is gone is no error.
fn over(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
