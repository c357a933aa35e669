/* SPDX-License-Identifier: GPL-2.0 */
#ifndef METAROCE_HELPERS_PARAMS_H
#define METAROCE_HELPERS_PARAMS_H

/* Parameters of types that the kernel's module macro for Rust does not have. */
const char *metaroce_param_cc(void);
const char *metaroce_param_offload(void);

#endif
