/* SPDX-License-Identifier: GPL-2.0 */
/*
 * MetaRoCE: how the driver of a NIC carries queue pairs in hardware.
 * Documentation/offload.rst explains the whole and tells what to do first.
 *
 * The verbs, the policy, the fall back to software and the counters stay in
 * metaroce.ko. A device that registers here gets connections and, on them, RC
 * queue pairs with their rings. It sends and receives the packets of these
 * connections by itself, reads work requests from the rings, and hands
 * completions to the core.
 *
 * Contexts: an operation may sleep, and is called with the registration's
 * mutex held (so never two at a time, with the exceptions marked "atomic"),
 * without the RTNL, unless its description says otherwise.
 *
 * Failures: of an operation that adds something, -EOPNOTSUPP (not this one),
 * -ENOSPC (no room for one more) and -ENODEV (not usable any more) mean that
 * software may do it instead; all others fail the verbs call. What failed to
 * be added is not deleted.
 */
#ifndef METAROCE_OFFLOAD_H
#define METAROCE_OFFLOAD_H

#include <linux/types.h>

struct metaroce_cqe;
struct net_device;
struct page;
struct sk_buff;

/* The version of the wire protocol that the core speaks. */
#define METAROCE_OFL_WIRE_VERSION	1

/* Bytes that the state of a queue pair can have, see qp_export(). */
#define METAROCE_OFL_STATE_MAX		(1 << 20)

/* Most planes of a connection. */
#define METAROCE_OFL_MAX_PLANES		8

/**
 * enum metaroce_ofl_flags - what a device can do beside the numbers
 * @METAROCE_OFL_CAP_CRC: computes and checks the CRC of packets
 * @METAROCE_OFL_CAP_NO_CRC: can do without it where both ends agreed to
 * @METAROCE_OFL_CAP_IPV6: connections between IPv6 addresses
 * @METAROCE_OFL_CAP_IMPORT: can go on with a queue pair from its state
 */
enum metaroce_ofl_flags {
	METAROCE_OFL_CAP_CRC = 1 << 0,
	METAROCE_OFL_CAP_NO_CRC = 1 << 1,
	METAROCE_OFL_CAP_IPV6 = 1 << 2,
	METAROCE_OFL_CAP_IMPORT = 1 << 3,
};

/**
 * enum metaroce_ofl_cc - laws of congestion control, as bits
 * @METAROCE_OFL_CC_ECN: by the share of marked packets
 * @METAROCE_OFL_CC_DELAY: by round-trip times
 * @METAROCE_OFL_CC_FIXED: a window that does not change
 */
enum metaroce_ofl_cc {
	METAROCE_OFL_CC_ECN = 1 << 0,
	METAROCE_OFL_CC_DELAY = 1 << 1,
	METAROCE_OFL_CC_FIXED = 1 << 2,
};

/**
 * struct metaroce_ofl_caps - capabilities and limits of a device
 * @wire_version: version of the wire protocol, METAROCE_OFL_WIRE_VERSION
 * @flags: enum metaroce_ofl_flags
 * @send_ops: work requests that it carries out, bit by
 *	enum metaroce_send_opcode. A queue pair may be given any of those that
 *	do not change memory windows, so less than that means that software
 *	keeps all of them.
 * @cc: laws of congestion control, enum metaroce_ofl_cc
 * @mtus: sizes of payload, bit by enum ib_mtu
 * @psn_window: packets that may be outstanding on a path, and be out of
 *	order; the width of what it can acknowledge selectively
 * @max_qp: queue pairs
 * @max_cq: completion queues that these use
 * @max_mr: memory regions
 * @max_conn: connections: one for each queue pair, and those that outlive theirs
 * @max_wr: entries of a send or receive ring
 * @max_sge: scatter/gather elements of a work request
 * @max_inline: bytes of inline data of a work request
 * @max_rd_atomic: reads and atomics outstanding, in either direction
 * @max_planes: planes of a connection
 * @max_paths: paths of a connection
 *
 * What is asked for beyond any of these goes to software without the device
 * being asked: as -EOPNOTSUPP, or -ENOSPC for the numbers of objects.
 */
struct metaroce_ofl_caps {
	u32 wire_version;
	u32 flags;
	u32 send_ops;
	u32 cc;
	u32 mtus;
	u32 psn_window;
	u32 max_qp;
	u32 max_cq;
	u32 max_mr;
	u32 max_conn;
	u32 max_wr;
	u32 max_sge;
	u32 max_inline;
	u32 max_rd_atomic;
	u32 max_planes;
	u32 max_paths;
};

/**
 * struct metaroce_ofl - a registration
 * @ndev: the network device that it was registered for
 * @priv: the driver's, as given to metaroce_ofl_register()
 *
 * Part of a larger structure of the core's.
 */
struct metaroce_ofl {
	struct net_device *ndev;
	void *priv;
};

/**
 * struct metaroce_ofl_mr - a memory region
 * @key: lkey and rkey
 * @pd: number of its protection domain
 * @va: address by which work requests and peers name its first byte
 * @length: bytes
 * @access: enum ib_access_flags
 * @offset: where in the first page it begins
 * @n_pages: length of @pages
 * @pages: the pages, of PAGE_SIZE each; they stay pinned until mr_del() has
 *	returned, the list goes when mr_add() has
 */
struct metaroce_ofl_mr {
	u32 key;
	u32 pd;
	u64 va;
	u64 length;
	u32 access;
	u32 offset;
	size_t n_pages;
	struct page *const *pages;
};

/**
 * struct metaroce_ofl_cq - a completion queue that offloaded queue pairs use
 * @drv: the driver's
 * @entries: its size
 *
 * Completions are given to metaroce_ofl_complete(): queues are shared with
 * queue pairs in software, resized, armed and moderated without the device.
 */
struct metaroce_ofl_cq {
	void *drv;
	u32 entries;
};

/**
 * struct metaroce_ofl_plane - one of the host's planes
 * @ndev: network device; a reference is held for as long as the plane is in
 *	the list. NULL where there is no plane (any more).
 * @gid: its address, IPv4 as ::ffff:a.b.c.d
 * @speed: Mbit/s, 0 if unknown
 * @up: usable
 */
struct metaroce_ofl_plane {
	struct net_device *ndev;
	u8 gid[16];
	u32 speed;
	bool up;
};

/**
 * struct metaroce_ofl_conn - a connection that the device owns, of one queue pair
 * @drv: the driver's
 * @id: the connection's number: what peers put in all packets to it, and what
 *	the device announces in INIT. Given by the core, unique on the host.
 * @local_gid: GID of the local queue pairs
 * @remote_gid: GID of the peer's
 * @port: UDP port of all peers, host byte order
 * @paths_per_plane: paths for each local plane
 * @crc: ask for protection by the CRC
 * @payload_mtu: most bytes of payload that this side takes
 * @cc: law of congestion control, one of enum metaroce_ofl_cc
 * @window: packets per path, if that is METAROCE_OFL_CC_FIXED
 * @n_planes: length of @planes
 * @planes: the host's planes by number. Changes come by conn_set_planes().
 */
struct metaroce_ofl_conn {
	void *drv;
	u32 id;
	u8 local_gid[16];
	u8 remote_gid[16];
	u16 port;
	u8 paths_per_plane;
	bool crc;
	u16 payload_mtu;
	u32 cc;
	u32 window;
	u32 n_planes;
	struct metaroce_ofl_plane planes[METAROCE_OFL_MAX_PLANES];
};

/**
 * struct metaroce_ofl_ring - a send or receive queue
 * @va: struct metaroce_ring_hdr, then the entries. Memory of vmalloc(), for
 *	DMA see vmalloc_to_page(). NULL if there is none.
 * @size: bytes of all that, whole pages
 * @entries: a power of two
 * @stride: bytes of an entry
 * @first: index of the first entry that was not taken yet
 *
 * A process has it mapped, and may write anywhere at any time: entries are
 * copied before they are checked, and the producer's index is checked against
 * what it can be. The device stores the consumer's index as work requests
 * complete, before their completion, and need_doorbell as the ABI has it: a
 * device that does not poll leaves it set.
 */
struct metaroce_ofl_ring {
	void *va;
	size_t size;
	u32 entries;
	u32 stride;
	u32 first;
};

/**
 * struct metaroce_ofl_qp_attr - attributes of a queue pair
 * @state: enum ib_qp_state
 * @path_mtu: bytes of payload of a packet
 * @dest_qpn: the peer's number
 * @sq_psn: number of the first message that is sent
 * @rq_psn: number of the first message that is received
 * @access: enum ib_access_flags: what the peer may do
 * @max_rd_atomic: reads and atomics outstanding as requester
 * @max_dest_rd_atomic: as responder
 * @timeout: local ACK timeout, as in struct ib_qp_attr
 * @retry_cnt: likewise
 * @rnr_retry: likewise
 * @min_rnr_timer: likewise
 * @sqd_async_notify: report METAROCE_OFL_SQ_DRAINED
 */
struct metaroce_ofl_qp_attr {
	u32 state;
	u32 path_mtu;
	u32 dest_qpn;
	u32 sq_psn;
	u32 rq_psn;
	u32 access;
	u8 max_rd_atomic;
	u8 max_dest_rd_atomic;
	u8 timeout;
	u8 retry_cnt;
	u8 rnr_retry;
	u8 min_rnr_timer;
	bool sqd_async_notify;
};

/**
 * struct metaroce_ofl_qp - an RC queue pair
 * @drv: the driver's
 * @qpn: its number
 * @pd: number of its protection domain
 * @signal_all: every send work request gets a completion
 * @conn: its connection
 * @send_cq: completions of send work requests
 * @recv_cq: completions of receives
 * @sq: send ring
 * @rq: receive ring
 * @attr: attributes. qp_add() finds those of a queue pair that is ready to
 *	receive; the core changes them after each qp_modify() that succeeds.
 * @state: NULL; for qp_add(), what to go on from, as qp_export() writes it. The
 *	connection, of which conn_add() has only the number then, is part of it,
 *	and in use: no INIT. @attr has the state that the queue pair is in.
 * @state_len: bytes of that
 */
struct metaroce_ofl_qp {
	void *drv;
	u32 qpn;
	u32 pd;
	bool signal_all;
	struct metaroce_ofl_conn *conn;
	struct metaroce_ofl_cq *send_cq;
	struct metaroce_ofl_cq *recv_cq;
	struct metaroce_ofl_ring sq;
	struct metaroce_ofl_ring rq;
	struct metaroce_ofl_qp_attr attr;
	const void *state;
	size_t state_len;
};

/**
 * struct metaroce_ofl_stats - what a device has counted since it registered
 * @tx_packets: packets sent, again or for the first time
 * @tx_bytes: bytes of their UDP payload
 * @rx_packets: packets taken
 * @rx_bytes: bytes of their UDP payload
 * @retransmits: packets sent again
 * @rx_errors: packets dropped because they were damaged or made no sense
 */
struct metaroce_ofl_stats {
	u64 tx_packets;
	u64 tx_bytes;
	u64 rx_packets;
	u64 rx_bytes;
	u64 retransmits;
	u64 rx_errors;
};

/**
 * enum metaroce_ofl_event - what happened to a queue pair
 * @METAROCE_OFL_QP_FATAL: it is in the error state, and no completion says
 *	why (IB_EVENT_QP_FATAL)
 * @METAROCE_OFL_QP_REQ_ERR: as above, for a request that is not valid
 * @METAROCE_OFL_QP_ACCESS_ERR: as above, for one without the right to access
 * @METAROCE_OFL_SQ_DRAINED: the send queue is drained, as qp_modify() to
 *	IB_QPS_SQD wanted
 */
enum metaroce_ofl_event {
	METAROCE_OFL_QP_FATAL,
	METAROCE_OFL_QP_REQ_ERR,
	METAROCE_OFL_QP_ACCESS_ERR,
	METAROCE_OFL_SQ_DRAINED,
};

/**
 * struct metaroce_ofl_ops - what a device does
 * @name: the driver's name, for those who look
 *
 * @mr_add: makes a memory region known. All regions of the RDMA device come
 *	before the first queue pair, later ones when they are registered. A
 *	failure then fails the registration of the memory.
 * @mr_del: forgets the region with a key. Cannot fail; nothing accesses the
 *	memory any more on return, for as long as that takes: a device that is
 *	dead is stopped by a reset, not waited for.
 *
 * @cq_add: makes a completion queue known
 * @cq_del: nothing completes to it any more on return. Cannot fail.
 *
 * @conn_add: makes a connection. The device sends INIT as soon as a queue
 *	pair is on it, with the first PSN that @qp_add or @qp_modify gave it,
 *	answers that of the peer, and owns it from then on:
 *	paths, acknowledgements, repetitions, congestion control.
 * @conn_set_planes: planes have come, gone, or got other addresses; those of
 *	@conn are the old ones until it returns, @planes has @n of them. The
 *	device moves its paths and announces the planes to the peer. Comes from
 *	a workqueue after a netdev notification. Cannot fail: a plane that the
 *	device cannot use, it does not use.
 * @conn_del: closes a connection, some time after its queue pair has gone: the
 *	peer may repeat what was acknowledged. Its number is not the device's
 *	any more on return. Cannot fail.
 *
 * @qp_add: takes a queue pair over, at its move to ready to receive, before
 *	any packet. From then on receives are taken from the ring.
 * @qp_modify: changes attributes, of enum ib_qp_attr_mask, the state with
 *	IB_QP_STATE to IB_QPS_RTS, _SQD or _ERR. A failure fails the verbs call
 *	and changes nothing. In the error state the device completes what is
 *	posted as flushed, what is there and what comes with qp_ring().
 * @qp_del: gives a queue pair up, in whatever state. Cannot fail. On return
 *	the device uses neither rings nor queues of it, the consumers' indices
 *	say what was not completed, and packets for it are refused as for any
 *	number that it does not know. If its connection has not been
 *	established, the device sends and takes no INIT for it any more: the
 *	queue pair may soon live again, on another connection.
 * @qp_export: optional. Writes the state of a queue pair, and of its connection,
 *	to @buf of @size bytes (METAROCE_OFL_STATE_MAX), for software to go on
 *	from, and returns how many bytes that are. Both stand still then: the
 *	device sends nothing more and drops what comes, until qp_del() and
 *	conn_del(), which follow, and tell the peer nothing. With an error
 *	everything goes on, and the queue pair is lost with the device.
 * @qp_ring: something was posted. Atomic: any context but NMI, without the
 *	mutex, many at a time; not after qp_del().
 *
 * @rx: optional. A packet of one of the device's connections came up the
 *	host's stack: local traffic never goes to a NIC, and a device without
 *	filters gets its packets by this alone. @skb has, at offset @off
 *	from its data, the @len bytes of UDP payload of one datagram, with the
 *	network and transport header set; it stays the core's, which the callee
 *	copies from or clones. Atomic: softirq, without the mutex, many
 *	at a time; not after conn_del() for the connection. Packets of devices
 *	without it are dropped as those of an unknown connection. An INIT
 *	without connection id goes to that of the queue pair that it names, if
 *	its first PSN is that queue pair's.
 *
 * @get_stats: reads counters
 */
struct metaroce_ofl_ops {
	const char *name;

	int (*mr_add)(struct metaroce_ofl *ofl, const struct metaroce_ofl_mr *mr);
	void (*mr_del)(struct metaroce_ofl *ofl, u32 key);

	int (*cq_add)(struct metaroce_ofl *ofl, struct metaroce_ofl_cq *cq);
	void (*cq_del)(struct metaroce_ofl *ofl, struct metaroce_ofl_cq *cq);

	int (*conn_add)(struct metaroce_ofl *ofl, struct metaroce_ofl_conn *conn);
	void (*conn_set_planes)(struct metaroce_ofl *ofl, struct metaroce_ofl_conn *conn,
				const struct metaroce_ofl_plane *planes, u32 n);
	void (*conn_del)(struct metaroce_ofl *ofl, struct metaroce_ofl_conn *conn);

	int (*qp_add)(struct metaroce_ofl *ofl, struct metaroce_ofl_qp *qp);
	int (*qp_modify)(struct metaroce_ofl *ofl, struct metaroce_ofl_qp *qp,
			 const struct metaroce_ofl_qp_attr *attr, u32 mask);
	void (*qp_del)(struct metaroce_ofl *ofl, struct metaroce_ofl_qp *qp);
	int (*qp_export)(struct metaroce_ofl *ofl, struct metaroce_ofl_qp *qp,
			 void *buf, size_t size);
	void (*qp_ring)(struct metaroce_ofl *ofl, struct metaroce_ofl_qp *qp);

	void (*rx)(struct metaroce_ofl *ofl, struct metaroce_ofl_conn *conn,
		   struct sk_buff *skb, u32 off, u32 len);

	void (*get_stats)(struct metaroce_ofl *ofl, struct metaroce_ofl_stats *stats);
};

/**
 * metaroce_ofl_register() - offer a device
 * @ndev: its network device. Queue pairs whose GID is an address of this
 *	device are offered to it.
 * @ops: what it does; stays valid until metaroce_ofl_unregister() has returned
 * @caps: what it can do; copied
 * @priv: for the driver, in struct metaroce_ofl
 *
 * Operations may come before this has returned.
 *
 * Context: may sleep; with or without the RTNL.
 * Return: the registration; ERR_PTR(-EEXIST) if the network device has one,
 * -EINVAL if an operation is missing, -EPROTONOSUPPORT for another version of
 * the wire protocol, -ENOMEM.
 */
struct metaroce_ofl *metaroce_ofl_register(struct net_device *ndev,
					   const struct metaroce_ofl_ops *ops,
					   const struct metaroce_ofl_caps *caps,
					   void *priv);

/**
 * metaroce_ofl_unregister() - take a device back
 * @ofl: the registration
 *
 * Nothing more is added. Queue pairs of the device whose policy was "prefer" are
 * exported, if it can, and go on in software; others go to the error state with
 * IB_EVENT_QP_FATAL. Everything is deleted, and no operation is called any
 * more on return. Works as well after metaroce_ofl_fault().
 *
 * Context: may sleep; the RTNL is not held.
 */
void metaroce_ofl_unregister(struct metaroce_ofl *ofl);

/**
 * metaroce_ofl_fault() - the device does not work any more
 * @ofl: the registration
 * @why: for the log
 *
 * From a worker, as for metaroce_ofl_unregister(), with the operations that
 * delete only. The registration stays, unused: a device that works again is
 * unregistered and registered anew.
 *
 * Context: any but NMI.
 */
void metaroce_ofl_fault(struct metaroce_ofl *ofl, const char *why);

/**
 * metaroce_ofl_complete() - a work request has completed
 * @ofl: the registration
 * @cq: the queue, between cq_add() and the return of cq_del()
 * @cqe: the completion, with qp_num of a queue pair of the device; the core
 *	fills in the time
 * @solicited: the peer has asked for an event
 *
 * With an error status the queue pair is in the error state. The completions
 * of a queue pair come in the order of its work requests, after the ring's
 * consumer index was stored.
 *
 * Context: any but NMI.
 * Return: 0; -EOVERFLOW if the queue has overrun: the queue pair goes to the
 * error state.
 */
int metaroce_ofl_complete(struct metaroce_ofl *ofl, struct metaroce_ofl_cq *cq,
			  const struct metaroce_cqe *cqe, bool solicited);

/**
 * metaroce_ofl_qp_event() - something happened to a queue pair
 * @ofl: the registration
 * @qp: the queue pair, between qp_add() and the return of qp_del()
 * @event: what happened
 *
 * Context: any but NMI.
 */
void metaroce_ofl_qp_event(struct metaroce_ofl *ofl, struct metaroce_ofl_qp *qp,
			   enum metaroce_ofl_event event);

#endif /* METAROCE_OFFLOAD_H */
