//! The numbers of connections, and the state of each besides that of the gate.

use forebay_queue::backpressure::FlowId;
use forebay_units::Nanos;
use quinn::udp::Transmit;

/// The progress of a transmit of several segments. The sender keeps the transmit and passes it
/// again, so no more needs to be kept here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Number of segments that are in the buffer or were dropped there.
    pub(super) segments: u32,
    name: Name,
}

/// Identifies a transmit by its length and its end. The end is the tag of an encrypted packet, so
/// no two are the same.
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
    /// The number of the invitation that was not answered yet.
    invited: Option<u64>,
}

/// The connections by number, up to a fixed largest number.
pub(super) struct Flows {
    /// The connections, from number 1 on.
    flows: Vec<Flow>,
    /// Free numbers, of which the last one freed is used first.
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

    /// Frees the number of a connection. Call it once for each [`Flows::open`].
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

    /// Returns how many segments of `transmit` have been taken already.
    pub(super) fn taken(&mut self, flow: FlowId, transmit: &Transmit<'_>) -> u32 {
        let progress = self.get(flow).map(|state| state.progress).unwrap_or_default();
        if progress.segments > 0 && progress.name == Name::of(transmit) {
            progress.segments
        } else {
            0
        }
    }

    /// Stores the number of segments taken; zero for a transmit that is complete.
    pub(super) fn set_taken(&mut self, flow: FlowId, transmit: &Transmit<'_>, segments: u32) {
        if let Some(state) = self.get(flow) {
            state.progress = match segments {
                0 => Progress::default(),
                _ => Progress { segments, name: Name::of(transmit) },
            };
        }
    }

    /// Records that `flow` was resumed, and returns a number for this invitation.
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

/// The invitations in the order of their time limits, to find those that were not answered.
#[derive(Default)]
pub(super) struct Invitations(std::collections::VecDeque<(Nanos, FlowId, u64)>);

impl Invitations {
    /// Adds an invitation to be answered by `until`, which never decreases.
    pub(super) fn add(&mut self, until: Nanos, flow: FlowId, invitation: u64, flows: &mut Flows) {
        self.0.push_back((until, flow, invitation));
        // There is at most one valid invitation for each flow, so this keeps at most half.
        if self.0.len() > 2 * flows.most as usize + 64 {
            self.0.retain(|(_, flow, invitation)| flows.waits_for(*flow, *invitation));
        }
    }

    /// Returns the time limit and the connection of the first valid invitation.
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
