// SPDX-License-Identifier: GPL-2.0

//! What the queue pairs of a host send.

use super::*;

/// One message of the plan.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub op: SendOp,
    pub len: u32,
    pub fence: bool,
    /// The peer does not allow it.
    pub bad: bool,
}

/// What QP `index` of a host sends, and so what its peer gets.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub messages: Vec<Message>,
    pub max_len: u32,
}

impl Plan {
    pub fn random(seed: u64, n: usize, max_len: u32) -> Self {
        let mut rng = Rng::new(seed);
        let ops = [
            SendOp::Send,
            SendOp::SendImm,
            SendOp::SendInv,
            SendOp::Write,
            SendOp::WriteImm,
            SendOp::Read,
            SendOp::FetchAdd,
            SendOp::Local,
        ];
        let messages = (0..n)
            .map(|_| {
                let op = ops[rng.below(ops.len() as u64) as usize];
                let len = match rng.below(4) {
                    0 => 0,
                    1 => rng.below(64) as u32,
                    _ => rng.below(u64::from(max_len) + 1) as u32,
                };
                Message {
                    op,
                    len: if op.is_atomic() { 8 } else { len },
                    fence: rng.chance(500),
                    bad: false,
                }
            })
            .collect();
        Plan {
            seed,
            messages,
            max_len,
        }
    }

    /// Byte `at` of message `k`.
    pub fn byte(&self, k: usize, at: u32) -> u8 {
        (self.seed as u32)
            .wrapping_add(k as u32 * 7919)
            .wrapping_add(at.wrapping_mul(31))
            .wrapping_add(at >> 8) as u8
    }

    pub fn bytes(&self, k: usize, at: u32, len: u32) -> Vec<u8> {
        (at..at + len).map(|i| self.byte(k, i)).collect()
    }

    /// Where message `k` goes in the peer's memory.
    pub fn va(&self, k: usize) -> u64 {
        0x1_0000_0000 + k as u64 * u64::from(self.max_len)
    }

    pub(super) fn consumers(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.messages.len()).filter(|k| self.messages[*k].op.consumes_receive())
    }
}
