/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Direct verbs of MetaRoCE devices: what verbs have no words for in connections
 * with many paths over several planes.  See metaroce_dv(7).
 */
#ifndef _METAROCE_DV_H_
#define _METAROCE_DV_H_

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

#define METAROCE_DV_MAX_PLANES 8

/* Laws of congestion control. */
enum metaroce_dv_cc {
	METAROCE_DV_CC_ECN = 0,
	METAROCE_DV_CC_DELAY = 1,
	METAROCE_DV_CC_FIXED = 2,
};

/* Who is to carry queue pairs. */
enum metaroce_dv_offload {
	/* Of a queue pair: whoever the device's policy says. */
	METAROCE_DV_OFFLOAD_DEVICE = 0,
	/* Software. */
	METAROCE_DV_OFFLOAD_OFF = 1,
	/* A NIC if one takes it. */
	METAROCE_DV_OFFLOAD_PREFER = 2,
	/* A NIC, or nobody. */
	METAROCE_DV_OFFLOAD_REQUIRE = 3,
};

/* Guarantees of order. */
enum metaroce_dv_order {
	/*
	 * The last byte of an RDMA Write of the peer is in memory when all
	 * others are, and all that the peer has sent before it.
	 */
	METAROCE_DV_LAST_BYTE_ORDERED = 1 << 0,
	/* What a completion tells of is in memory, and all before it. */
	METAROCE_DV_COMPLETION_ORDERED = 1 << 1,
};

/* Members of struct metaroce_dv_device_attr that can be set. */
enum metaroce_dv_device_attr_mask {
	METAROCE_DV_DEVICE_ATTR_PLANES = 1 << 0,
	METAROCE_DV_DEVICE_ATTR_PATHS_PER_PLANE = 1 << 1,
	METAROCE_DV_DEVICE_ATTR_CC = 1 << 2,
	METAROCE_DV_DEVICE_ATTR_OFFLOAD = 1 << 3,
};

struct metaroce_dv_device_attr {
	/* Must be 0: there are no optional members yet. */
	uint64_t comp_mask;
	/*
	 * What queue pairs have unless they are given others: bits by number
	 * of planes that are used, also of those that there are not yet; paths
	 * of a plane; the law of congestion control; enum metaroce_dv_offload.
	 */
	uint32_t used_planes;
	uint32_t paths_per_plane;
	uint32_t cc;
	uint32_t offload;
	/*
	 * The rest is only queried.
	 * Bits by number: planes that there are, and those that are up.
	 */
	uint32_t planes;
	uint32_t planes_up;
	/* Limits: paths of a plane, and of a connection. */
	uint32_t max_paths_per_plane;
	uint32_t max_paths;
	/* Bits by enum metaroce_dv_cc. */
	uint32_t cc_supported;
	/* Of enum metaroce_dv_order: always, and what can be asked for. */
	uint32_t ordering;
	uint32_t ordering_supported;
	/* Network devices by number of the plane; 0 where there is none. */
	uint32_t ifindex[METAROCE_DV_MAX_PLANES];
};

enum metaroce_dv_qp_flags {
	/* The connection to the peer is the queue pair's alone. */
	METAROCE_DV_QP_FLAG_OWN_CONNECTION = 1 << 0,
	/* The peer has answered. */
	METAROCE_DV_QP_FLAG_ESTABLISHED = 1 << 1,
	/* A NIC carries the queue pair. */
	METAROCE_DV_QP_FLAG_OFFLOADED = 1 << 2,
};

/* Members of struct metaroce_dv_qp_attr that can be set. */
enum metaroce_dv_qp_attr_mask {
	METAROCE_DV_QP_ATTR_PLANES = 1 << 0,
	METAROCE_DV_QP_ATTR_PATHS_PER_PLANE = 1 << 1,
	METAROCE_DV_QP_ATTR_CC = 1 << 2,
	METAROCE_DV_QP_ATTR_ORDERING = 1 << 3,
	METAROCE_DV_QP_ATTR_OFFLOAD = 1 << 4,
};

struct metaroce_dv_qp_attr {
	/* Must be 0: there are no optional members yet. */
	uint64_t comp_mask;
	/* Bits by number: planes that may be used. */
	uint32_t planes;
	uint32_t paths_per_plane;
	uint32_t cc;
	/* Of enum metaroce_dv_order. */
	uint32_t ordering;
	/* enum metaroce_dv_offload */
	uint32_t offload;
	/*
	 * The rest is only queried: of enum metaroce_dv_qp_flags; the planes
	 * that are up; how many paths there are; the connection's number, 0
	 * if there is none.
	 */
	uint32_t flags;
	uint32_t planes_up;
	uint32_t paths;
	uint32_t connection;
};

bool metaroce_dv_is_supported(struct ibv_device *device);

int metaroce_dv_query_device(struct ibv_context *context,
			     struct metaroce_dv_device_attr *attr);

int metaroce_dv_modify_device(struct ibv_context *context,
			      const struct metaroce_dv_device_attr *attr,
			      uint32_t attr_mask);

int metaroce_dv_query_qp(struct ibv_qp *qp, struct metaroce_dv_qp_attr *attr);

int metaroce_dv_modify_qp(struct ibv_qp *qp,
			  const struct metaroce_dv_qp_attr *attr,
			  uint32_t attr_mask);

#ifdef __cplusplus
}
#endif

#endif /* _METAROCE_DV_H_ */
