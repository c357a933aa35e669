/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What bindgen reads: libibverbs' driver interface, the module's ABI, libc. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/driver.h>
#include <rdma/metaroce-abi.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include <infiniband/metaroce_dv.h>
