/// The counters of an egress since it was created. Packets are UDP datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets taken from connections: the sum of those sent, dropped and still waiting.
    pub taken: u64,
    /// Packets that left the buffer for the socket.
    pub sent: u64,
    /// Bytes of the packets that left, as frames with Ethernet header.
    pub sent_bytes: u64,
    /// Packets that a full buffer dropped. With backpressure these are only packets of no
    /// connection, or of one beyond [`Config::flows`](crate::Config::flows).
    pub dropped: u64,
    /// Packets that left the buffer and that the socket below refused, for another reason than
    /// being busy.
    pub refused: u64,
    /// Number of times a connection was paused.
    pub pauses: u64,
    /// Number of times a connection was resumed.
    pub resumes: u64,
    /// Number of times a resumed connection did not send for half a second, so that the room kept
    /// for it went to another.
    pub unanswered: u64,
    /// Number of connections.
    pub flows: u32,
    /// Connections opened beyond [`Config::flows`](crate::Config::flows), which are never paused.
    pub unregulated: u64,
    /// Packets that wait in the buffer.
    pub backlog: u32,
}
