// SPDX-License-Identifier: GPL-2.0

//! Kinds of events about verbs objects.

/// An asynchronous event about a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum QpEvent {
    /// The queue pair went to the error state and cannot report why in a completion.
    Fatal = bindings::ib_event_type_IB_EVENT_QP_FATAL,
    /// The responder got a request that is not valid.
    RequestError = bindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
    /// The responder got a request that violates a memory region's access rights.
    AccessError = bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
    /// The first packet arrived while the queue pair is ready to receive only.
    Established = bindings::ib_event_type_IB_EVENT_COMM_EST,
    /// The send queue is drained.
    SqDrained = bindings::ib_event_type_IB_EVENT_SQ_DRAINED,
    /// The connection went over to other planes.
    PathMigrated = bindings::ib_event_type_IB_EVENT_PATH_MIG,
    /// The last receive of a queue pair with a shared receive queue was taken.
    LastWqeReached = bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
}

/// An asynchronous event about a shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SrqEvent {
    /// The queue is unusable.
    Failed = bindings::ib_event_type_IB_EVENT_SRQ_ERR,
    /// There are fewer receives than the limit that was armed.
    LimitReached = bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED,
}
