/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The headers that are bound. What of them is bound is said in
 * bindgen_parameters.
 */

#include <linux/crc32.h>
#include <linux/device.h>
#include <linux/dma-buf.h>
#include <linux/etherdevice.h>
#include <linux/hrtimer.h>
#include <linux/hrtimer_types.h>
#include <linux/if_arp.h>
#include <linux/inetdevice.h>
#include <linux/ipv6.h>
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/percpu.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/addrconf.h>
#include <net/dst.h>
#include <net/ip6_route.h>
#include <net/net_namespace.h>
#include <net/route.h>
#include <net/udp_tunnel.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_pack.h>
#include <rdma/ib_pma.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>
#include <rdma/uverbs_ioctl.h>

#include <metaroce/offload.h>

#if __has_include(<rdma/metaroce-abi.h>)
#include <rdma/metaroce-abi.h>
#endif

#include "helpers.h"
