//! `forebay plan serve`: the planner as a service.

use std::process::ExitCode;

use forebay_cli::terminal::{fail, print_if_read, raised_by_signals};
use forebay_serve::{Error, Ready, Stop, token};
use forebay_system::privileges;

use crate::cli::{ServeArgs, SpeakerArgs};

pub(super) fn serve(args: &ServeArgs) -> ExitCode {
    if args.check {
        return end(forebay_serve::check(&args.config));
    }
    privileges::protect();
    // Until here a signal ends the process at once, whatever it reads or waits for.
    let ready = match Ready::new(&args.config) {
        Ok(ready) => ready,
        Err(e) => return fail(&e, e.exit_code()),
    };
    match raised_by_signals(Stop::stop) {
        Ok(stop) => end(ready.run(&stop)),
        Err(e) => fail(&e, 1),
    }
}

pub(super) fn supervisor(args: &SpeakerArgs) -> ExitCode {
    privileges::protect();
    end(forebay_serve::supervise(&args.journal, &args.gobgp).map(|told| {
        tracing::info!("the service has ended: {} announcements withdrawn", told.done);
    }))
}

pub(super) fn token() -> ExitCode {
    match token::generate() {
        Ok(token) => {
            let hash = token::Hash::of(token.as_bytes());
            match print_if_read(&format!("token: {token}\nhash:  {hash}\n")) {
                Ok(true) => ExitCode::SUCCESS,
                Ok(false) => fail(&"nothing read the token, so it is lost: run it again", 1),
                Err(e) => fail(&e, 1),
            }
        }
        Err(e) => fail(&e, 1),
    }
}

fn end(result: Result<(), Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&e, e.exit_code()),
    }
}
