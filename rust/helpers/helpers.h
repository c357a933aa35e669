/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Static inlines and macros of the kernel that Rust code needs, as functions.
 * Everything declared here is bound by bindgen.
 */
#ifndef METAROCE_HELPERS_H
#define METAROCE_HELPERS_H

#include "ib_verbs.h"
#include "net.h"
#include "odp.h"
#include "params.h"
#include "sync.h"

#endif
