/* SPDX-License-Identifier: GPL-2.0 */
#ifndef METAROCE_HELPERS_OFFLOAD_H
#define METAROCE_HELPERS_OFFLOAD_H

#include <linux/types.h>
#include <metaroce/offload.h>

/* In Rust: what the exported functions of the same names do. */
struct metaroce_ofl *metaroce_ofl_core_register(struct net_device *ndev,
						const struct metaroce_ofl_ops *ops,
						const struct metaroce_ofl_caps *caps,
						void *priv);
void metaroce_ofl_core_unregister(struct metaroce_ofl *ofl);
void metaroce_ofl_core_fault(struct metaroce_ofl *ofl, const char *why);
int metaroce_ofl_core_complete(struct metaroce_ofl *ofl, struct metaroce_ofl_cq *cq,
			       const struct metaroce_cqe *cqe, bool solicited);
void metaroce_ofl_core_qp_event(struct metaroce_ofl *ofl, struct metaroce_ofl_qp *qp,
				enum metaroce_ofl_event event);

#endif
