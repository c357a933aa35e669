// SPDX-License-Identifier: GPL-2.0

//! How operations become commands of the NIC's admin queue.
//!
//! Commands have 64 bytes and completions 16, as the public header `ionic_if.h` says. Which
//! commands there are for MetaRoCE, only the maker of the firmware can tell: an implementation of
//! [`Codec`] is all that is missing here. None is made up.

use super::abi::Caps;
use kernel::prelude::*;

/// Bytes of a command, `union ionic_dev_cmd`.
pub(crate) const COMMAND: usize = 64;

/// Bytes of a completion, `union ionic_dev_cmd_comp`.
pub(crate) const COMPLETION: usize = 16;

/// What a command is about; each stands for the operation of `struct metaroce_ofl_ops`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    MrAdd,
    CqAdd,
    ConnAdd,
    QpAdd,
    QpModify,
}

/// Encodes operations and decodes answers.
pub(crate) trait Codec: Sync {
    /// What firmware that has these commands can do.
    fn caps(&self) -> Caps;

    /// Encodes a command.
    ///
    /// Errors: `EOPNOTSUPP` if there is no such command.
    fn encode(&self, operation: Operation) -> Result<[u8; COMMAND]>;

    /// Says what a completion means. Whoever waits for one has preset it to a status that firmware
    /// never gives: `ionic_adminq_post_wait()` returns 0 without having posted anything while
    /// firmware is down.
    ///
    /// Errors: as the operation's.
    fn decode(&self, operation: Operation, completion: &[u8; COMPLETION]) -> Result;
}

/// The commands for MetaRoCE of the public interface: there are none.
pub(crate) struct Public;

impl Codec for Public {
    fn caps(&self) -> Caps {
        Caps {
            wire_version: bindings::METAROCE_OFL_WIRE_VERSION,
            ..Caps::default()
        }
    }

    fn encode(&self, _operation: Operation) -> Result<[u8; COMMAND]> {
        Err(EOPNOTSUPP)
    }

    fn decode(&self, _operation: Operation, _completion: &[u8; COMPLETION]) -> Result {
        Err(EOPNOTSUPP)
    }
}

/// Carries an operation out: encodes it, and would post it.
///
/// Errors: `EOPNOTSUPP` if there is no command for it; `ENODEV`, since nothing is posted.
pub(crate) fn carry_out(codec: &dyn Codec, operation: Operation) -> Result {
    let _command = codec.encode(operation)?;
    // No answer has come.
    codec.decode(operation, &[0xff; COMPLETION])?;
    Err(ENODEV)
}
