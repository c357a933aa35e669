// SPDX-License-Identifier: GPL-2.0

//! Who is to carry a queue pair, and what becomes of a refusal.

use kernel::{
    macros::kunit_tests,
    prelude::*, //
};

/// What is wished for the queue pairs of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Software; nobody is asked.
    Off,
    /// A device if one takes it, else software.
    Prefer,
    /// A device, or nobody.
    Require,
}

/// What follows from the answer of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The device carries it.
    Device,
    /// Software does, since no device would.
    Fallback,
    /// Nobody does: the verbs call fails.
    Fail(Error),
}

impl Policy {
    /// Returns the policy of a name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "off" => Self::Off,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            _ => return None,
        })
    }

    /// Returns the name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Prefer => "prefer",
            Self::Require => "require",
        }
    }

    /// Says what follows from a device's answer; [`Self::Off`] asks for none.
    pub(crate) fn judge(self, answer: Result) -> Outcome {
        match answer {
            Ok(()) => Outcome::Device,
            Err(e) if self != Self::Require && is_refusal(e) => Outcome::Fallback,
            Err(e) => Outcome::Fail(e),
        }
    }
}

/// Whether an error says that a device does not want to, or is not there, rather than that
/// something is wrong.
pub(super) fn is_refusal(error: Error) -> bool {
    error == EOPNOTSUPP || error == ENOSPC || error == ENODEV
}

#[kunit_tests(metaroce_offload_policy)]
mod tests {
    use super::*;

    const REFUSALS: [Error; 3] = [EOPNOTSUPP, ENOSPC, ENODEV];
    const FAILURES: [Error; 4] = [ENOMEM, EIO, EINVAL, ETIMEDOUT];

    #[test]
    fn what_a_device_takes_is_the_devices() {
        assert_eq!(Policy::Prefer.judge(Ok(())), Outcome::Device);
        assert_eq!(Policy::Require.judge(Ok(())), Outcome::Device);
    }

    #[test]
    fn only_refusals_fall_back() {
        for e in REFUSALS {
            assert_eq!(Policy::Prefer.judge(Err(e)), Outcome::Fallback);
        }
        for e in FAILURES {
            assert_eq!(Policy::Prefer.judge(Err(e)), Outcome::Fail(e));
        }
    }

    #[test]
    fn nothing_falls_back_from_require() {
        for e in Iterator::chain(REFUSALS.into_iter(), FAILURES) {
            assert_eq!(Policy::Require.judge(Err(e)), Outcome::Fail(e));
        }
    }

    #[test]
    fn names_lead_back() {
        for policy in [Policy::Off, Policy::Prefer, Policy::Require] {
            assert_eq!(Policy::by_name(policy.name()), Some(policy));
        }
        assert_eq!(Policy::by_name("maybe"), None);
    }
}
