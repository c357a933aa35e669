// SPDX-License-Identifier: GPL-2.0

//! Counters of one path.

/// What the sending half counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxStats {
    /// Packets sent for the first time.
    pub packets: u64,
    /// Payload bytes of them.
    pub bytes: u64,
    /// Packets acknowledged.
    pub acked: u64,
    /// Retransmissions because a later packet arrived.
    pub retransmits_gap: u64,
    /// Retransmissions because a probe arrived.
    pub retransmits_probe: u64,
    /// Retransmissions because the timer ran out.
    pub retransmits_timeout: u64,
    /// Retransmissions that turned out needless: the earlier transmission had arrived.
    pub spurious: u64,
    /// Probes sent.
    pub probes: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// CE-marked packets that the receiver reported.
    pub marks: u64,
    /// Changes of the route.
    pub route_changes: u64,
    /// ACK blocks that told nothing new.
    pub stale_acks: u64,
    /// ACK blocks that acknowledged what was never sent.
    pub bad_acks: u64,
}

/// What the receiving half counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxStats {
    /// Packets received for the first time.
    pub packets: u64,
    /// Packets received again.
    pub duplicates: u64,
    /// Packets outside the window.
    pub outside: u64,
    /// Packets with a CE mark.
    pub marks: u64,
    /// Packets that were on no link, duplicates included.
    pub local: u64,
    /// Times that a PSN was skipped.
    pub gaps: u64,
    /// Packets refused by the stream and held.
    pub held: u64,
    /// Packets that could not be taken and were forgotten.
    pub aborted: u64,
    /// Probes received.
    pub probes: u64,
}

impl TxStats {
    /// Retransmissions for whatever cause.
    pub fn retransmits(&self) -> u64 {
        self.retransmits_gap + self.retransmits_probe + self.retransmits_timeout
    }

    /// Adds another path's counters.
    pub fn add(&mut self, o: &TxStats) {
        self.packets += o.packets;
        self.bytes += o.bytes;
        self.acked += o.acked;
        self.retransmits_gap += o.retransmits_gap;
        self.retransmits_probe += o.retransmits_probe;
        self.retransmits_timeout += o.retransmits_timeout;
        self.spurious += o.spurious;
        self.probes += o.probes;
        self.timeouts += o.timeouts;
        self.marks += o.marks;
        self.route_changes += o.route_changes;
        self.stale_acks += o.stale_acks;
        self.bad_acks += o.bad_acks;
    }
}

impl RxStats {
    /// Adds another path's counters.
    pub fn add(&mut self, o: &RxStats) {
        self.packets += o.packets;
        self.duplicates += o.duplicates;
        self.outside += o.outside;
        self.marks += o.marks;
        self.local += o.local;
        self.gaps += o.gaps;
        self.held += o.held;
        self.aborted += o.aborted;
        self.probes += o.probes;
    }
}
