// SPDX-License-Identifier: GPL-2.0

#include <linux/moduleparam.h>

#include "params.h"

/* Set before the module's init runs, and not changed after that. */
static char metaroce_cc[16] = "ecn";
module_param_string(cc, metaroce_cc, sizeof(metaroce_cc), 0444);
MODULE_PARM_DESC(cc, "Congestion control of devices that are added from now on: ecn, delay, fixed");

const char *metaroce_param_cc(void)
{
	return metaroce_cc;
}

static char metaroce_offload[16] = "off";
module_param_string(offload, metaroce_offload, sizeof(metaroce_offload), 0444);
MODULE_PARM_DESC(offload, "Offload of queue pairs to NICs, of devices that are added from now on: off, prefer, require");

const char *metaroce_param_offload(void)
{
	return metaroce_offload;
}
