// SPDX-License-Identifier: GPL-2.0
/* Exports for drivers of NICs: the kernel's Rust has no such macro for modules. */

#include <linux/export.h>

#include "offload.h"

struct metaroce_ofl *metaroce_ofl_register(struct net_device *ndev,
					   const struct metaroce_ofl_ops *ops,
					   const struct metaroce_ofl_caps *caps,
					   void *priv)
{
	return metaroce_ofl_core_register(ndev, ops, caps, priv);
}
EXPORT_SYMBOL_GPL(metaroce_ofl_register);

void metaroce_ofl_unregister(struct metaroce_ofl *ofl)
{
	metaroce_ofl_core_unregister(ofl);
}
EXPORT_SYMBOL_GPL(metaroce_ofl_unregister);

void metaroce_ofl_fault(struct metaroce_ofl *ofl, const char *why)
{
	metaroce_ofl_core_fault(ofl, why);
}
EXPORT_SYMBOL_GPL(metaroce_ofl_fault);

int metaroce_ofl_complete(struct metaroce_ofl *ofl, struct metaroce_ofl_cq *cq,
			  const struct metaroce_cqe *cqe, bool solicited)
{
	return metaroce_ofl_core_complete(ofl, cq, cqe, solicited);
}
EXPORT_SYMBOL_GPL(metaroce_ofl_complete);

void metaroce_ofl_qp_event(struct metaroce_ofl *ofl, struct metaroce_ofl_qp *qp,
			   enum metaroce_ofl_event event)
{
	metaroce_ofl_core_qp_event(ofl, qp, event);
}
EXPORT_SYMBOL_GPL(metaroce_ofl_qp_event);
