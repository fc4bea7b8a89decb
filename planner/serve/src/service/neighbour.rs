//! The answers to neighbours. This module reads nothing that belongs to another neighbour.

use forebay_plan::hints::{Neighbour, alto};
use forebay_plan::vswitch::{self, Program, Refusal};
use serde_json::{Value, json};

use super::{Inner, Request, Service};
use crate::answer::Answer;
use crate::clock;
use crate::damping::{CHANGE, MISTAKE};
use crate::events::event;
use crate::routes::Op;
use crate::store::{StoreError, Versioned};

/// The delay before a retry when there was no round yet, in milliseconds.
const RETRY_MILLIS: u64 = 5000;

impl Service {
    pub(super) fn answer_neighbour(&self, op: Op, at: usize, request: &Request<'_>) -> Answer {
        match op {
            Op::VSwitch => self.vswitch(at),
            Op::Program => Answer::json(&self.program(&self.inner(), at)),
            Op::PutProgram => self.put_program(at, request),
            Op::DeleteProgram => self.delete_program(at, request.now),
            Op::Hints => self.hints(at),
            Op::NetworkMap | Op::CostMap => self.alto(op, at),
            _ => Answer::error(
                403,
                "forbidden",
                None,
                "is not for neighbours: use the routes under /v1",
            ),
        }
    }

    fn vswitch(&self, at: usize) -> Answer {
        let inner = self.inner();
        let Some(core) = &inner.last.core else { return no_round() };
        let (view, tag) = &core.views[self.numbers[at] as usize];
        let mut value = json!(view);
        value["view"] = tag.as_str().into();
        Answer::json(&value)
    }

    /// Returns the neighbour's program and its state.
    pub(super) fn program(&self, inner: &Inner, at: usize) -> Value {
        let known = &inner.neighbours[at];
        let (version, since) = known.program.as_ref().map_or((0, 0), |p| (p.version, p.at));
        let program = known.program.as_ref().and_then(|p| p.value.as_ref());
        let lapsed = inner.last.lapsed.get(&self.numbers[at]);
        let state = match program {
            None => "none",
            Some(_) if known.used != version => "waiting",
            Some(_) if lapsed.is_some() => "lapsed",
            Some(_) => "taken",
        };
        let mut value = json!({"version": version, "state": state, "program": program});
        if since > 0 {
            value["at"] = clock::text(since).into();
        }
        if let (Some(why), "lapsed") = (lapsed, state) {
            value["reason"] = json!({"field": why.field, "message": why.message});
        }
        value
    }

    fn hints(&self, at: usize) -> Answer {
        let inner = self.inner();
        let name = &self.config.neighbours[at].name;
        let Some(told) = &inner.neighbours[at].told else { return no_round() };
        let value = json!({
            "neighbour": name,
            "version": told.version,
            "at": clock::text(told.at),
            "hints": told.value,
        });
        Answer::json(&value).with("etag", format!("\"{}\"", told.version))
    }

    fn alto(&self, op: Op, at: usize) -> Answer {
        let inner = self.inner();
        let Some(core) = &inner.last.core else { return no_round() };
        let name = &self.config.neighbours[at].name;
        let number = self.numbers[at] as usize;
        let none = Neighbour::none(name);
        let own = inner.last.hints.of(name).unwrap_or(&none);
        let maps = alto::maps(own, &core.network, &self.fixed.file.profiles[number], number);
        match op {
            Op::NetworkMap => Answer::json(&maps.network_map).of_kind(alto::NETWORK_MAP),
            _ => Answer::json(&maps.cost_map).of_kind(alto::COST_MAP),
        }
    }

    fn put_program(&self, at: usize, request: &Request<'_>) -> Answer {
        let now = request.now;
        if !request.kind.is_empty() && !request.kind.eq_ignore_ascii_case("application/json") {
            let message = "write the program as application/json";
            return Answer::error(415, "media_type", None, message);
        }
        if let Some(answer) = self.damped(at, now) {
            return answer;
        }
        // Parsing may take long, so the lock is not held.
        let mut program = match Program::read(request.body) {
            Ok(program) => program,
            Err(why) => return self.refused(at, 400, &why, now),
        };
        let core = self.inner().last.core.clone();
        let Some(core) = core else { return no_round() };
        let number = self.numbers[at];
        let tag = &core.views[number as usize].1;
        if program.view.as_ref().is_some_and(|view| view != tag) {
            let message = "is not the present view: get /v1/vswitch and write a new program";
            return Answer::error(409, "view", Some("view"), message);
        }
        program.view = Some(tag.clone());
        let checked = vswitch::check(&core.network, &core.map, &core.prefixes, number, &program);
        match checked {
            Ok(()) => self.change_program(at, Some(program), now),
            Err(why) => self.refused(at, 422, &why, now),
        }
    }

    fn delete_program(&self, at: usize, now: u64) -> Answer {
        match self.damped(at, now) {
            Some(answer) => answer,
            None => self.change_program(at, None, now),
        }
    }

    /// Returns an error if the neighbour has changed its program too often.
    fn damped(&self, at: usize, now: u64) -> Option<Answer> {
        let mut inner = self.inner();
        let known = &mut inner.neighbours[at];
        known.penalty.refused_for(&self.config.damping, now).map(|wait| {
            known.refused += 1;
            let message = "the program was changed too often: the present one stays until then";
            Answer::error(429, "damped", None, message).later(wait)
        })
    }

    fn refused(&self, at: usize, status: u16, why: &Refusal, now: u64) -> Answer {
        let mut inner = self.inner();
        let known = &mut inner.neighbours[at];
        known.refused += 1;
        known.penalty = known.penalty.after(MISTAKE, &self.config.damping, now);
        let penalty = known.penalty;
        match inner.store.put_penalty(&self.config.neighbours[at].name, &penalty) {
            Ok(()) => Answer::error(status, "program", Some(&why.field), &why.message),
            Err(e) => storage_failure(&e),
        }
    }

    fn change_program(&self, at: usize, program: Option<Program>, now: u64) -> Answer {
        let mut inner = self.inner();
        let known = &inner.neighbours[at];
        // Putting the same program again changes nothing.
        if known.program.as_ref().and_then(|p| p.value.as_ref()) == program.as_ref() {
            return Answer::json(&self.program(&inner, at));
        }
        let penalty = known.penalty.after(CHANGE, &self.config.damping, now);
        let name = &self.config.neighbours[at].name;
        let version = match inner.store.put_program(name, program.as_ref(), &penalty, now) {
            Ok(version) => version,
            Err(e) => return storage_failure(&e),
        };
        let known = &mut inner.neighbours[at];
        known.penalty = penalty;
        known.program = Some(Versioned { version, at: now, value: program });
        let event = self.event_of(&inner, at);
        let answer = Answer::json(&self.program(&inner, at));
        drop(inner);
        self.hub.send(at, &event);
        answer
    }

    /// Returns the state of a neighbour as an event.
    pub(super) fn event_of(&self, inner: &Inner, at: usize) -> String {
        let view = inner.last.core.as_ref().map(|c| c.views[self.numbers[at] as usize].1.as_str());
        let told = inner.neighbours[at].told.as_ref().map_or(0, |t| t.version);
        let program = self.program(inner, at);
        let data = json!({
            "view": view,
            "program": {"version": program["version"], "state": program["state"]},
            "hints": told,
        });
        let id = format!("{}-{}-{told}", view.unwrap_or("0"), program["version"]);
        event("state", &id, &data.to_string())
    }
}

fn no_round() -> Answer {
    let message = "there was no round yet: try again soon";
    Answer::error(503, "no_round", None, message).later(RETRY_MILLIS)
}

pub(super) fn storage_failure(error: &StoreError) -> Answer {
    tracing::error!("cannot write the state: {error}");
    Answer::error(
        500,
        "not_kept",
        None,
        "the change could not be stored and has no effect: try again",
    )
}
