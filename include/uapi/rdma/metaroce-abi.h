/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause) */
/*
 * MetaRoCE RDMA provider: ABI between the kernel module and the user-space
 * provider.  Rules: fixed-size types only, 64-bit members through
 * __aligned_u64, every structure a multiple of 8 bytes, padding named and
 * required to be zero on input.  Host byte order unless a member says be.
 */
#ifndef _UAPI_RDMA_METAROCE_ABI_H
#define _UAPI_RDMA_METAROCE_ABI_H

#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>

#define METAROCE_ABI_VERSION	1

/*
 * Private driver id: the kernel's enum rdma_driver_id has none for this
 * module.  Module and provider must agree on it.
 */
#define METAROCE_DRIVER_ID	0x4d52

/* UDP destination port that a device uses unless told otherwise. */
#define METAROCE_DEFAULT_UDP_PORT	24791

/*
 * Ring header: the first METAROCE_RING_HDR_SIZE bytes of each shared mapping.
 * Indices run freely modulo 2^32; slot = index & (entries - 1); entries is a
 * power of two.  Whoever owns an index stores it with release semantics; the
 * other side loads it with acquire semantics.
 *
 * SQ and RQ: user space owns producer, the kernel owns consumer and advances
 * it when a work request retires (completes or is flushed).
 * CQ: the kernel owns producer, user space owns consumer.
 */
struct metaroce_ring_hdr {
	__u32 producer;
	__u32 pad0[15];
	__u32 consumer;
	__u32 pad1[15];
	/*
	 * SQ and RQ, written by the kernel.  Non-zero: the kernel is not going
	 * to look at producer by itself; after storing producer and a full
	 * memory barrier, user space reads this and, if it is set, rings the
	 * doorbell (IB_USER_VERBS_CMD_POST_SEND without work requests, for
	 * either ring).  An RQ sets it only while the QP is in the error
	 * state, where receives are flushed as they are posted.
	 */
	__u32 need_doorbell;
	__u32 pad2[15];
	__u32 pad3[16];
};

#define METAROCE_RING_HDR_SIZE	256

struct metaroce_sge {
	__aligned_u64 addr;
	__u32 length;
	__u32 lkey;
};

enum metaroce_send_opcode {
	METAROCE_OP_RDMA_WRITE = 0,
	METAROCE_OP_RDMA_WRITE_IMM = 1,
	METAROCE_OP_SEND = 2,
	METAROCE_OP_SEND_IMM = 3,
	METAROCE_OP_RDMA_READ = 4,
	METAROCE_OP_ATOMIC_CMP_SWP = 5,
	METAROCE_OP_ATOMIC_FETCH_ADD = 6,
	METAROCE_OP_LOCAL_INV = 7,
	METAROCE_OP_BIND_MW = 8,
	METAROCE_OP_SEND_INV = 9,
	METAROCE_OP_ATOMIC_WRITE = 10,
	METAROCE_OP_FLUSH = 11,
};

enum metaroce_send_flags {
	METAROCE_SEND_FENCE = 1 << 0,
	METAROCE_SEND_SIGNALED = 1 << 1,
	METAROCE_SEND_SOLICITED = 1 << 2,
	METAROCE_SEND_INLINE = 1 << 3,
};

/*
 * Send work request: this header, then either num_sge struct metaroce_sge or,
 * with METAROCE_SEND_INLINE, inline_len bytes of data.  Slots are sq_stride
 * bytes apart.
 */
struct metaroce_send_wqe {
	__aligned_u64 wr_id;
	__u8 opcode;		/* enum metaroce_send_opcode */
	__u8 flags;		/* enum metaroce_send_flags */
	__u16 num_sge;
	__u32 inline_len;
	__u32 imm_data;		/* be32 immediate; rkey to invalidate, new rkey, flush (host order) */
	__u32 rkey;		/* of remote memory; bind: the window's so far; UD: Q_Key */
	__aligned_u64 remote_addr;	/* bind: where in the region */
	__aligned_u64 compare_add;	/* bind: length */
	__aligned_u64 swap;	/* atomic write: the value */
	__u32 bind_lkey;	/* bind: of the region; 0 with length 0; flush: length */
	__u32 bind_access;	/* bind: enum ib_uverbs_access_flags */
	__u32 ah;		/* UD: metaroce_create_ah_resp.ah */
	__u32 remote_qpn;	/* UD */
};

#define METAROCE_SEND_WQE_SIZE	64

/* Receive work request: this header, then num_sge struct metaroce_sge. */
struct metaroce_recv_wqe {
	__aligned_u64 wr_id;
	__u32 num_sge;
	__u32 reserved;
};

#define METAROCE_RECV_WQE_SIZE	16

/*
 * The kernel's enum ib_wc_flags; those of libibverbs differ from it
 * (IBV_WC_WITH_INV is 1 << 3), and the provider translates.
 */
enum metaroce_wc_flags {
	METAROCE_WC_GRH = 1 << 0,
	METAROCE_WC_WITH_IMM = 1 << 1,
	METAROCE_WC_WITH_INV = 1 << 2,
	METAROCE_WC_WITH_NETWORK_HDR_TYPE = 1 << 6,
};

/*
 * Completion; status and opcode have the values of enum ib_wc_status and enum
 * ib_wc_opcode, which are those of libibverbs too.
 */
struct metaroce_cqe {
	__aligned_u64 wr_id;
	__u32 status;
	__u32 opcode;
	__u32 byte_len;
	__u32 imm_data;		/* be32 immediate, or invalidated rkey (host order) */
	__u32 qp_num;
	__u32 wc_flags;		/* enum metaroce_wc_flags */
	__u32 src_qp;
	__u32 vendor_err;
	__aligned_u64 timestamp;	/* CLOCK_MONOTONIC, nanoseconds */
	__u32 network_hdr_type;	/* UD receive: enum rdma_network_type */
	__u32 vlan_id;		/* users in the kernel: IB_WC_WITH_VLAN */
	__u32 reserved[2];
};

#define METAROCE_CQE_SIZE	64

/*
 * Resizing a CQ moves the completions that were not polled to a new ring, to
 * its first slots.  User space polls nothing meanwhile.
 */
struct metaroce_resize_cq_resp {
	__aligned_u64 mmap_offset;
	__aligned_u64 mmap_size;
	__u32 entries;
	__u32 reserved;
};

struct metaroce_alloc_ucontext_req {
	__u32 abi_version;	/* METAROCE_ABI_VERSION of the provider */
	__u32 reserved;
};

struct metaroce_alloc_ucontext_resp {
	__aligned_u64 features;	/* none defined yet */
	__u32 max_inline;
	__u32 max_sge;
	__aligned_u64 reserved[2];
};

struct metaroce_create_cq_resp {
	__aligned_u64 mmap_offset;
	__aligned_u64 mmap_size;
	__u32 entries;
	__u32 reserved;
};

struct metaroce_create_srq_resp {
	__aligned_u64 mmap_offset;
	__aligned_u64 mmap_size;
	__u32 entries;
	__u32 stride;
	__u32 max_sge;
	__u32 reserved;
};

/*
 * A change of max_wr moves the queue to a new ring.  The command has no
 * response: response is the address of a struct metaroce_modify_srq_resp.
 * User space posts nothing meanwhile, and goes on in the new ring behind what
 * it finds there.
 */
struct metaroce_modify_srq_req {
	__aligned_u64 response;
};

struct metaroce_modify_srq_resp {
	__aligned_u64 mmap_offset;
	__aligned_u64 mmap_size;
	__u32 entries;
	__u32 stride;
};

struct metaroce_create_ah_resp {
	__u32 ah;		/* number for metaroce_send_wqe.ah */
	__u32 reserved;
};

struct metaroce_create_qp_req {
	__aligned_u64 reserved[2];
};

struct metaroce_create_qp_resp {
	__aligned_u64 sq_mmap_offset;
	__aligned_u64 sq_mmap_size;
	__aligned_u64 rq_mmap_offset;
	__aligned_u64 rq_mmap_size;
	__u32 sq_entries;
	__u32 sq_stride;
	__u32 rq_entries;
	__u32 rq_stride;
	__aligned_u64 reserved[2];
};

/*
 * Beyond verbs: methods of ioctl() (struct ib_uverbs_ioctl_hdr) on an object
 * of the driver's own.  What an attribute has beyond the structures here must
 * be zero on input, and is zeroed on output.
 */
enum metaroce_objects {
	METAROCE_OBJECT_DV = (1U << UVERBS_ID_NS_SHIFT),
};

enum metaroce_dv_methods {
	METAROCE_METHOD_QUERY_DEVICE = (1U << UVERBS_ID_NS_SHIFT),
	METAROCE_METHOD_QUERY_QP,
	METAROCE_METHOD_MODIFY_QP,
	METAROCE_METHOD_MODIFY_DEVICE,
};

enum metaroce_query_device_attrs {
	/* struct metaroce_dv_device */
	METAROCE_ATTR_QUERY_DEVICE_RESP = (1U << UVERBS_ID_NS_SHIFT),
};

enum metaroce_query_qp_attrs {
	METAROCE_ATTR_QUERY_QP_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* struct metaroce_dv_qp */
	METAROCE_ATTR_QUERY_QP_RESP,
};

enum metaroce_modify_qp_attrs {
	METAROCE_ATTR_MODIFY_QP_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* struct metaroce_dv_modify_qp */
	METAROCE_ATTR_MODIFY_QP_REQ,
};

enum metaroce_modify_device_attrs {
	/* struct metaroce_dv_modify_device */
	METAROCE_ATTR_MODIFY_DEVICE_REQ = (1U << UVERBS_ID_NS_SHIFT),
};

#define METAROCE_DV_PLANES	8

/* Laws of congestion control. */
enum metaroce_dv_law {
	METAROCE_DV_LAW_ECN = 0,
	METAROCE_DV_LAW_DELAY = 1,
	METAROCE_DV_LAW_FIXED = 2,
};

/* Who is to carry queue pairs. */
enum metaroce_dv_policy {
	/* Of a queue pair: whoever the device's policy says. */
	METAROCE_DV_POLICY_DEVICE = 0,
	METAROCE_DV_POLICY_OFF = 1,
	METAROCE_DV_POLICY_PREFER = 2,
	METAROCE_DV_POLICY_REQUIRE = 3,
};

/* Guarantees of order, bits. */
enum metaroce_dv_ordering {
	/*
	 * The last byte of an RDMA Write of the peer is in memory only when all
	 * others are, and all that the peer has sent before it.
	 */
	METAROCE_DV_ORDER_LAST_BYTE = 1 << 0,
	/*
	 * What a completion tells of is in memory, with everything before it
	 * on the queue pair.
	 */
	METAROCE_DV_ORDER_COMPLETION = 1 << 1,
};

struct metaroce_dv_device {
	/* Bits by number: those that there are, those that are up. */
	__u32 planes;
	__u32 planes_up;
	/* What connections have unless a queue pair is given others. */
	__u32 paths_per_plane;
	__u32 law;
	/* Limits of paths_per_plane, and of all paths of a connection. */
	__u32 max_paths_per_plane;
	__u32 max_paths;
	/* Bits by enum metaroce_dv_law. */
	__u32 laws;
	/* Of enum metaroce_dv_ordering: of queue pairs that ask for none. */
	__u32 ordering;
	/* Network devices by number of the plane, 0 if there is none. */
	__u32 ifindex[METAROCE_DV_PLANES];
	/* Here METAROCE_DV_DEVICE_MIN bytes end, which a caller has at least. */
	/* Bits by number: planes that are used unless a queue pair chooses. */
	__u32 used_planes;
	/* Of enum metaroce_dv_ordering: what queue pairs may ask for. */
	__u32 orderings;
	/* enum metaroce_dv_policy */
	__u32 offload;
	__u32 reserved;
};

#define METAROCE_DV_DEVICE_MIN	64

enum metaroce_dv_modify_device_mask {
	METAROCE_DV_DEVICE_PLANES = 1 << 0,
	METAROCE_DV_DEVICE_PATHS_PER_PLANE = 1 << 1,
	METAROCE_DV_DEVICE_LAW = 1 << 2,
	METAROCE_DV_DEVICE_OFFLOAD = 1 << 3,
};

/* What holds for all queue pairs that choose nothing else: CAP_NET_ADMIN. */
struct metaroce_dv_modify_device {
	__u32 mask;
	__u32 planes;
	__u32 paths_per_plane;
	__u32 law;
	__u32 offload;
	__u32 reserved;
};

enum metaroce_dv_conn_flags {
	/* The connection is the queue pair's alone. */
	METAROCE_DV_QP_OWN_CONNECTION = 1 << 0,
	/* The peer has answered. */
	METAROCE_DV_QP_ESTABLISHED = 1 << 1,
	/* A NIC carries the queue pair. */
	METAROCE_DV_QP_OFFLOADED = 1 << 2,
};

struct metaroce_dv_qp {
	/* Of enum metaroce_dv_conn_flags. */
	__u32 flags;
	/* Number of the connection, 0 if there is none. */
	__u32 connection;
	/* Planes that may be used, and those of them that are up. */
	__u32 planes;
	__u32 planes_up;
	/* As set, or what it is for all; how many the connection has. */
	__u32 paths_per_plane;
	__u32 paths;
	__u32 law;
	__u32 ordering;
	/* Here METAROCE_DV_QP_MIN bytes end, which a caller has at least. */
	/* enum metaroce_dv_policy, as set */
	__u32 offload;
	__u32 reserved;
};

#define METAROCE_DV_QP_MIN	32

enum metaroce_dv_modify_qp_mask {
	METAROCE_DV_QP_PLANES = 1 << 0,
	METAROCE_DV_QP_PATHS_PER_PLANE = 1 << 1,
	METAROCE_DV_QP_LAW = 1 << 2,
	METAROCE_DV_QP_ORDERING = 1 << 3,
	METAROCE_DV_QP_OFFLOAD = 1 << 4,
};

struct metaroce_dv_modify_qp {
	__u32 mask;
	__u32 planes;
	__u32 paths_per_plane;
	__u32 law;
	__u32 ordering;
	__u32 offload;
};

#endif /* _UAPI_RDMA_METAROCE_ABI_H */
