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

#endif /* _UAPI_RDMA_METAROCE_ABI_H */
