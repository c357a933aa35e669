/* SPDX-License-Identifier: GPL-2.0 */
/* Direct verbs, for the tests of them. */
#ifndef MRVERBS_DV_H
#define MRVERBS_DV_H

#include "mrverbs.h"

#include <infiniband/metaroce_dv.h>

extern struct dv {
	bool (*is_supported)(struct ibv_device *device);
	int (*query_device)(struct ibv_context *context, struct metaroce_dv_device_attr *attr);
	int (*modify_device)(struct ibv_context *context,
			     const struct metaroce_dv_device_attr *attr, uint32_t mask);
	int (*query_qp)(struct ibv_qp *qp, struct metaroce_dv_qp_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, const struct metaroce_dv_qp_attr *attr, uint32_t mask);
} dv;

/* Fills it in, or skips the test. */
void dv_load(void);
struct metaroce_dv_device_attr dv_device(struct host *host);
struct metaroce_dv_qp_attr dv_qp(struct end *end);

#endif /* MRVERBS_DV_H */
