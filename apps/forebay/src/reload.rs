//! `forebay reload`: running boxes read their files again.

use std::process::ExitCode;
use std::time::Duration;

use forebay_cli::terminal::{Failure, fail, print};
use forebay_records::Reloaded;

use crate::cli::ReloadArgs;

/// The time that all boxes have for their answers. Many bundles may take a box seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn reload(args: &ReloadArgs) -> ExitCode {
    let answers = match ask(args) {
        Ok(answers) => answers,
        Err(e) => return fail(&e, 1),
    };
    let refused = answers.iter().any(|answer| answer.refused.is_some());
    if args.json {
        // The exit status says whether it worked.
        let _ = print(&format!("{}\n", serde_json::json!(answers)));
    } else {
        for answer in &answers {
            let many = if answers.len() > 1 {
                format!("process {}: ", answer.process)
            } else {
                String::new()
            };
            match &answer.refused {
                Some(why) => drop(fail(&format!("{many}{why}"), 1)),
                None => drop(print(&format!("{many}{}\n", text(answer)))),
            }
        }
    }
    if refused { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn ask(args: &ReloadArgs) -> Result<Vec<Reloaded>, Failure> {
    let answers = forebay_status::reload(args.process, ANSWER_TIMEOUT)?;
    if answers.is_empty() {
        return Err(match args.process {
            Some(process) => format!(
                "process {process} is no site, sendbox or receivebox of this network namespace"
            )
            .into(),
            None => "no box runs in this network namespace".into(),
        });
    }
    let answer = |(process, answer): (u32, std::io::Result<Reloaded>)| {
        answer.map_err(|e| format!("process {process}: {e}").into())
    };
    answers.into_iter().map(answer).collect()
}

fn text(answer: &Reloaded) -> String {
    match answer.changes.as_slice() {
        [] => "nothing changed".to_owned(),
        changes => changes.join("; "),
    }
}
