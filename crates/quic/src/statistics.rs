/// What an egress has counted since it was made. Packets are UDP datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that were taken from connections: as many as were sent, dropped and still wait.
    pub taken: u64,
    /// Packets that left it for the socket.
    pub sent: u64,
    /// The bytes of these, as frames with Ethernet header.
    pub sent_bytes: u64,
    /// Packets that a full buffer dropped. With backpressure only those of no connection, or of one past
    /// [`Config::flows`](crate::Config::flows).
    pub dropped: u64,
    /// Packets that left the buffer and that the socket below refused, for a reason other than that it was busy.
    pub refused: u64,
    /// How often a connection was paused.
    pub pauses: u64,
    /// How often a connection was resumed.
    pub resumes: u64,
    /// How often a connection was resumed and did not send for half a second, so that the room kept
    /// for it went to another.
    pub unanswered: u64,
    /// Connections there are.
    pub flows: u32,
    /// Connections that came when there were [`Config::flows`](crate::Config::flows) already; nothing
    /// pauses these.
    pub unregulated: u64,
    /// Packets that wait in the buffer.
    pub backlog: u32,
}
