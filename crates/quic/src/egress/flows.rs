//! The numbers of connections, and what is kept of each beside the gate's own state.

use forebay_queue::backpressure::FlowId;
use forebay_units::Nanos;
use quinn::udp::Transmit;

/// How far a transmit of several segments has come. Its sender keeps it and hands it over again, so this
/// is all that has to be remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Segments that are in the buffer, or were lost there.
    pub(super) segments: u32,
    name: Name,
}

/// Tells a transmit from another: its length, and its end, which is the tag of an encrypted packet and so the same
/// for no two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Name {
    len: usize,
    end: [u8; 16],
}

impl Name {
    fn of(transmit: &Transmit<'_>) -> Self {
        let mut end = [0; 16];
        if let Some(last) = transmit.contents.last_chunk() {
            end = *last;
        }
        Self { len: transmit.contents.len(), end }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    progress: Progress,
    /// Which of its invitations has not been answered.
    invited: Option<u64>,
}

/// Connections by number; at most as many as were asked for.
pub(super) struct Flows {
    /// By number, from 1 on.
    flows: Vec<Flow>,
    /// Numbers to give out again, the last given back first.
    free: Vec<u32>,
    most: u32,
    invitations: u64,
}

impl Flows {
    pub(super) fn new(most: u32) -> Self {
        Self { flows: Vec::new(), free: Vec::new(), most, invitations: 0 }
    }

    pub(super) fn open(&mut self) -> Option<FlowId> {
        if let Some(number) = self.free.pop() {
            return Some(FlowId(number));
        }
        let number = u32::try_from(self.flows.len()).ok().filter(|n| *n < self.most)? + 1;
        self.flows.push(Flow::default());
        Some(FlowId(number))
    }

    /// To be called once for each [`Flows::open`].
    pub(super) fn close(&mut self, flow: FlowId) {
        if let Some(state) = self.get(flow) {
            *state = Flow::default();
            self.free.push(flow.0);
        }
    }

    pub(super) fn len(&self) -> u32 {
        (self.flows.len() - self.free.len()) as u32
    }

    fn get(&mut self, flow: FlowId) -> Option<&mut Flow> {
        self.flows.get_mut((flow.0 as usize).checked_sub(1)?)
    }

    /// How many segments of `transmit` have been taken already.
    pub(super) fn taken(&mut self, flow: FlowId, transmit: &Transmit<'_>) -> u32 {
        let progress = self.get(flow).map(|state| state.progress).unwrap_or_default();
        if progress.segments > 0 && progress.name == Name::of(transmit) {
            progress.segments
        } else {
            0
        }
    }

    /// Remembers that; none for a transmit that is through.
    pub(super) fn set_taken(&mut self, flow: FlowId, transmit: &Transmit<'_>, segments: u32) {
        if let Some(state) = self.get(flow) {
            state.progress = match segments {
                0 => Progress::default(),
                _ => Progress { segments, name: Name::of(transmit) },
            };
        }
    }

    /// `flow` was resumed: a name for this occasion.
    pub(super) fn invite(&mut self, flow: FlowId) -> u64 {
        self.invitations += 1;
        let invitation = self.invitations;
        if let Some(state) = self.get(flow) {
            state.invited = Some(invitation);
        }
        invitation
    }

    pub(super) fn answered(&mut self, flow: FlowId) {
        if let Some(state) = self.get(flow) {
            state.invited = None;
        }
    }

    pub(super) fn waits_for(&mut self, flow: FlowId, invitation: u64) -> bool {
        self.get(flow).is_some_and(|state| state.invited == Some(invitation))
    }
}

/// Invitations in the order in which they were made, for those that nobody answers.
#[derive(Default)]
pub(super) struct Invitations(std::collections::VecDeque<(Nanos, FlowId, u64)>);

impl Invitations {
    /// To be answered by `until`, which never goes back.
    pub(super) fn add(&mut self, until: Nanos, flow: FlowId, invitation: u64, flows: &mut Flows) {
        self.0.push_back((until, flow, invitation));
        // Of those that count there is one for each flow, so this leaves at most half.
        if self.0.len() > 2 * flows.most as usize + 64 {
            self.0.retain(|(_, flow, invitation)| flows.waits_for(*flow, *invitation));
        }
    }

    /// Until when the first that counts is to be answered.
    pub(super) fn first(&mut self, flows: &mut Flows) -> Option<(Nanos, FlowId)> {
        loop {
            let (until, flow, invitation) = *self.0.front()?;
            if flows.waits_for(flow, invitation) {
                return Some((until, flow));
            }
            self.0.pop_front();
        }
    }
}
